"""A consumer group that reads on one cluster, and could continue on the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from kafka_sandbox.demo.offsets import Shown, until_the_end
from kafka_sandbox.errors import SandboxError

GROUP = "billing"
TOPIC = "orders"


class Unread(Shown):
    """What the group has not read of one partition: ``start`` is its offset, or the log's start.

    The digest leaves offsets out, since they differ between the clusters.
    """

    def _what(self, message: Message) -> tuple[object, ...]:
        return (message.timestamp()[1], message.key(), message.value())


def read_some(bootstrap: str) -> int:
    """Let the group read nine tenths of what it has not read of each partition, and commit.

    Returns:
        How many records it has read.

    Raises:
        SandboxError: the cluster does not answer.
    """
    with _consumer(bootstrap) as consumer:
        left = _unread(consumer, TOPIC)
        upto = {number: it.start + (it.end - it.start) * 9 // 10 for number, it in left.items()}
        read: int = sum(
            (message.offset() or 0) < upto[message.partition() or 0]
            for message in _read(consumer, TOPIC, left)
        )
        offsets = [TopicPartition(TOPIC, number, offset) for number, offset in upto.items()]
        consumer.commit(offsets=offsets, asynchronous=False)
        return read


def unread(bootstrap: str, topic: str) -> dict[int, Unread]:
    """What the group would be given of ``topic`` if it began to read now, by partition.

    Raises:
        SandboxError: the cluster does not answer.
    """
    with _consumer(bootstrap) as consumer:
        found = _unread(consumer, topic)
        for message in _read(consumer, topic, found):
            found[message.partition() or 0].add(message)
        return found


def _unread(consumer: Consumer, topic: str) -> dict[int, Unread]:
    numbers = consumer.list_topics(topic).topics[topic].partitions
    found = {}
    for committed in consumer.committed([TopicPartition(topic, number) for number in numbers]):
        start, end = consumer.get_watermark_offsets(committed)
        found[committed.partition] = Unread(max(start, committed.offset), end)
    return found


def _read(consumer: Consumer, topic: str, unread: dict[int, Unread]) -> Iterator[Message]:
    consumer.assign([TopicPartition(topic, number, it.start) for number, it in unread.items()])
    return until_the_end(consumer, len(unread))


@contextmanager
def _consumer(bootstrap: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        yield consumer
    except KafkaException as error:
        said = error.args[0].str()
        raise SandboxError(f"{bootstrap}, while {GROUP} reads {TOPIC}: {said}") from None
    finally:
        consumer.close()
