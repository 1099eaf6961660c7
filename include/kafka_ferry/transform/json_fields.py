"""Sets and drops fields of a JSON text, and leaves every other byte of it as it is.

Numbers keep their digits, members their order, and white space its place: a record in which one field is
masked is the same record otherwise. A member that an object has twice is changed twice, since consumers
differ in which of the two they take.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from kafka_ferry.batches.record_format.content import Header

Changes = Mapping[str, "str | Changes | None"]
"""By name, what a member becomes: a JSON text, nothing (None), or what changes within it."""

_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_NULL: Final = "null"
_ENDS: Final = (",", "}")
# RFC 8259. Unrolled, so that a name without an end takes no longer than one with it.
_PLAIN: Final = r'[^"\\\x00-\x1f]*'
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NAME: Final = re.compile(
    rf'[ \t\r\n]*"({_PLAIN}(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{{4}}){_PLAIN})*)"[ \t\r\n]*:[ \t\r\n]*'
)


class FieldFormat(Protocol):
    """How the fields of a key or value are read and changed.

    Attributes:
        schema_header: the name of the headers that may tell the schema of a content; "" if none does.
    """

    schema_header: bytes

    def as_json(self, content: bytes, headers: Sequence[Header] = ()) -> bytes:
        """The fields as JSON; what is no JSON where they cannot be read.

        Args:
            content: the key or value.
            headers: the record's, needed if it has a ``schema_header``.
        """

    def with_fields(
        self,
        content: bytes,
        changes: Mapping[tuple[str, ...], str | None],
        headers: Sequence[Header] = (),
    ) -> bytes:
        """The content with other fields.

        Args:
            content: the key or value.
            headers: as for ``as_json``.
            changes: by the names on the way to a field, what it becomes in JSON; None to leave it out.

        Raises:
            ValueError: it cannot be read, or cannot have these fields.
        """


class NotAnObject(ValueError):
    """A text is no JSON, or a path leads through something other than an object."""


class JsonFields:
    """The ``FieldFormat`` of JSON."""

    schema_header = b""

    def as_json(self, content: bytes, _: Sequence[Header] = ()) -> bytes:
        """The content itself."""
        return content

    def with_fields(
        self,
        content: bytes,
        changes: Mapping[tuple[str, ...], str | None],
        _: Sequence[Header] = (),
    ) -> bytes:
        """See ``FieldFormat``."""
        try:
            text = content.decode()
        except UnicodeDecodeError:
            raise NotAnObject("it is not text in UTF-8") from None
        return with_fields(text, nested(changes)).encode()


def with_fields(text: str, changes: Changes) -> str:
    """The text with ``changes``.

    A member that is missing is added, unless it would be null. Where a path leads through an object
    that is missing or null, there is nothing to change.

    Raises:
        NotAnObject: it is not JSON, or a path leads through an array, text, number or truth value.
    """
    begin = _after_space(text, 0)
    try:
        if text[begin : begin + 1] != "{":
            raise NotAnObject("it is not a JSON object")
        changed, end = _object(text, begin, changes)
        if _after_space(text, end) != len(text):
            raise NotAnObject(f"it is not JSON: more follows at character {end}")
    except (StopIteration, ValueError, RecursionError) as error:
        if isinstance(error, NotAnObject):
            raise
        raise NotAnObject("it is not JSON") from None
    return text[:begin] + changed + text[end:]


def nested(changes: Mapping[tuple[str, ...], str | None]) -> Changes:
    """The same by names within names; of a path and one within it, the longer one is in vain.

    Args:
        changes: by the names on the way to a member, what it becomes.
    """
    found: dict[str, str | Changes | None] = {}
    for names in sorted(changes, key=len, reverse=True):
        inner = found
        for name in names[:-1]:
            below = inner.setdefault(name, {})
            assert isinstance(below, dict)
            inner = below
        inner[names[-1]] = changes[names]
    return found


def _object(text: str, at: int, changes: Changes) -> tuple[str, int]:
    """The object at ``at`` with its changes, and where it ends in ``text``."""
    members: list[str] = []
    seen: set[str] = set()
    begin = at + 1
    after = _after_space(text, begin)
    if text[after : after + 1] == "}":
        end, tail = after + 1, text[begin:after]
    else:
        tail = ""
        while True:
            name, member, delimiter = _member(text, begin, changes)
            seen.add(name)
            if member is not None:
                members.append(member)
            if text[delimiter] == "}":
                end = delimiter + 1
                break
            begin = delimiter + 1
    members += [
        f"{json.dumps(name)}:{value}"
        for name, value in changes.items()
        if name not in seen and isinstance(value, str) and value != _NULL
    ]
    return "{" + (",".join(members) if members else tail) + "}", end


def _member(text: str, begin: int, changes: Changes) -> tuple[str, str | None, int]:
    """A member's name, its text with the space around it (None if it goes), and where its comma or brace is."""
    named = _NAME.match(text, begin)
    if named is None:
        raise NotAnObject(f"it is not JSON: a name is missing at character {begin}")
    value, name = named.end(), named[1]
    if "\\" in name:
        name = json.loads(f'"{name}"')
    change = changes.get(name, ...) if changes else ...
    if isinstance(change, Mapping) and text[value : value + 1] == "{":
        changed, end = _object(text, value, change)
    else:
        found, end = _scan(text, value)
        if isinstance(change, Mapping) and found is not None:
            raise NotAnObject(f"its field {name} is not an object")
        changed = text[value:end]
    delimiter = end if text[end : end + 1] in _ENDS else _after_space(text, end)
    if text[delimiter : delimiter + 1] not in _ENDS:
        raise NotAnObject(f"it is not JSON: a comma is missing at character {delimiter}")
    if change is None:
        return name, None, delimiter
    if isinstance(change, str):
        changed = change
    return name, text[begin:value] + changed + text[end:delimiter], delimiter


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return int(found.end())
