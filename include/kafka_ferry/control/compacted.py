"""Small compacted topics of one partition: what they say of each key, and new records in them.

Without transactions, as MirrorMaker 2 writes its own. Writing a record again, after an answer that
was lost, changes nothing there: the newest of a key counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)
from confluent_kafka import TopicPartition as ConfluentPartition

from kafka_ferry.config import Cluster, confluent_config
from kafka_ferry.control.cluster import ClusterControl
from kafka_ferry.control.raised import as_ferry_error, as_ours
from kafka_ferry.errors import FerryError
from kafka_ferry.patience import at_most
from kafka_ferry.plan.plan import Creation

_COMPACTED: Final = {"cleanup.policy": "compact"}
_ONLY: Final = 0
_TIMEOUT_S: Final = 60.0
_READ_S: Final = 30.0
_AT_ONCE: Final = 10_000


def create_compacted(control: ClusterControl, topic: str, replication_factor: int) -> None:
    """Create the topic unless it is there.

    Args:
        control: the cluster.
        topic: the topic's name.
        replication_factor: as many replicas, but never more than there are brokers; -1 for the
            brokers' default.

    Raises:
        FerryError: if it is not there and cannot be created, ``AccessDenied`` without the right.
    """
    if topic not in control.unknown([topic]):
        return
    replicas = min(replication_factor, control.brokers())
    creation = Creation(topic, 1, replicas, _COMPACTED)
    for error in control.create_topics([creation]).values():
        raise error


def newest_values(cluster: Cluster, topic: str) -> dict[bytes, bytes]:
    """The newest value of each key, to the topic's end now; keys of tombstones have none.

    Raises:
        FerryError: if it cannot be read, ``AccessDenied`` without READ on it.
    """
    doing = f"reading {topic}"
    consumer = Consumer(
        {
            **confluent_config(cluster.client_properties("consumer"), "consumer"),
            # It joins no group and commits nothing; a right on this one the principal has anyway.
            "group.id": "ferry-ledger-reader",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )
    newest: dict[bytes, bytes] = {}
    try:
        consumer.assign([ConfluentPartition(topic, _ONLY, OFFSET_BEGINNING)])
        with as_ours(cluster.alias, doing):
            while (first := consumer.poll(at_most(_READ_S))) is not None:
                # What has come meanwhile; with a time to wait, it would wait for all of so many.
                for message in (first, *consumer.consume(_AT_ONCE, timeout=0)):
                    error = message.error()
                    if error and error.code() == KafkaError._PARTITION_EOF:
                        return newest
                    if error:
                        raise KafkaException(error)
                    _keep(newest, message)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    finally:
        consumer.close()


def _keep(newest: dict[bytes, bytes], message: Message) -> None:
    key, value = message.key(), message.value()
    if key is not None and value is not None:
        newest[key] = value
    elif key is not None:
        newest.pop(key, None)


def append_records(
    cluster: Cluster, topic: str, records: Iterable[tuple[bytes, bytes]], *, at: int
) -> None:
    """Write records, in their order, and wait until all of them are in the log.

    Args:
        cluster: the cluster.
        topic: the topic, which exists.
        records: keys and values.
        at: the records' timestamp, in milliseconds since 1970.

    Raises:
        FerryError: what the first of them failed with that was not taken, ``AccessDenied`` without
            WRITE on the topic; some may have been taken.
    """
    doing = f"writing to {topic}"
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error:
            failed.append(error)

    timeout_s = at_most(_TIMEOUT_S)
    with as_ours(cluster.alias, doing):
        producer = Producer(_settings(cluster, timeout_s))
        for key, value in records:
            # One that cannot be written stands for all that follow.
            if failed:
                break
            _queue(producer, topic, key, value, at, delivered)
        left = producer.flush(timeout_s)
    if left and not failed:
        failed.append(KafkaError(KafkaError._TIMED_OUT))
    if failed:
        raise _first(failed, cluster.alias, doing)


def _settings(cluster: Cluster, timeout_s: float) -> dict[str, object]:
    settings = confluent_config(cluster.client_properties("producer"), "producer")
    settings.pop("transactional.id", None)
    return settings | {
        "acks": "all",
        # Brokers before 3.0 demand a right of its own for idempotence, which only joins it to
        # records written twice; one request at a time keeps the order.
        "enable.idempotence": False,
        "max.in.flight.requests.per.connection": 1,
        "delivery.timeout.ms": int(timeout_s * 1000),
        "log_level": 0,
    }


def _queue(
    producer: Producer, topic: str, key: bytes, value: bytes, at: int, delivered: Any
) -> None:
    while True:
        try:
            producer.poll(0)
            producer.produce(
                topic, value, key, partition=_ONLY, timestamp=at, on_delivery=delivered
            )
            return
        except BufferError:
            producer.poll(0.1)


def _first(failed: list[KafkaError], alias: str, doing: str) -> FerryError:
    """The error that says most: what is behind one that was refused is only told that it is late."""
    late = (KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._PURGE_QUEUE)
    telling = next((error for error in failed if error.code() not in late), failed[0])
    return as_ferry_error(KafkaException(telling), alias, doing)
