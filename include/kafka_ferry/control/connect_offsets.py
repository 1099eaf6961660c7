"""Topics that Kafka Connect keeps: every record's newest value."""

from __future__ import annotations

from typing import NamedTuple

from kafka_ferry.config import Cluster
from kafka_ferry.control.topic_records import TopicRecords
from kafka_ferry.retry import retry


class StoredRecord(NamedTuple):
    """The newest record of one key in one partition; ``value`` is None for a tombstone."""

    partition: int
    key: bytes
    value: bytes | None
    at: int


def read_newest(cluster: Cluster, topic: str, partitions: int) -> tuple[list[StoredRecord], int]:
    """The newest record of each key, and the sum of all partitions' end offsets.

    With exactly-once support, Connect writes offsets in transactions: only committed ones count.

    Raises:
        FerryError: if it cannot be read, ``AccessDenied`` without READ on it.
    """
    return retry(lambda: _read_newest(cluster, topic, partitions))


def _read_newest(cluster: Cluster, topic: str, partitions: int) -> tuple[list[StoredRecord], int]:
    newest: dict[tuple[int, bytes], StoredRecord] = {}
    records = TopicRecords.whole(cluster, topic, partitions)
    for message in records:
        if (key := message.key()) is not None:
            at, number = message.timestamp()[1], message.partition()
            found = StoredRecord(number, key, message.value(), at)
            newest[number, found.key] = found
    return list(newest.values()), sum(records.ends.values())
