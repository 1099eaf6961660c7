"""Sets and drops fields of a JSON text, and leaves every other byte of it as it is.

Numbers keep their digits, members their order, and white space its place: a record in which one field is
masked is the same record otherwise. A member that an object has twice is changed twice, since consumers
differ in which of the two they take.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Final

import regex

Changes = Mapping[str, "str | Changes | None"]
"""By name, what a member becomes: a JSON text, nothing (None), or what changes within it."""

_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_SPACE: Final = regex.compile(r"[ \t\r\n]*")
_NULL: Final = "null"


class NotAnObject(ValueError):
    """A text is no JSON, or a path leads through something other than an object."""


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
    at = _after_space(text, begin)
    _expect(text, at, '"')
    name, at = scanstring(text, at + 1, True)
    at = _after_space(text, at)
    _expect(text, at, ":")
    value = _after_space(text, at + 1)
    change = changes.get(name, ...) if changes else ...
    if isinstance(change, Mapping):
        if text[value : value + 1] == "{":
            changed, end = _object(text, value, change)
        else:
            found, end = _scan(text, value)
            if found is not None:
                raise NotAnObject(f"its field {name} is not an object")
            changed = text[value:end]
    else:
        _, end = _scan(text, value)
        changed = text[value:end]
    delimiter = _after_space(text, end)
    _expect(text, delimiter, ",}")
    if change is None:
        return name, None, delimiter
    if isinstance(change, str):
        changed = change
    return name, text[begin:value] + changed + text[end:delimiter], delimiter


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return int(found.end())


def _expect(text: str, at: int, characters: str) -> None:
    if text[at : at + 1] not in tuple(characters):
        raise NotAnObject(f"it is not JSON: {characters} is missing at character {at}")
