"""What an answer proves of offsets that have no record: the one place where that is decided."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from kafka_ferry.batches import MalformedBatch
from kafka_ferry.batches.record_format.split import first_past
from kafka_ferry.errors import FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import RETRY_S, at_most
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.partitions.fetch import ANY, Expected, Fetched, batch_past, fetch_one
from kafka_ferry.wire.partitions.list_offsets import local_start, local_starts

LOCAL_FOR_S: Final = 1.0
"""So long a broker's word counts that it has an offset on its own disk: a compacted log has many gaps."""
REMOTE_WAIT_MS: Final = 5_000
"""How long a broker may wait for remote storage, once it has given nothing; before Kafka 3.8 it heeds that."""
REMOTE_PATIENCE: Final = 5
"""How many times as long as others a partition may give nothing, if only remote storage has what comes next: over
its quota, a broker serves one reader after another."""
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0


class Unanswered(FerryError):
    """A broker gives no records, although its log goes on by its own word."""

    transient = True


class LogAnswer(NamedTuple):
    """An answer that says what a log holds from an offset on.

    Attributes:
        fetched: the answer.
        empty_to: the log has no batch from the offset on up to here, as was proved; the offset itself where
            the answer has a batch, or the log ends.
    """

    fetched: Fetched
    empty_to: int


class NextBatch(NamedTuple):
    """A batch after an offset.

    Attributes:
        start: its first offset, or the one that was asked for where that is inside of it.
        leader_epoch: in which it was written, -1 where that is not known.
    """

    start: int
    leader_epoch: int = -1


class LogAnswers:
    """Asks for the batches of one log until the answer says something.

    **An absence is proved.** An offset of a log has no record only if

    A. a batch after it was read, in an answer for that offset or one before it, and the broker has the offset on its
       own disk: of that it leaves none out, but it passes over a segment that remote storage lacks, or has in part;
    B. or the log's start, by the broker's word, is past it;
    C. or a batch that was read covers it: a marker, or what compaction has left of a batch.

    An empty answer without an error is none of these. A broker with tiered storage (KIP-405) gives it where
    remote storage is slower than ``remote.fetch.max.wait.ms``, or over its quota; then it is asked again, for
    longer if the offset is before the first one on its own disk, and at last ``Unanswered`` is raised. The last
    batch of a log is never compacted away, so that its offsets are always proved by A or C. Only below the last
    stable offset there may be nothing, where the batch after it belongs to an open transaction: a
    ``read_uncommitted`` answer shows that batch.

    It does not say why a proved offset has no record.

    Args:
        cluster: the cluster, with no request on its way to ``node``.
        node: the broker that leads the partition.
        partition: the partition.
        ask: fetches from an offset on, and lets the broker wait for so many milliseconds.
        expected: what must still be true of the partition.
    """

    def __init__(
        self,
        cluster: WireCluster,
        node: int,
        partition: TopicPartition,
        ask: Callable[[int, int], Fetched],
        expected: Expected = ANY,
    ) -> None:
        self._cluster, self._node, self._partition, self._ask = cluster, node, partition, ask
        self._expected = expected
        self._local_start, self._asked_at = 0, -math.inf

    def at(self, offset: int) -> LogAnswer:
        """The answer from ``offset`` on.

        Raises:
            Unanswered: if the broker gives nothing for a minute, though its log goes on there; for five, where
                it has to read remote storage.
            FerryError: what ``ask`` raises.
        """
        began, patience_s = time.monotonic(), at_most(RETRY_S)
        pause_s, wait_ms, remote_to = _FIRST_PAUSE_S, 0, 0
        while True:
            fetched = self._ask(offset, wait_ms)
            following = batch_after_gap(fetched, offset)
            if not following and (fetched.is_at_end(offset) or has_batch(fetched, offset)):
                return LogAnswer(fetched, offset)
            has_gap, known_to = following is not None, offset
            if not following:
                following = next_batch(
                    self._cluster, self._node, self._partition, offset, self._expected
                )
                known_to = min(following.start, fetched.end)
                has_gap = known_to > offset
            if has_gap and not self._is_remote(offset):
                return LogAnswer(fetched, known_to)
            waited_s = time.monotonic() - began
            if waited_s > patience_s and remote_to <= offset:
                nodes = {self._partition: self._node}
                remote_to = local_starts(self._cluster, nodes).get(self._partition, 0)
            if waited_s > patience_s * (REMOTE_PATIENCE if remote_to > offset else 1):
                why = silence(self._partition, offset, fetched.end, remote_to)
                if following.start > offset:
                    why = f"{self._partition}: {hole(offset, following.start)}"
                raise Unanswered(f"{self._cluster.alias}: {why}")
            time.sleep(pause_s)
            pause_s, wait_ms = min(2 * pause_s, _LONGEST_PAUSE_S), REMOTE_WAIT_MS

    def _is_remote(self, offset: int) -> bool:
        """Whether only remote storage has an offset, by the broker, which is asked now and then."""
        if offset >= self._local_start and time.monotonic() - self._asked_at >= LOCAL_FOR_S:
            self._local_start = local_start(self._cluster, self._node, self._partition)
            self._asked_at = time.monotonic()
        return offset < self._local_start


def batch_after_gap(fetched: Fetched, offset: int) -> NextBatch | None:
    """The first batch of an answer past ``offset``, where that is not in it; None where there is none."""
    try:
        batch = first_past(fetched.records, offset)
    except MalformedBatch:
        return None
    if batch is None or batch.header.base_offset <= offset:
        return None
    return NextBatch(batch.header.base_offset, batch.header.leader_epoch)


def hole(offset: int, end: int) -> str:
    """The words about offsets that remote storage gives nothing of, although it has a batch after them."""
    return (
        f"its remote storage gives nothing of the offsets [{offset}, {end}), and has what follows: is a segment "
        "missing there, or not whole?"
    )


def has_batch(fetched: Fetched, offset: int) -> bool:
    """Whether an answer has a batch that reaches past ``offset``, or bytes that are no batch."""
    try:
        return first_past(fetched.records, offset) is not None
    except MalformedBatch:
        return True


def next_batch(
    cluster: WireCluster,
    node: int,
    partition: TopicPartition,
    offset: int,
    expected: Expected = ANY,
) -> NextBatch:
    """The first batch after ``offset``, of open transactions too; one at ``offset`` while nothing says so.

    Args:
        cluster: the cluster, with no request on its way to ``node``.
        node: the broker that leads the partition.
        partition: the partition.
        offset: an offset for which a ``read_committed`` answer was empty.
        expected: what must still be true of the partition.

    Raises:
        FerryError: if the partition cannot be read.
    """
    fetched = fetch_one(
        cluster, node, partition, offset, max_bytes=1, committed=False, expected=expected
    )
    batch = batch_past(cluster, fetched, offset)
    if batch is None:
        return NextBatch(offset)
    return NextBatch(max(offset, batch.header.base_offset), batch.header.leader_epoch)


def silence(partition: TopicPartition, offset: int, end: int, remote_to: int = 0) -> str:
    """The sentence about a broker that gives nothing at ``offset`` of a log.

    Args:
        partition: the partition.
        offset: the offset that was asked for.
        end: where the log ends, by the broker's word.
        remote_to: where the log begins on the broker's own disk, as far as that is known.
    """
    known = f"{partition} ends at offset {end} by its broker's word, which gave no records from offset {offset} on, "
    if remote_to <= offset:
        return (
            f"{known}nor an error. Is its remote storage slow (remote.fetch.max.wait.ms) or over its quota "
            "(remote.log.manager.fetch.max.bytes.per.second)?"
        )
    return (
        f"{known}nor an error: its remote storage, which alone has those before offset {remote_to}, is slow or over "
        "its quota. Raise remote.fetch.max.wait.ms or remote.log.manager.fetch.max.bytes.per.second on the brokers "
        "of that cluster; the next run goes on there."
    )
