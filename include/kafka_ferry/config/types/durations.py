"""Spans of time as files have them: ``15 minutes``, ``1 day 12 hours``, or ISO 8601's ``PT15M``."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Final

import regex
from pydantic import TypeAdapter

PATTERN: Final = (
    r"^\s*([0-9]+\s*(seconds?|minutes?|hours?|days?|weeks?)\s*)+$|^\s*P[0-9DTHMSW.,]+\s*$"
)
"""The form of such a text, for editors."""

_PART: Final = regex.compile(r"(\d+)\s*(second|minute|hour|day|week)s?")


def is_duration(text: str) -> bool:
    """Whether a text is meant as a span of time."""
    return regex.match(PATTERN, text) is not None


def read_duration(text: str) -> timedelta:
    """The span of time that a text names.

    Raises:
        ValueError: it names none, or one of no length.
    """
    span = timedelta()
    try:
        if text.strip().startswith("P"):
            span = _iso().validate_python(text.strip())
        elif is_duration(text):
            for number, unit in _PART.findall(text):
                span += timedelta(**{f"{unit}s": int(number)})
    except (ValueError, OverflowError):  # pydantic's are ValueErrors too
        span = timedelta()
    if span <= timedelta():
        raise ValueError("must be a span of time such as 15 minutes, 1 day 12 hours or PT15M")
    return span


@cache
def _iso() -> TypeAdapter[timedelta]:
    return TypeAdapter(timedelta)
