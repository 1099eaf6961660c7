"""What a consumer is shown of a topic, and at which offsets: the same on two clusters, or not."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kafka_sandbox.errors import SandboxError

_AT_ONCE = 1_000
_PAUSE_S = 0.1
_TIMEOUT_S = 30.0


@dataclass
class Shown:
    """What a consumer is shown of one partition.

    Attributes:
        start: the first offset of the log.
        end: the offset after the last one of the log, whether it has a record or not.
        records: how many records.
        digest: over the offset, timestamp, key and value of each.
    """

    start: int
    end: int
    records: int = 0
    digest: str = ""
    _hash: hashlib._Hash = field(default_factory=hashlib.sha256, repr=False, compare=False)

    def add(self, message: Message) -> None:
        """Count a record."""
        self.records += 1
        self._hash.update(repr(self._what(message)).encode())
        self.digest = self._hash.hexdigest()

    def _what(self, message: Message) -> tuple[object, ...]:
        return (message.offset(), message.timestamp()[1], message.key(), message.value())


def shown(bootstrap: str, topic: str, isolation: str) -> dict[int, Shown]:
    """What a consumer of the given ``isolation.level`` is shown, by partition.

    Raises:
        SandboxError: the cluster does not answer.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "demo",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        numbers = consumer.list_topics(topic).topics[topic].partitions
        bounds = {n: consumer.get_watermark_offsets(TopicPartition(topic, n)) for n in numbers}
        found = {number: Shown(*log) for number, log in bounds.items()}
        logs = [TopicPartition(topic, number, log.start) for number, log in found.items()]
        consumer.assign(logs)
        for message in until_the_end(consumer, len(logs)):
            found[message.partition() or 0].add(message)
        return found
    except KafkaException as error:
        raise SandboxError(f"{bootstrap}, while reading {topic}: {error.args[0].str()}") from None
    finally:
        consumer.close()


def until_the_end(consumer: Consumer, partitions: int) -> Iterator[Message]:
    """The records of what ``consumer`` is assigned, which are so many partitions, to their ends now.

    Raises:
        KafkaException: if the cluster does not answer.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    while partitions:
        # It waits for so many, or for so long.
        for message in consumer.consume(_AT_ONCE, _PAUSE_S):
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                partitions -= 1
            else:
                raise KafkaException(error)
            deadline = time.monotonic() + _TIMEOUT_S
        if time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
