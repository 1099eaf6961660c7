"""Small compacted topics: the newest record of each key, as MirrorMaker 2 and Kafka Connect keep their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kafka_ferry.config import Cluster
from kafka_ferry.control.cluster import ClusterControl
from kafka_ferry.control.topic_records import TopicRecords
from kafka_ferry.control.wire_records import WireRecord
from kafka_ferry.errors import FerryError
from kafka_ferry.model.plan import Creation
from kafka_ferry.retry import retry_calls

_COMPACTED: Final = {"cleanup.policy": "compact"}
# A few packed kilobytes may have any number of keys and values.
_MOST: Final = 1024 * 2**20
_OVERHEAD: Final = 300


def create_compacted(control: ClusterControl, topic: str, replication_factor: int) -> None:
    """Create the topic, with one partition, if it does not exist.

    Args:
        control: the cluster.
        topic: the topic's name.
        replication_factor: as many replicas, but never more than there are brokers; -1 for the
            brokers' default.

    Raises:
        FerryError: if it does not exist and cannot be created, ``AccessDenied`` without permission.
    """
    if topic not in control.unknown([topic]):
        return
    replicas = min(replication_factor, control.brokers())
    creation = Creation(topic, 1, replicas, _COMPACTED)
    for error in control.create_topics([creation]).values():
        raise error


class StoredRecord(NamedTuple):
    """The newest record of one key in one partition; ``value`` is None for a tombstone."""

    partition: int
    key: bytes
    value: bytes | None
    at: int

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        return _OVERHEAD + len(self.key) + len(self.value or b"")


@retry_calls
def newest_values(cluster: Cluster, topic: str) -> dict[bytes, bytes]:
    """The newest value of each key in a topic with one partition; keys with tombstones have none.

    Records count whatever their transactions: MirrorMaker 2 writes its topics without any.

    Raises:
        FerryError: if it cannot be read or holds too much, ``AccessDenied`` without READ on it.
    """
    newest = _newest(TopicRecords(cluster, topic, {0: 0}, isolation="read_uncommitted"), topic)
    return {it.key: it.value for it in newest if it.value is not None}


@retry_calls
def newest_records(cluster: Cluster, topic: str, partitions: int) -> tuple[list[StoredRecord], int]:
    """The newest record of each key, and the sum of all partitions' end offsets.

    With exactly-once support, Connect writes offsets in transactions: only committed ones count.

    Raises:
        FerryError: if it cannot be read or holds too much, ``AccessDenied`` without READ on it.
    """
    records = TopicRecords.whole(cluster, topic, partitions)
    return _newest(records, topic), sum(records.ends.values())


def _newest(records: Iterable[WireRecord], topic: str) -> list[StoredRecord]:
    newest: dict[tuple[int, bytes], StoredRecord] = {}
    size = 0
    for message in records:
        if (key := message.key()) is None:
            continue
        record = StoredRecord(message.partition(), key, message.value(), message.timestamp()[1])
        before = newest.get((record.partition, key))
        size += record.size - (before.size if before else 0)
        if size > _MOST:
            raise FerryError(
                f"The newest records of {topic} have more than {_MOST // 2**20:,} MiB.",
                advice="Find out who writes there: whose records have keys or values of that size?",
            )
        newest[record.partition, key] = record
    return list(newest.values())
