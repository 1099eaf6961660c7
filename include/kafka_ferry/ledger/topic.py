"""The ledger's topic: how it is created, and its entries in their order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_ferry.config import Cluster
from kafka_ferry.control.topic_records import TopicRecords
from kafka_ferry.ledger.record import Entry, decode
from kafka_ferry.model.plan import Creation

# Nothing in a ledger may expire: it is the only offset map.
LEDGER_CONFIGS: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


def ledger_creation(topic: str, replication_factor: int) -> Creation:
    """The ledger's topic as it is to be created."""
    return Creation(topic, 1, replication_factor, LEDGER_CONFIGS)


def read_ledger(cluster: Cluster, topic: str, start: int) -> Iterator[tuple[int, Entry]]:
    """The ledger's committed entries from offset ``start`` on, with their offsets, up to its current end.

    Args:
        cluster: the target.
        topic: the ledger's topic.
        start: the first ledger offset to read.

    Raises:
        LedgerError: if a record cannot be read.
        ClusterUnreachable: if the target does not answer for half a minute.
    """
    for message in TopicRecords(cluster, topic, {0: start}, doing=f"reading the ledger {topic}"):
        at = message.offset()
        yield at, decode(message.value(), at=f"{topic} offset {at}")
