"""The ledger: what was copied from where to where, written with the data, projected into a table."""

from kafka_ferry.ledger.record import (
    AcceptedRange,
    AppliedEntry,
    BackfillEntry,
    CopiedRange,
    CopyingEntry,
    Entry,
    GroupsEntry,
    LedgerError,
    OwnershipEntry,
    ReleasedTopic,
    ReleaseEntry,
    RunEntry,
    SyncedOffset,
    TransactionEntry,
    VerificationEntry,
    decode,
    encode,
    is_ledger_topic,
    ledger_topic,
)
from kafka_ferry.ledger.rows import LedgerRange, copied_rows
from kafka_ferry.ledger.table import LedgerTable
from kafka_ferry.ledger.topic import append_entry, ledger_creation, read_ledger

__all__ = [
    "AcceptedRange",
    "AppliedEntry",
    "BackfillEntry",
    "CopiedRange",
    "CopyingEntry",
    "Entry",
    "GroupsEntry",
    "LedgerError",
    "LedgerRange",
    "LedgerTable",
    "OwnershipEntry",
    "ReleaseEntry",
    "ReleasedTopic",
    "RunEntry",
    "SyncedOffset",
    "TransactionEntry",
    "VerificationEntry",
    "append_entry",
    "copied_rows",
    "decode",
    "encode",
    "is_ledger_topic",
    "ledger_creation",
    "ledger_topic",
    "read_ledger",
]
