"""Topics and records for a test, and an independent reader of what became of them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.everywhere import wait_for_config, wait_for_topic
from tests.support.waiting import wait_until

Headers = tuple[tuple[str, bytes | None], ...]

_TIMESTAMP_TYPES = {
    TIMESTAMP_CREATE_TIME: "CreateTime",
    TIMESTAMP_LOG_APPEND_TIME: "LogAppendTime",
    TIMESTAMP_NOT_AVAILABLE: "NoTimestamp",
}


@dataclass(frozen=True)
class Record:
    """A record to write.

    Attributes:
        timestamp: milliseconds since 1970; None for the time of writing.
        partition: None for the one that the key's hash says, as Java's producer would.
    """

    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int | None = None


@dataclass(frozen=True)
class ConsumedRecord:
    """A record as a consumer sees it.

    Attributes:
        timestamp: milliseconds since 1970, -1 for none.
        timestamp_type: ``CreateTime`` or ``LogAppendTime``, as the topic's config has it;
            ``NoTimestamp`` for message format v0.
    """

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    timestamp_type: str


def create_topic(
    bootstrap: str, name: str, partitions: int = 1, replicas: int = -1, **configs: str
) -> None:
    """Creates a topic; the dots of a config's name are underscores here (``segment_ms="1"``).

    It has a replica on each of up to three brokers; ones before Kafka 2.4 must be told how many.
    """
    config = {key.replace("_", "."): value for key, value in configs.items()}
    client = AdminClient({"bootstrap.servers": bootstrap})
    tries = 0

    def is_made() -> bool:
        nonlocal tries
        tries += 1
        made = client.create_topics([NewTopic(name, partitions, replicas, config=config)])[name]
        try:
            made.result()
        except KafkaException as refused:
            error = refused.args[0]
            # An answer that was lost may have been a yes.
            if error.code() == KafkaError.TOPIC_ALREADY_EXISTS and tries > 1:
                return True
            if not error.retriable() and error.code() != KafkaError._DESTROY_BROKER:
                raise
            return False
        return True

    wait_until(is_made)
    wait_for_topic(bootstrap, name, partitions)


def set_config(broker: KafkaCluster, topic: str, name: str, value: str) -> None:
    """Sets one config of a topic."""
    change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.incremental_alter_configs([resource])[resource].result()
    wait_for_config(broker.bootstrap, topic, name, value)


def overrides(broker: KafkaCluster, topic: str) -> dict[str, str]:
    """What is set on the topic itself."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    entries = client.describe_configs([resource])[resource].result()
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: str(entry.value) for name, entry in entries.items() if entry.source == own}


def delete_before(broker: KafkaCluster, topic: str, offset: int, partition: int = 0) -> None:
    """Deletes the records of a partition before an offset."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in client.delete_records([TopicPartition(topic, partition, offset)]).values():
        future.result()


def delete_topic(broker: KafkaCluster, topic: str) -> None:
    """Deletes a topic; returns when each broker has forgotten it."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.delete_topics([topic])[topic].result()
    wait_for_topic(broker.bootstrap, topic, 0)


def delete_all_topics(broker: KafkaCluster) -> None:
    """Deletes all topics that are not Kafka's own; returns when one broker has forgotten them."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap})

    def topics() -> list[str]:
        listed = client.list_topics(timeout=10).topics
        return [name for name in listed if not name.startswith("__")]

    if left := topics():
        for future in client.delete_topics(left).values():
            future.result()
        wait_until(lambda: not topics())


def recreate_topic(broker: KafkaCluster, topic: str, partitions: int = 1, **configs: str) -> None:
    """Deletes a topic and creates another one of its name."""
    delete_topic(broker, topic)
    create_topic(broker.bootstrap, topic, partitions, **configs)


def add_partitions(broker: KafkaCluster, topic: str, count: int) -> None:
    """Grows a topic to ``count`` partitions; returns when all of them have a leader."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_partitions([NewPartitions(topic, count)])[topic].result()
    wait_for_topic(broker.bootstrap, topic, count)


def produce(
    bootstrap: str,
    topic: str,
    records: Iterable[Record],
    *,
    compression: str = "none",
    idempotent: bool = False,
    transactional_id: str | None = None,
    abort: bool = False,
) -> None:
    """Writes the records, in one transaction where there is a ``transactional_id``.

    Returns when all of them are in the log and, after a transaction, its markers too.

    Args:
        idempotent: whether the batches carry a producer id and sequence numbers, as those of a
            transaction always do.
        abort: aborts the transaction, with all records in the log before it.
    """
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "compression.type": compression,
        "partitioner": "murmur2_random",
        "enable.idempotence": idempotent or transactional_id is not None,
        # One that is tried again must not come after those that were sent later.
        "max.in.flight.requests.per.connection": 1,
        "on_delivery": _raise,
        # By default a transaction's steps wait for each other for a second.
        "retry.backoff.ms": 10,
        "reconnect.backoff.ms": 10,
        "log_level": 3,
    }
    if transactional_id is None:
        _write(Producer(config), topic, records)
        return
    config["transactional.id"] = transactional_id
    producer = _logged_in(config)
    producer.begin_transaction()
    _write(producer, topic, records)
    if abort:
        producer.abort_transaction()
    else:
        producer.commit_transaction()
    # The broker answers before it has written the markers; the next login waits for them.
    _logged_in(config)


def begin_transaction(
    bootstrap: str,
    transactional_id: str,
    topic: str = "",
    *records: Record,
    timeout_ms: int = 60_000,
) -> Producer:
    """A producer with an open transaction that holds ``records``; whoever had the id before is fenced."""
    producer = _logged_in(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "retry.backoff.ms": 10,
            "log_level": 0,
        }
    )
    producer.begin_transaction()
    _write(producer, topic, records)
    return producer


def read_all(
    bootstrap: str, topic: str, *, isolation: str = "read_committed", timeout: float = 30
) -> dict[int, list[ConsumedRecord]]:
    """Reads every partition from its start to its end, or to its first open transaction.

    Args:
        isolation: ``read_committed`` or ``read_uncommitted``.
        timeout: seconds without any news.

    Returns:
        By partition, empty ones too, the records in the order of their offsets.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "read-all",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "check.crcs": True,
            # Of one that is cut, a broker may leave aborted transactions out (test_replicas.py).
            "max.partition.fetch.bytes": 48 * 1024 * 1024,
            # The end of a partition is only known from a fetch that waited in vain.
            "fetch.wait.max.ms": 10,
            "fetch.error.backoff.ms": 20,
            "log_level": 3,
        }
    )
    try:
        described = consumer.list_topics(topic, timeout=timeout).topics[topic]
        _raise(described.error)
        numbers = sorted(described.partitions)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
        return _consume(
            consumer, [TopicPartition(topic, number, OFFSET_END) for number in numbers], timeout
        )
    finally:
        consumer.close()


def _logged_in(config: dict[str, Any]) -> Producer:
    producer = Producer(config)
    # Without a connection librdkafka waits half a second before it asks for the coordinator again.
    producer.list_topics(timeout=10)
    producer.init_transactions()
    return producer


def _write(producer: Producer, topic: str, records: Iterable[Record]) -> None:
    for record in records:
        partition = {} if record.partition is None else {"partition": record.partition}
        timestamp = {} if record.timestamp is None else {"timestamp": record.timestamp}
        producer.produce(
            topic, record.value, record.key, headers=list(record.headers), **partition, **timestamp
        )
        producer.poll(0)
    producer.flush()


def _raise(error: KafkaError | None, _: Message | None = None) -> None:
    if error:
        raise KafkaException(error)


def _consume(
    consumer: Consumer, places: list[TopicPartition], timeout: float
) -> dict[int, list[ConsumedRecord]]:
    read: dict[int, list[ConsumedRecord]] = {place.partition: [] for place in places}
    unread = {place.partition: place for place in places}
    reached: dict[int, int] = {}
    denied: KafkaException | None = None
    news_at = time.monotonic()
    while unread:
        if time.monotonic() > news_at + timeout:
            raise TimeoutError(
                f"The end of partitions {sorted(unread)} was not reached."
            ) from denied
        # With a time to wait, it waits for all of so many.
        first = consumer.poll(0.05)
        for message in [first, *consumer.consume(10_000, timeout=0)] if first is not None else ():
            error = message.error()
            if error is None:
                read[message.partition()].append(_consumed(message))
                news_at = time.monotonic()
            elif error.code() == KafkaError._PARTITION_EOF:
                reached[message.partition()] = message.offset()
            else:
                raise KafkaException(error)
        if reached.keys() >= unread.keys():
            try:
                ends = consumer.offsets_for_times(list(unread.values()), timeout=timeout)
            except KafkaException as error:
                # A leader that was just elected knows its end, but gives it out a moment later.
                denied = error
                continue
            for end in ends:
                if end.error is None and 0 <= end.offset <= reached[end.partition]:
                    del unread[end.partition]
                    news_at = time.monotonic()
    return read


def _consumed(message: Message) -> ConsumedRecord:
    timestamp_type, timestamp = message.timestamp()
    if timestamp_type == TIMESTAMP_NOT_AVAILABLE:
        timestamp = -1
    return ConsumedRecord(
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
        timestamp=timestamp,
        timestamp_type=_TIMESTAMP_TYPES[timestamp_type],
    )
