"""Reads raw record batches, with many partitions in each fetch request.

Where a fetch goes by name although a topic's id is known (brokers before 3.1), a metadata request follows it
on its connection, of which a broker handles one request after the other. A broker forgets a deleted topic in
its metadata before it deletes the log, and learns a new topic's id before it serves the new log, or in the
same update: if it still names the expected id after it has read, what it read is of that topic. Where it does
not, the answer is the error that a fetch by id would have given, without batches.
"""

from __future__ import annotations

import select
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kafka.protocol.consumer import FetchRequest

from kafka_ferry.batches import AbortedTransaction, Batch, MalformedBatch
from kafka_ferry.batches.record_format.split import first_past
from kafka_ferry.errors import ClusterUnreachable, CorruptBatch, FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.cluster import WireCluster, foreign_answer
from kafka_ferry.wire.connections.connection import Connection
from kafka_ferry.wire.error_codes import (
    INCONSISTENT_TOPIC_ID,
    NONE,
    OFFSET_OUT_OF_RANGE,
    THROTTLED,
    UNKNOWN_TOPIC_OR_PARTITION,
    fault,
    read_fault,
)
from kafka_ferry.wire.partition_leader import as_uuid, topic_id_text, topics_request
from kafka_ferry.wire.partitions.by_leader import by_node

_READ_COMMITTED: Final = 1
_READ_UNCOMMITTED: Final = 0
# The file descriptor of a closed socket.
_CLOSED: Final = -1
# The last version with topic names.
_BY_NAME: Final = 12
_Topic = FetchRequest.FetchTopic
_Partition = FetchRequest.FetchTopic.FetchPartition


class Expected(NamedTuple):
    """What must still be true of a partition; otherwise its broker answers with an error instead of batches.

    Attributes:
        topic_id: the id of its topic, as Kafka's tools print it; "" for any topic of the name.
        leader_epoch: of the batch before the requested offset, -1 for any.
    """

    topic_id: str = ""
    leader_epoch: int = -1


ANY: Final = Expected()


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one fetch request returned for one partition.

    Attributes:
        partition: the partition.
        records: raw batches; the first may begin before the requested offset, the last may be
            truncated; empty where there is nothing, or nothing yet.
        aborted: the aborted transactions among them; none where aborted records are wanted.
        end: the offset after the last visible one: the last stable offset for ``read_committed``,
            else the high watermark.
        error: Kafka's error code, 0 for none.
        alone: whether the request was for this partition only, so that no other one has filled the answer.
        diverged_at: where the log has diverged from the one of ``Expected.leader_epoch``: it was
            truncated to there (KIP-595's diverging epoch); None where it has not.
        preferred_replica: the broker that is to be asked instead, -1 for none (KIP-392).
    """

    partition: TopicPartition
    records: bytes
    aborted: tuple[AbortedTransaction, ...]
    end: int
    error: int
    alone: bool
    diverged_at: int | None = None
    preferred_replica: int = -1

    @property
    def is_empty(self) -> bool:
        """Whether the answer says nothing of the partition but where its log ends."""
        has_news = self.records or self.diverged_at is not None or self.preferred_replica >= 0
        return self.error == NONE and not has_news

    def is_at_end(self, offset: int) -> bool:
        """Whether the visible log ends at or before ``offset``, so that nothing is to be expected there."""
        return 0 <= self.end <= offset

    @property
    def is_silent(self) -> bool:
        """Whether the broker has nothing to give for the partition, or refuses to."""
        refuses = self.error != NONE or self.diverged_at is not None
        return refuses or (self.alone and not self.records)


def fetch_one(
    cluster: WireCluster,
    node: int,
    partition: TopicPartition,
    offset: int,
    *,
    max_bytes: int,
    max_wait_ms: int = 0,
    committed: bool = True,
    expected: Expected = ANY,
) -> Fetched:
    """Fetch batches of one partition, without waiting for new ones.

    An answer without batches proves nothing (``absence.LogAnswers``).

    Args:
        cluster: the cluster to read from.
        node: the broker that leads the partition.
        partition: the partition.
        offset: the next offset to read.
        max_bytes: soft limit of the response; it always has at least one batch.
        max_wait_ms: how long the broker may wait for remote storage.
        committed: whether only committed batches are wanted (``read_committed``, KIP-98).
        expected: what must still be true of the partition.

    Raises:
        ClusterUnreachable: if the broker does not answer, or the log's start has moved past ``offset``.
        FerryError: if the partition cannot be read.
    """
    pending = send_fetch(
        cluster,
        node,
        {partition: offset},
        max_bytes=max_bytes,
        partition_max_bytes=max_bytes,
        max_wait_ms=max_wait_ms,
        expected={partition: expected},
        committed=committed,
    )
    fetched = next(pending.answers(), None)
    # A broker that throttles us answers without any partition.
    error = THROTTLED if fetched is None else fetched.error
    if fetched is None or error != NONE:
        doing = f"Reading {partition} on {cluster.alias} from offset {offset}"
        if error == OFFSET_OUT_OF_RANGE:
            raise ClusterUnreachable(f"{doing}: the log's start has moved on.")
        raise read_fault(error, doing, partition.topic)
    return fetched


def batch_past(cluster: WireCluster, fetched: Fetched, offset: int) -> Batch | None:
    """The first whole batch of an answer that reaches past ``offset``; None where there is none.

    Raises:
        CorruptBatch: on bytes that are no valid batch.
    """
    with corrupt_in(fetched.partition, cluster.alias):
        return first_past(fetched.records, offset)


@contextmanager
def corrupt_in(partition: TopicPartition, alias: str) -> Iterator[None]:
    """Name the partition, on the cluster ``alias``, whose bytes cannot be read in the body.

    Raises:
        CorruptBatch: instead of ``MalformedBatch``.
    """
    try:
        yield
    except MalformedBatch as error:
        raise CorruptBatch(f"{partition} on {alias} holds {error}.") from error


def send_fetch(
    cluster: WireCluster,
    node: int,
    offsets: Mapping[TopicPartition, int],
    *,
    max_bytes: int,
    partition_max_bytes: int,
    max_wait_ms: int = 250,
    expected: Mapping[TopicPartition, Expected] | None = None,
    committed: bool = True,
    rack: str = "",
    number: int = 0,
) -> PendingFetch:
    """Ask one broker for batches (Fetch v13, KIP-516; v12 where it is not offered or no topic id is given).

    Args:
        cluster: the cluster to read from.
        node: the broker that leads the partitions.
        offsets: the next offset to read, by partition; the broker fills the response in this
            order, so a caller rotates them to be fair.
        max_bytes: soft limit of the response; it always has at least one batch.
        partition_max_bytes: the same for each partition.
        max_wait_ms: how long the broker may wait for the first byte.
        expected: what must still be true of each partition.
        committed: whether only committed batches are wanted (``read_committed``, KIP-98).
        rack: lets a leader name a replica that is in the same one (KIP-392).
        number: which connection to the broker is used.

    Raises:
        ClusterUnreachable: if the broker cannot be reached.
    """
    checks = {tp: (expected or {}).get(tp, ANY) for tp in offsets}
    names = {check.topic_id: tp.topic for tp, check in checks.items()}
    request = _request(offsets, checks, max_bytes, partition_max_bytes)
    request.rack_id = rack
    request.max_wait_ms = max_wait_ms
    request.isolation_level = _READ_COMMITTED if committed else _READ_UNCOMMITTED
    connection = cluster.connection(node, number)
    connection.send(request, newest=_BY_NAME if "" in names else None)
    by_name = {name: id_ for id_, name in names.items() if id_ and request.API_VERSION <= _BY_NAME}
    if by_name:
        connection.send(topics_request(by_name))
    pending = PendingFetch(cluster, node, connection, frozenset(offsets), names, by_name, committed)
    connection.fetches.append(pending)
    return pending


@dataclass(eq=False)
class PendingFetch:
    """A fetch request in flight.

    Readers of several partitions may share a connection, of which a broker answers one request after the other: who
    waits for an answer takes those before it too, and keeps them for the others.

    Attributes:
        node: the broker that was asked.
        connection: the connection of its answer.
        partitions: the requested partitions.
        names: of the requested topics, by id.
        by_name: the ids that topics must still have, by name, where the request could not name them.
    """

    cluster: WireCluster
    node: int
    connection: Connection
    partitions: frozenset[TopicPartition]
    names: Mapping[str, str]
    by_name: Mapping[str, str]
    committed: bool
    _response: Any = field(default=None, init=False)
    _topics_now: Any = field(default=(), init=False)

    def answers(self) -> Iterator[Fetched]:
        """Wait for the answer, and return its content by partition.

        Raises:
            ClusterUnreachable: if the broker does not answer, or not exactly for the partitions.
            FerryError: if it refuses the request as a whole.
        """
        alias = self.cluster.alias
        while self._response is None:
            if not self.connection.fetches:
                raise ClusterUnreachable(f"{alias} did not answer: its connection was closed.")
            self.connection.fetches.popleft()._receive()
        response = self._response
        if isinstance(response, FerryError):
            raise response
        refused = self._refusals()
        if response.error_code:
            raise fault(response.error_code, f"Fetching from broker {self.node} of {alias}")
        left = set(self.partitions)
        for topic in response.responses:
            name = topic.topic or self.names.get(topic_id_text(topic.topic_id), "")
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                if partition not in left:
                    raise foreign_answer(alias, partition)
                left.remove(partition)
                if name in refused:
                    data.error_code, data.records = refused[name], b""
                yield self._parse_partition(partition, data)
        # A client over its quota gets an answer without any partition (KIP-219).
        if not response.throttle_time_ms:
            self.cluster.require_answers(left, ())

    def _receive(self) -> None:
        try:
            response = self.connection.receive()
            if self.by_name:
                self._topics_now = self.connection.receive().topics
            self._response = response
        except FerryError as error:
            # Its own reader raises it.
            self._response = error

    def _refusals(self) -> dict[str, int]:
        """Error codes of the topics that were read by name and are others by now, or gone."""
        now = {topic.name: topic for topic in self._topics_now}
        refused = {}
        for name, expected in self.by_name.items():
            if name not in now or now[name].error_code:
                refused[name] = now[name].error_code if name in now else UNKNOWN_TOPIC_OR_PARTITION
            elif topic_id_text(now[name].topic_id) not in ("", expected):
                refused[name] = INCONSISTENT_TOPIC_ID
        return refused

    def _parse_partition(self, partition: TopicPartition, data: Any) -> Fetched:
        diverging = data.diverging_epoch
        return Fetched(
            partition=partition,
            records=data.records or b"",
            aborted=tuple(
                AbortedTransaction(entry.producer_id, entry.first_offset)
                for entry in data.aborted_transactions or ()
            ),
            end=data.last_stable_offset if self.committed else data.high_watermark,
            error=data.error_code,
            alone=len(self.partitions) == 1,
            diverged_at=diverging.end_offset if diverging and diverging.end_offset >= 0 else None,
            preferred_replica=data.preferred_read_replica,
        )


def fetch_each(
    cluster: WireCluster,
    nodes: Mapping[TopicPartition, int],
    offsets: Mapping[TopicPartition, int],
    batch_bytes: int,
    *,
    committed: bool = False,
) -> list[Fetched]:
    """Fetch a batch of each of many partitions, in one request to each broker.

    Args:
        cluster: the cluster, with no request on its way.
        nodes: the broker that leads each partition.
        offsets: of these, and perhaps others, the offsets to read from.
        batch_bytes: the largest batch; a broker leaves out larger ones, except one in each answer (KIP-74).
        committed: whether only committed batches are wanted, with a list of the aborted transactions among them.

    Raises:
        FerryError: if a broker does not answer. Connections with answers still to come are closed.
    """
    partitions = by_node(nodes)
    cluster.open(partitions)
    try:
        pending = [
            send_fetch(
                cluster,
                node,
                {tp: offsets[tp] for tp in some},
                max_bytes=batch_bytes * len(some),
                partition_max_bytes=batch_bytes,
                max_wait_ms=0,
                committed=committed,
            )
            for node, some in partitions.items()
        ]
        return [fetched for fetch in pending for fetched in fetch.answers()]
    except BaseException:
        cluster.drop_busy()
        raise


def await_answers(fetches: Iterable[PendingFetch], timeout_s: float) -> list[PendingFetch]:
    """The fetches whose brokers have begun to answer, or have disconnected; waits until there is one."""
    by_file = {fetch.connection.fileno: fetch for fetch in fetches}
    if closed := by_file.keys() & {_CLOSED}:
        return [by_file[file] for file in closed]
    poll = select.poll()
    for file in by_file:
        poll.register(file, select.POLLIN)
    return [by_file[file] for file, _ in poll.poll(timeout_s * 1000)]


def _request(
    offsets: Mapping[TopicPartition, int],
    checks: Mapping[TopicPartition, Expected],
    max_bytes: int,
    partition_max_bytes: int,
) -> Any:
    topics: dict[tuple[str, str], list[object]] = defaultdict(list)
    for tp, offset in offsets.items():
        topics[tp.topic, checks[tp].topic_id].append(
            _Partition(
                partition=tp.partition,
                current_leader_epoch=-1,
                fetch_offset=offset,
                last_fetched_epoch=checks[tp].leader_epoch,
                log_start_offset=-1,
                partition_max_bytes=partition_max_bytes,
            )
        )
    return FetchRequest(
        replica_id=-1,
        min_bytes=1,
        max_bytes=max_bytes,
        session_id=0,
        session_epoch=-1,
        topics=[
            _Topic(topic=name, topic_id=as_uuid(topic_id), partitions=partitions)
            for (name, topic_id), partitions in topics.items()
        ],
        forgotten_topics_data=[],
    )
