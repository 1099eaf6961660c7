"""Small compacted topics: the newest record of each key, as MirrorMaker 2 and Kafka Connect keep their own."""

from __future__ import annotations

from typing import Final, NamedTuple

from kafka_ferry.config import Cluster
from kafka_ferry.control.cluster import ClusterControl
from kafka_ferry.control.topic_records import TopicRecords
from kafka_ferry.model.plan import Creation
from kafka_ferry.retry import retried

_COMPACTED: Final = {"cleanup.policy": "compact"}


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


@retried
def newest_values(cluster: Cluster, topic: str) -> dict[bytes, bytes]:
    """The newest value of each key in a topic with one partition; keys with tombstones have none.

    Records count whatever their transactions: MirrorMaker 2 writes its topics without any.

    Raises:
        FerryError: if it cannot be read, ``AccessDenied`` without READ on it.
    """
    newest: dict[bytes, bytes] = {}
    records = TopicRecords(cluster, topic, {0: 0}, isolation="read_uncommitted")
    for message in records:
        key, value = message.key(), message.value()
        if key is not None and value is not None:
            newest[key] = value
        elif key is not None:
            newest.pop(key, None)
    return newest


class StoredRecord(NamedTuple):
    """The newest record of one key in one partition; ``value`` is None for a tombstone."""

    partition: int
    key: bytes
    value: bytes | None
    at: int


@retried
def newest_records(cluster: Cluster, topic: str, partitions: int) -> tuple[list[StoredRecord], int]:
    """The newest record of each key, and the sum of all partitions' end offsets.

    With exactly-once support, Connect writes offsets in transactions: only committed ones count.

    Raises:
        FerryError: if it cannot be read, ``AccessDenied`` without READ on it.
    """
    newest: dict[tuple[int, bytes], StoredRecord] = {}
    records = TopicRecords.whole(cluster, topic, partitions)
    for message in records:
        if (key := message.key()) is not None:
            at, number = message.timestamp()[1], message.partition()
            record = StoredRecord(number, key, message.value(), at)
            newest[number, record.key] = record
    return list(newest.values()), sum(records.ends.values())
