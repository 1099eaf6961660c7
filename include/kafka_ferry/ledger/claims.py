"""What the ledger's table is compared in with its topic, before it is believed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from kafka_ferry.ledger.record import Entry


class EntryClaim(NamedTuple):
    """An entry of the ledger, as far as table and topic are compared."""

    type: str
    run: str
    at: int
    through: int | None


CLAIMED: Final = ["ledger_offset", *EntryClaim._fields]
"""The columns that ``claims_in`` needs."""


def claim_of(entry: Entry) -> EntryClaim:
    """What a row of ``entry`` says."""
    return EntryClaim(entry.type, entry.run, entry.at, getattr(entry, "through", None))


def claims_in(table: pa.Table) -> dict[int, EntryClaim]:
    """By ledger offset, what the topic must have: the last entry, and the verification that counts."""
    rows = table.to_pylist()
    verified = [row for row in rows if is_verification(row)]
    newest = sorted(verified, key=lambda row: int(row["through"]))[-1:]
    return {
        row["ledger_offset"]: EntryClaim(*(row[name] for name in EntryClaim._fields))
        for row in (*rows[-1:], *newest)
    }


def is_verification(row: Mapping[str, Any]) -> bool:
    """Whether a row is a verification of what was in the ledger before it, and of nothing yet to come."""
    return row["type"] == "verification" and bool(row["through"] <= row["ledger_offset"])
