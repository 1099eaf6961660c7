"""Consumers of every kind of group, and what groups have committed, seen past Kafka Ferry's own way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Message, ShareConsumer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from kafka_ferry.config import Cluster
from kafka_ferry.config.client.cluster import ClientProperties
from kafka_ferry.model.ranges import TopicPartition
from tests.support.waiting import wait_until

Protocol = Literal["classic", "consumer"]


def cluster_of(broker: Cluster, alias: str = "there") -> Cluster:
    """The broker as a flow's file would name it."""
    return Cluster(
        alias=alias, properties=ClientProperties({"bootstrap.servers": broker.bootstrap})
    )


@contextmanager
def member(
    broker: Cluster, group: str, topic: str, protocol: Protocol = "classic"
) -> Iterator[Consumer]:
    """The only member of a group, which has all partitions of a topic; it commits nothing by itself."""
    consumer = _consumer(broker, group, protocol)
    consumer.subscribe([topic])

    def has_joined() -> bool:
        consumer.poll(0.05)
        return bool(consumer.assignment())

    try:
        wait_until(has_joined)
        yield consumer
    finally:
        consumer.close()


def commit_alone(broker: Cluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commits as a simple consumer does: one that is no member of the group."""
    consumer = _consumer(broker, group)
    partitions = [ConfluentPartition(tp.topic, tp.partition, at) for tp, at in offsets.items()]
    consumer.commit(offsets=partitions, asynchronous=False)
    consumer.close()


def committed_alone(
    broker: Cluster, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """What Kafka's own client says that a group has committed of these partitions."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    wanted = [ConfluentPartition(tp.topic, tp.partition) for tp in partitions]
    request = [ConsumerGroupTopicPartitions(group, wanted)]
    found = client.list_consumer_group_offsets(request)[group].result()
    return {
        TopicPartition(tp.topic, tp.partition): tp.offset
        for tp in found.topic_partitions
        if tp.offset >= 0
    }


def first_read(
    broker: Cluster, group: str, topic: str, protocol: Protocol = "classic"
) -> tuple[int, int]:
    """Partition and offset of the first record that a new member of a group is given."""
    consumer = _consumer(broker, group, protocol)
    consumer.subscribe([topic])
    read: list[Message] = []

    def has_read() -> bool:
        read.extend(consumer.consume(1, timeout=0.1))
        return bool(read)

    try:
        wait_until(has_read)
        return _place(read[0])
    finally:
        consumer.close()


def read_shared(broker: Cluster, group: str, topic: str, count: int) -> set[tuple[int, int]]:
    """Partitions and offsets of so many records, or some more, that a share group hands out; acknowledges them."""
    consumer = ShareConsumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 0}
    )
    consumer.subscribe([topic])
    read: set[tuple[int, int]] = set()

    def has_read() -> bool:
        read.update(_place(message) for message in consumer.poll(0.2))
        consumer.commit_sync()
        return len(read) >= count

    try:
        wait_until(has_read)
        return read
    finally:
        consumer.close()


def _consumer(broker: Cluster, group: str, protocol: Protocol = "classic") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 3,
        }
    )


def _place(message: Message) -> tuple[int, int]:
    assert message.error() is None
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset
