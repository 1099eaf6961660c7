"""Reading the ledger's topic, and the records that stand outside of transactions of writers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition

from kafka_ferry.config import Cluster, confluent_config
from kafka_ferry.control import as_ferry_error
from kafka_ferry.ledger.record import Entry, decode
from kafka_ferry.plan.plan import Creation

# Nothing in a ledger may expire: it is the only offset map there is.
LEDGER_CONFIGS: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_POLL_S: Final = 30.0


def ledger_creation(topic: str, replication_factor: int) -> Creation:
    """The ledger's topic as it is to be created."""
    return Creation(topic, 1, replication_factor, LEDGER_CONFIGS)


def read_ledger(cluster: Cluster, topic: str, start: int) -> Iterator[tuple[int, Entry]]:
    """The committed entries of the ledger from offset ``start`` on, with their offsets, to its end now.

    Args:
        cluster: the target.
        topic: the ledger's topic.
        start: the first ledger offset to read.

    Raises:
        LedgerError: if a record cannot be read.
        ClusterUnreachable: if the target does not answer for half a minute.
    """
    consumer = Consumer(
        {
            **confluent_config(cluster.client_properties("consumer"), "consumer"),
            "group.id": "ferry-ledger-reader",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            # The end is only known from a fetch that waited in vain.
            "fetch.wait.max.ms": 10,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        consumer.assign([ConfluentPartition(topic, 0, start)])
        while (message := consumer.poll(_POLL_S)) is not None:
            error = message.error()
            if error is None:
                yield (
                    message.offset(),
                    decode(message.value(), at=f"{topic} offset {message.offset()}"),
                )
            elif error.code() == KafkaError._PARTITION_EOF:
                return
            else:
                raise as_ferry_error(
                    KafkaException(error), cluster.alias, f"reading the ledger {topic}"
                )
        raise as_ferry_error(
            KafkaException(KafkaError(KafkaError._TIMED_OUT)),
            cluster.alias,
            f"reading the ledger {topic}",
        )
    finally:
        consumer.close()
