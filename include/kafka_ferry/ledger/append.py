"""Ledger records that a run itself writes, outside of its writers' transactions."""

from __future__ import annotations

from typing import TypeAlias

from kafka_ferry.batches import single_record
from kafka_ferry.config import Flow
from kafka_ferry.ledger.record import (
    AppliedEntry,
    GroupsEntry,
    OwnershipEntry,
    ReleaseEntry,
    RunEntry,
    VerificationEntry,
    encode,
    ledger_topic,
)
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.transactions.exclusive_writer import write_exclusively

_OfRun: TypeAlias = (
    AppliedEntry | GroupsEntry | OwnershipEntry | ReleaseEntry | RunEntry | VerificationEntry
)


def append_entry(flow: Flow, entry: _OfRun) -> None:
    """Append ``entry`` to the ledger, as the only record of a batch and therefore without a transaction.

    Two runs of a flow may do so at the same time, such as a backfill and a scheduled run. An entry may be
    written twice, where a broker does not say whether it took it; repeated entries do no harm.

    Raises:
        FerryError: if the target does not accept it within a minute.
    """
    ledger = TopicPartition(ledger_topic(flow.source.alias), 0)
    record = single_record(*encode(entry), entry.at)
    write_exclusively(
        flow.target, ledger, f"ferry.{flow.name}.run", lambda writer: writer.write(record)
    )
