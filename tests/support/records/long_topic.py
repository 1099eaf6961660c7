"""A topic that takes so long to copy, under a rate limit, that a task can be ended in the middle of it."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import Record, create_topic, produce

PARTITIONS = 4
EACH = 100
RECORDS = PARTITIONS * EACH


def a_long_topic(broker: KafkaCluster, name: str) -> str:
    """Creates and fills it: some 260 KB; its name."""
    create_topic(broker.bootstrap, name, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        records = [Record(value=b"%d" % n * 250, partition=partition) for n in range(EACH)]
        produce(broker.bootstrap, name, records)
    return name


def fill(source: KafkaCluster, topic: str, size: int) -> None:
    """Write so many bytes to the first three partitions, in transactions, which leave gaps."""
    value = bytes(range(256)) * 4
    for number in range(size // (64 * len(value))):
        records = [Record(value=value, partition=number % 3) for _ in range(64)]
        produce(source.bootstrap, topic, records, transactional_id=topic)


def length(broker: KafkaCluster, topic: str) -> int:
    """How many offsets the topic or its copy has, also those of transactions that have not ended."""
    settings = {"isolation.level": "read_uncommitted", "group.id": "length"}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, **settings})
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition(topic, partition))[1]
            for partition in range(PARTITIONS)
        )
    finally:
        consumer.close()
