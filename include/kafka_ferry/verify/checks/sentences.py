"""What several checks say. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka_ferry.verify.rows import UNKNOWN

FAULT: Final = (
    "The ledger contradicts itself, which is a bug in the copier. Leave the ledger and both topics "
    "as they are and report it."
)

STRANGER: Final = (
    "Find the other producer and revoke its WRITE permission on the remote topic. No client can delete single records: "
    "each run fails here until `ferry repair --topic`, with the remote topic and --yes, gives the copy up. The next "
    "run makes it again, of all that the source still has."
)


def first_foreign(at: int, producer_id: int) -> str:
    """Where the first of some foreign records is on the target, and whose, to follow their count; "" if unknown."""
    if at == UNKNOWN:
        return ""
    producer = "a producer without an id" if producer_id == UNKNOWN else f"producer {producer_id}"
    return f", the first at offset {at} by {producer}"


def interval_list(intervals: Iterable[tuple[int, int]]) -> str:
    """Intervals, in words."""
    return ", ".join(f"[{start}, {end})" for start, end in intervals)
