"""The part of the ledger's table that is compared with its topic before the table is trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from kafka_ferry.ledger.record import Entry


class EntryClaim(NamedTuple):
    """The part of a ledger entry in which table and topic are compared."""

    type: str
    run: str
    at: int
    through: int | None


CLAIMED: Final = ["ledger_offset", *EntryClaim._fields]
"""The columns that ``claims_in`` needs."""


def claim_of(entry: Entry) -> EntryClaim:
    """The claim of a row of ``entry``."""
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
    """Whether a row is a verification of entries before it only, and not of later ones."""
    return row["type"] == "verification" and bool(row["through"] <= row["ledger_offset"])
