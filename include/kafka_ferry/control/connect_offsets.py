"""Topics that Kafka Connect keeps: every record's newest value, and new records where Connect would put them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentPartition

from kafka_ferry.config import Cluster, confluent_config
from kafka_ferry.control.raised import as_ferry_error, as_ours
from kafka_ferry.patience import patiently

_READ_S: Final = 30.0
_WRITE_S: Final = 60.0


class StoredRecord(NamedTuple):
    """The newest record of one key in one partition; ``value`` is None for a tombstone."""

    partition: int
    key: bytes
    value: bytes | None
    at: int


class OffsetRecord(NamedTuple):
    """A record to write: no value makes a tombstone; no partition, the one that Java's producer chooses for the key."""

    key: bytes
    value: bytes | None
    partition: int | None


def read_newest(cluster: Cluster, topic: str, partitions: int) -> tuple[list[StoredRecord], int]:
    """The newest record of each key, and how many offsets the topic's partitions have had together.

    Raises:
        FerryError: if it cannot be read, ``AccessDenied`` without READ on it.
    """
    return patiently(lambda: _read_newest(cluster, topic, partitions))


def _read_newest(cluster: Cluster, topic: str, partitions: int) -> tuple[list[StoredRecord], int]:
    consumer = Consumer(
        {
            **confluent_config(cluster.client_properties("consumer"), "consumer"),
            # It joins no group and commits nothing.
            "group.id": "ferry-reader",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            # With exactly-once support on, Connect writes offsets in transactions.
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )
    newest: dict[tuple[int, bytes], StoredRecord] = {}
    left, ends = set(range(partitions)), 0
    try:
        assigned = [ConfluentPartition(topic, number, OFFSET_BEGINNING) for number in left]
        consumer.assign(assigned)
        with as_ours(cluster.alias, f"reading {topic}"):
            while left and (message := consumer.poll(_READ_S)):
                error, number = message.error(), message.partition()
                if error and error.code() == KafkaError._PARTITION_EOF:
                    # Of a partition that grows there are several.
                    ends += message.offset() if number in left else 0
                    left.discard(number)
                elif error:
                    raise KafkaException(error)
                elif message.key() is not None:
                    at = message.timestamp()[1]
                    found = StoredRecord(number, message.key(), message.value(), at)
                    newest[number, found.key] = found
            if left:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    finally:
        consumer.close()
    return list(newest.values()), ends


def write_records(cluster: Cluster, topic: str, records: Iterable[OffsetRecord]) -> None:
    """Write records and wait until all of them are in the log.

    Args:
        cluster: the cluster.
        topic: the topic, which exists.
        records: the records.

    Raises:
        FerryError: what the first of them failed with that was not taken; some may have been taken.
    """
    settings = confluent_config(cluster.client_properties("producer"), "producer")
    settings.pop("transactional.id", None)
    failed: list[KafkaError] = []
    with as_ours(cluster.alias, f"writing to {topic}"):
        producer = Producer(
            settings
            | {
                "acks": "all",
                "partitioner": "murmur2_random",
                "delivery.timeout.ms": int(_WRITE_S * 1000),
                "log_level": 0,
            }
        )
        for key, value, number in records:
            chosen = {} if number is None else {"partition": number}
            producer.produce(
                topic,
                value,
                key,
                on_delivery=lambda error, _: failed.append(error) if error else None,
                **chosen,
            )
            producer.poll(0)
        if producer.flush(_WRITE_S) and not failed:
            failed.append(KafkaError(KafkaError._TIMED_OUT))
    if failed:
        raise as_ferry_error(KafkaException(failed[0]), cluster.alias, f"writing to {topic}")
