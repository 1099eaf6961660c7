"""The records of small topics over the data plane's connections; written there for logins that librdkafka lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from kafka.partitioner.default import murmur2

from kafka_ferry.batches import (
    Batch,
    Record,
    each_record,
    for_producer,
    key_value_of,
)
from kafka_ferry.batches.record_format.content import Content
from kafka_ferry.batches.record_format.records import fitting_batches
from kafka_ferry.clock import now_ms
from kafka_ferry.config import Cluster
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.retry import retry
from kafka_ferry.wire import WireCluster, connect
from kafka_ferry.wire.error_codes import fault
from kafka_ferry.wire.partition_leader import topics_request
from kafka_ferry.wire.partitions.fetch import corrupt_in
from kafka_ferry.wire.partitions.partition_log import leader_of, partition_log
from kafka_ferry.wire.partitions.scan import (
    RECORD_BYTES,
    committed_batches,
    retried_batches,
    stored_batches,
)
from kafka_ferry.wire.produce import produce

_MAX_BYTES: Final = 900_000
_UNCOMPRESSED: Final = 0
_CREATE_TIME: Final = 1


class WireRecord(NamedTuple):
    """A record, with the methods of confluent-kafka's ``Message`` that the control plane uses."""

    at: TopicPartition
    record: Record
    content: tuple[bytes | None, bytes | None]

    def partition(self) -> int:
        """Its partition's number."""
        return self.at.partition

    def offset(self) -> int:
        """Its offset."""
        return self.record[0]

    def timestamp(self) -> tuple[int, int]:
        """What kind of time it has, and its time in milliseconds since 1970."""
        return _CREATE_TIME, self.record[1]

    def key(self) -> bytes | None:
        """Its key."""
        return self.content[0]

    def value(self) -> bytes | None:
        """Its value; None of a tombstone."""
        return self.content[1]


class NewRecord(NamedTuple):
    """A record to write.

    Attributes:
        key: its key.
        value: its value; None makes a tombstone.
        partition: where; None for the partition that Java's producer chooses for the key.
        at: its timestamp in milliseconds since 1970; None for now.
    """

    key: bytes
    value: bytes | None
    partition: int | None = 0
    at: int | None = None


def read_partition(
    cluster: Cluster, partition: TopicPartition, start: int, *, committed: bool
) -> Iterator[WireRecord | int]:
    """The records of a partition from ``start`` on, or from its log's start; then its log's end.

    Args:
        cluster: the cluster.
        partition: the partition.
        start: the first offset to read.
        committed: whether records of open or aborted transactions are left out.

    Raises:
        FerryError: if they cannot be read for a minute.
    """
    with connect(cluster) as wire:
        log = retry(partial(partition_log, wire, partition))
        start = max(start, log.start)

        def open_at(at: int) -> Iterator[Batch]:
            now = partition_log(wire, partition)
            if committed:
                return committed_batches(wire, now, at)
            return stored_batches(wire, now, at, log.end)

        for batch in retried_batches(open_at, start) if start < log.end else ():
            if batch.header.is_control:
                continue
            with corrupt_in(partition, cluster.alias):
                for record in each_record(batch, RECORD_BYTES):
                    if start <= record[0] < log.end:
                        yield WireRecord(partition, record, key_value_of(record[3]))
        yield log.end


def append(cluster: Cluster, topic: str, records: Sequence[NewRecord]) -> None:
    """``topic_records.append_records``."""
    with connect(cluster, "producer") as wire:
        chosen: dict[int, list[Record]] = {}
        count = (
            _partitions(wire, topic) if any(record.partition is None for record in records) else 0
        )
        now = now_ms()
        for record in records:
            number = (
                _partition_of(record.key, count) if record.partition is None else record.partition
            )
            content = Content(record.key, record.value).encode()
            at = now if record.at is None else record.at
            chosen.setdefault(number, []).append((0, at, b"\0", content))
        for number, some in chosen.items():
            for batch, _ in fitting_batches(some, _UNCOMPRESSED, _MAX_BYTES):
                sent = for_producer(
                    batch, producer_id=-1, epoch=-1, sequence=-1, transactional=False
                )
                retry(partial(_write, wire, TopicPartition(topic, number), sent))


def _write(wire: WireCluster, partition: TopicPartition, batch: bytes) -> None:
    with wire.forget_on_error():
        leader = leader_of(wire, partition, recent=True, operation="WRITE")
        if code := produce(wire, leader, partition, batch).error_code:
            doing = f"{wire.alias}, while writing to {partition.topic}"
            raise fault(code, doing, Right.topic("WRITE", partition.topic))


def _partitions(wire: WireCluster, topic: str) -> int:
    request = partial(topics_request, [topic])
    (entry,) = retry(lambda: wire.ask_any(request)).topics
    if entry.error_code:
        doing = f"{wire.alias}, while writing to {topic}"
        raise fault(entry.error_code, doing, Right.topic("WRITE", topic))
    return len(entry.partitions)


def _partition_of(key: bytes, partitions: int) -> int:
    """As Java's producer chooses: ``BuiltInPartitioner.partitionForKey``."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)
