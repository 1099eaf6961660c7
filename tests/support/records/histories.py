"""Records that say which part of a topic's history they are of, so that a test reads as one."""

from __future__ import annotations

from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import Record, read_all


def named(part: str, count: int) -> list[Record]:
    """The records ``part 0``, ``part 1`` ..."""
    return [Record(key=b"%d" % i, value=text.encode()) for i, text in enumerate(told(part, count))]


def told(part: str, count: int, *, since: int = 0) -> list[str]:
    """Their values, from the number ``since`` on."""
    return [f"{part} {i}" for i in range(since, count)]


def values(broker: KafkaCluster, topic: str, partition: int = 0) -> list[str]:
    """The values that a consumer reads from a partition."""
    return [
        (record.value or b"").decode() for record in read_all(broker.bootstrap, topic)[partition]
    ]
