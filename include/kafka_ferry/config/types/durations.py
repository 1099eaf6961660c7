"""Spans of time as files have them: ``15 minutes``, ``1 day 12 hours``, or ISO 8601's ``PT15M``."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Annotated, Final

import regex
from pydantic import BeforeValidator, TypeAdapter

from kafka_ferry.config.types.values import NUMBER_PATTERN, AlsoText, read_number

PATTERN: Final = (
    r"^\s*([0-9]+\s*(seconds?|minutes?|hours?|days?|weeks?)\s*)+$|^\s*P[0-9DTHMSW.,]+\s*$"
)
"""The form of such a text, for editors."""
_FORM: Final = regex.compile(PATTERN)

# No span of time is a longer text, and to look for what is meant takes the square of its length.
_LONGEST_TEXT: Final = 200
# Airflow adds it to the moments of runs, and its scheduler ends at one that no calendar has.
_LONGEST: Final = timedelta(days=36_500)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SHORT: Final = regex.compile(r"([0-9]{1,9})([smhdw])")
_PART: Final = regex.compile(r"(\d+)\s*(second|minute|hour|day|week)s?")


_ABBREVIATED: Final = regex.compile(
    r"(\d+)\s*(s|m|h|d|w|secs?|mins?|hrs?)\b\.?\s*", regex.IGNORECASE
)


def near_duration(text: str) -> str:
    """The span of time that is meant by abbreviated units, as in ``15m`` or ``1h 30 min``; "" elsewhere."""
    if len(text) > _LONGEST_TEXT:
        return ""
    bare = text.strip().lower().removeprefix("every").strip()
    bare = str(regex.sub(r"(?<=[a-z])(?=\d)", " ", bare))
    if is_duration(bare):
        return bare
    if not bare or _ABBREVIATED.sub("", bare):
        return ""
    parts = ((int(number), _UNITS[unit[0]]) for number, unit in _ABBREVIATED.findall(bare))
    return " ".join(f"{n} {unit.removesuffix('s') if n == 1 else unit}" for n, unit in parts)


def is_duration(text: str) -> bool:
    """Whether a text is meant as a span of time."""
    return len(text) <= _LONGEST_TEXT and _FORM.match(text) is not None


def read_duration(text: str) -> timedelta:
    """The span of time that a text names.

    Raises:
        ValueError: it names none, one of no length, or one of more than 100 years.
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
        near = near_duration(text)
        meant = f". Did you mean '{near}'?" if near and near != text.strip() else ""
        if text.strip().isdecimal() and len(text) <= _LONGEST_TEXT:
            meant = f". A number needs its unit, such as '{text.strip()} minutes'"
        raise ValueError(
            "must be a span of time such as 15 minutes, 1 day 12 hours or PT15M, and not "
            f"'{text.strip():.80}'{meant}"
        )
    if span > _LONGEST:
        raise ValueError(f"must be 100 years (36500 days) at most, and not '{text.strip():.80}'")
    return span


def is_span(text: str) -> bool:
    """Whether a text is meant for ``read_span``."""
    return _SHORT.fullmatch(text) is not None or is_duration(text)


def read_span(text: str) -> int:
    """The milliseconds that a text names: as ``read_duration``, or a number with a letter such as ``7d``.

    Raises:
        ValueError: it names none.
    """
    short = _SHORT.fullmatch(text)
    try:
        span = timedelta(**{_UNITS[short[2]]: int(short[1])}) if short else read_duration(text)
    except OverflowError:
        raise ValueError(f"{text} is too long") from None
    return span // timedelta(milliseconds=1)


def _as_milliseconds(value: object) -> int:
    try:
        return read_number(value)
    except ValueError as error:
        near = near_duration(value) if isinstance(value, str) else ""
        meant = f", and not '{value}'. Did you mean '{read_span(near)}'?" if near else ""
        raise ValueError(f"{error} of milliseconds, such as 60000{meant}") from None


Milliseconds = Annotated[int, BeforeValidator(_as_milliseconds), AlsoText(NUMBER_PATTERN)]


@cache
def _iso() -> TypeAdapter[timedelta]:
    return TypeAdapter(timedelta)
