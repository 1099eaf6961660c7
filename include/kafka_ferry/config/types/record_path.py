"""What a transform rule names of a record: ``value``, ``value.address.city``, ``headers['region']``."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import regex

Part = Literal["key", "value", "headers"]

_NAME: Final = r"(?:[A-Za-z_]\w*|`[^`]+`)"
_FIELD: Final = regex.compile(rf"(key|value)((?:\.{_NAME})*)")
_HEADER: Final = regex.compile(r"headers\['([^']+)'\]")
_NAMES: Final = regex.compile(rf"\.({_NAME})")


class RecordPath(NamedTuple):
    """A part of a record, or something within it.

    Attributes:
        part: ``key``, ``value`` or ``headers``.
        names: the fields on the way, none for the whole part; of a header, its name alone.
    """

    part: Part
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.part == "headers":
            return f"headers['{self.names[0]}']"
        return ".".join((self.part, *self.names))


def read_path(text: str) -> RecordPath:
    """The path that a text of a flow's file names.

    Raises:
        ValueError: it is not such a text.
    """
    if match := _HEADER.fullmatch(text.strip()):
        return RecordPath("headers", (match[1],))
    if match := _FIELD.fullmatch(text.strip()):
        names = tuple(name.strip("`") for name in _NAMES.findall(match[2]))
        return RecordPath("key" if match[1] == "key" else "value", names)
    is_name = "." not in text and _FIELD.fullmatch(f"value.{text}")
    meant = f". Did you mean value.{text}?" if is_name else ""
    if ")" in text:
        meant = ". Within {...} an expression with a comma needs quotes"
    raise ValueError(
        f"{text!r} must be key, value, a field such as value.address.city, or headers['name']{meant}"
    )
