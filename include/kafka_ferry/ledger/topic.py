"""The ledger's topic: how it is created, and its entries in their order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_ferry.config import Cluster
from kafka_ferry.ledger.record import Entry, decode
from kafka_ferry.model.plan import Creation
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import connected
from kafka_ferry.wire.partitions.scan import committed_values

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
        ClusterUnreachable: if the target does not answer for a minute.
    """
    # Not by librdkafka, which believes whatever a broker lists as aborted (``TransactionFates``).
    with connected(cluster) as wire:
        for at, value in committed_values(wire, TopicPartition(topic, 0), start):
            yield at, decode(value or b"", at=f"{topic} offset {at}")
