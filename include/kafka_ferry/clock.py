"""The time, as Kafka counts it."""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import UTC, date, datetime
from typing import Final

import regex

_DAY: Final = regex.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT: Final = regex.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,9})?)?"
    r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)?"
)

_DAY_OR_MOMENT: Final = "must be a day or a moment, such as 2026-11-01 or 2026-11-01T06:00Z"
NO_SUCH_DAY: Final = "which is in no calendar"


class NoSuchDay(ValueError):
    """A text in the form of a day or a moment that is none, such as the 30th of February."""


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def ms_of(moment: datetime) -> int:
    """A moment in milliseconds since 1970; one without a time zone is in UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def moment_text(at_ms: int, *, seconds: bool = True) -> str:
    """A moment for people, ``2026-08-01 10:00:00 UTC``; ``timestamp 5``, where it is in none of the calendar's years.

    Times of records, and of entries that another client has written, are any number of 64 bits.

    Args:
        at_ms: milliseconds since 1970.
        seconds: whether to show seconds too.
    """
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return f"timestamp {at_ms}"
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC" if seconds else "%Y-%m-%d %H:%M UTC")


def duration_text(seconds: float) -> str:
    """Two units at most: 0.4 s, 12 s, 2 min 13 s, 3 h 5 min, 2 d 7 h."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 172_800:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def until_text(moments: Collection[int | None]) -> str:
    """Up to when partitions are proved, for people: the oldest moment, its age, and for how many there is none.

    Args:
        moments: of each partition, in milliseconds since 1970; None or 0 where there is none.

    Returns:
        The text; "" where no partition has one.
    """
    known = [moment for moment in moments if moment]
    if not known:
        return ""
    ago = duration_text(max(0, now_ms() - min(known)) / 1000)
    unknown = len(moments) - len(known)
    but = f", but for {unknown} partition{'s' * (unknown > 1)}" if unknown else ""
    return f"{moment_text(min(known))} ({ago} ago){but}"


def run_id_now(command: str) -> str:
    """The id of a run that a command starts now: ``failover__2026-08-01T10:00:00.123456+00:00``."""
    return f"{command}__{datetime.now(UTC).isoformat(timespec='microseconds')}"


def read_day_or_moment(text: str) -> date | datetime:
    """A day such as 2026-11-01, or a moment such as 2026-11-01T06:00, 2026-11-01T06:00:00Z (ISO 8601).

    Its other forms are no dates here: 20261101 is a number as well, and 2026-W01-1 is a day of 2025.

    Raises:
        NoSuchDay: it has the form of one, and there is no such day or hour.
        ValueError: it is neither.
    """
    text = text.strip()
    try:
        if _DAY.fullmatch(text):
            return date.fromisoformat(text)
        if _MOMENT.fullmatch(text):
            return datetime.fromisoformat(text)
    except ValueError:
        raise NoSuchDay(f"{_DAY_OR_MOMENT}, and not '{text}', {NO_SUCH_DAY}") from None
    raise ValueError(_DAY_OR_MOMENT)


def read_moment(text: str) -> int:
    """A day or a moment as by ``read_day_or_moment``, in milliseconds since 1970; in UTC without a time zone.

    Raises:
        ValueError: it is neither.
    """
    read = read_day_or_moment(text)
    return ms_of(read if isinstance(read, datetime) else datetime(read.year, read.month, read.day))
