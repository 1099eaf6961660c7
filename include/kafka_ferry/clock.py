"""The time, as Kafka counts it."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def ms_of(moment: datetime) -> int:
    """A moment in milliseconds since 1970; one without a time zone is in UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def read_moment(text: str) -> int:
    """A day or a moment in ISO 8601, in milliseconds since 1970; without a time zone it is in UTC.

    Raises:
        ValueError: it is neither.
    """
    return ms_of(datetime.fromisoformat(text.strip()))
