"""Numbers with what they count, as people read them."""

from __future__ import annotations


def count(number: int, one: str, many: str = "") -> str:
    """A number with what it counts, as in ``1,000 records``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def records_text(records: int, heartbeats: int) -> str:
    """A number of records, heartbeats counted apart: ``1,000 records and 1 heartbeat``."""
    return f"{count(records - heartbeats, 'record')}{and_heartbeats(heartbeats)}"


def and_heartbeats(number: int) -> str:
    """What follows a number of records where there are heartbeats too; else nothing."""
    return f" and {count(number, 'heartbeat')}" if number else ""
