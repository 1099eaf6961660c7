"""Where the first copy of a topic begins, as files say it."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

from kafka_ferry.clock import NO_SUCH_DAY, NoSuchDay, read_moment
from kafka_ferry.config.types.durations import is_duration, is_span, read_span

_MUST: Final = (
    "must be earliest, latest, a moment such as 2026-11-01T00:00Z, a time ago such as -7d, "
    "group=NAME or file=PATH"
)

SCHEMA: Final = {
    "type": "string",
    "pattern": "^(earliest|latest|-[0-9]+[smhdw]|P.+|[0-9].*|group=.+|file=.+)$",
}
"""The JSON Schema of a value, for editors."""


class FirstStart(NamedTuple):
    """Where the first copy of a topic begins.

    Attributes:
        kind: at the start or the end of its log; at the first record from a moment on; at the first one
            that is not older than so long before the run; at the positions of one of the source's groups;
            or at the offsets in a file.
        ms: the moment in milliseconds since 1970, or the time ago in milliseconds.
        name: the group's name, or the file's path.
    """

    kind: Literal["earliest", "latest", "moment", "ago", "group", "file"]
    ms: int = 0
    name: str = ""


def read_first_start(text: str) -> FirstStart:
    """What a text says.

    Raises:
        ValueError: nothing of that kind.
    """
    match text.partition("="):
        case ("earliest" | "latest" as kind, "", ""):
            return FirstStart(kind)
        case ("group" | "file" as kind, "=", name) if name.strip():
            return FirstStart(kind, name=name.strip())
    try:
        if (ago := read_ago(text)) is not None:
            return FirstStart("ago", ago)
        return FirstStart("moment", read_moment(text))
    except NoSuchDay:
        raise ValueError(f"{_MUST}, and not '{text}', {NO_SUCH_DAY}") from None
    except (ValueError, OverflowError):
        raise ValueError(_MUST) from None


def read_ago(text: str) -> int | None:
    """How long ago a text such as ``-7d`` or ``P7D`` says, in milliseconds; None where it says no such time.

    Raises:
        ValueError: a span of no length.
        OverflowError: one that is too long.
    """
    if is_duration(text) or (text[:1] == "-" and is_span(text[1:])):
        return read_span(text.removeprefix("-"))
    return None


def first_start_text(value: Any) -> str:
    """The text of a file's value.

    Raises:
        ValueError: it says nothing of that kind.
    """
    if not isinstance(value, str):
        raise ValueError(_MUST)
    text = value.strip()
    read_first_start(text)
    return text
