"""Topics of known content, written as a producer would that batches in some way."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

Headers = list[tuple[str, bytes]]
Record = tuple[int, bytes | None, bytes, Headers]
"""Partition, key, value and headers."""


MARK = "test"
"""The header of marked records."""


@dataclass(frozen=True)
class BenchmarkTopic:
    """A topic, and how its records are written.

    Attributes:
        name: of the topic.
        partitions: each gets the same share of the records.
        size: bytes of a value, which lz4 shrinks by about a half.
        batch: the producer's ``batch.size`` in bytes.
        transaction: records in each of the producer's transactions, over all partitions; 0 for none.
        fields: whether values are JSON objects, with an email address and other fields.
        marked: one record in so many has the header ``MARK``; 0 for none.
        schema_id: stands in front of each value as serializers write it; 0 for none.
    """

    name: str
    partitions: int
    size: int = 1_000
    batch: int = 1_000_000
    transaction: int = 0
    fields: bool = False
    marked: int = 0
    schema_id: int = 0

    def create(self, bootstrap: str) -> BenchmarkTopic:
        """Create it, empty."""
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
        admin.create_topics([NewTopic(self.name, self.partitions, 1)])[self.name].result()
        return self

    def write(self, bootstrap: str, records: int) -> None:
        """Append so many records."""
        config: dict[str, str | int] = {
            "bootstrap.servers": bootstrap,
            "compression.type": "lz4",
            "batch.size": self.batch,
            "linger.ms": 50,
        }
        if self.transaction:
            config |= {"transactional.id": self.name, "linger.ms": 1, "retry.backoff.ms": 5}
        values = [self._value(number) for number in range(2_000)]
        produce(
            config,
            self.name,
            (
                (n % self.partitions, b"%d" % n, values[n % 2_000], self._headers(n))
                for n in range(records)
            ),
            transaction=self.transaction,
        )

    def _value(self, number: int) -> bytes:
        random = os.urandom(self.size // 2).hex()
        if self.schema_id:
            return b"\0" + self.schema_id.to_bytes(4, "big") + random.encode()
        if not self.fields:
            return random.encode()
        half = self.size // 2
        fields = {
            "id": number,
            "email": f"{number}@example.org",
            "a": random[:half],
            "b": random[half:],
        }
        return json.dumps(fields).encode()

    def _headers(self, number: int) -> Headers:
        return [(MARK, b"1")] if self.marked and number % self.marked == 0 else []


def produce(
    config: dict[str, str | int], topic: str, records: Iterable[Record], *, transaction: int = 0
) -> None:
    """Write records as fast as the broker takes them, in transactions of so many if not of 0."""
    producer = Producer(config | {"queue.buffering.max.messages": 200_000, "log_level": 3})
    if transaction:
        producer.init_transactions()
        producer.begin_transaction()
    for number, record in enumerate(records, 1):
        _enqueue(producer, topic, record)
        producer.poll(0)
        if transaction and number % transaction == 0:
            producer.commit_transaction()
            producer.begin_transaction()
    if transaction:
        producer.commit_transaction()
    producer.flush()


def _enqueue(producer: Producer, topic: str, record: Record) -> None:
    partition, key, value, headers = record
    while True:
        try:
            producer.produce(topic, value, key, partition=partition, headers=headers)
            return
        except BufferError:
            producer.poll(0.05)
