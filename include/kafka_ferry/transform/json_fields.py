"""Sets and drops fields of a JSON text, and leaves every other byte of it as it is.

Numbers keep their digits, members their order, and white space its place: a record in which one field is
masked is the same record otherwise. A member that an object has twice is changed twice, since consumers
differ in which of the two they take.

Most members of most objects are none of a rule's: short ones next to each other are read at once, by a regular
expression, and passed on as one text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final

from kafka_ferry.batches.record_format.content import Header
from kafka_ferry.batches.rule_counts import FieldCounts
from kafka_ferry.config.types.problems import nearest
from kafka_ferry.transform.record_limits import MOST_BYTES

Changes = Mapping[str, "str | Changes | None"]
"""By name, what a member becomes: a JSON text, nothing (None), or what changes within it."""

_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_NO_JSON: Final = b"\xff"
_NULL: Final = "null"
# What a record names its fields goes into reports and the ledger.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
# A producer may give a record any number of them, and to compare each takes some 30 µs.
_MOST_NAMES: Final = 1_000
# As ``emial`` and ``email`` are, by ``difflib``'s ratio.
_SIMILAR: Final = 0.8
_ENDS: Final = (",", "}")
# RFC 8259. Unrolled, so that a name without an end takes no longer than one with it.
_PLAIN: Final = r'[^"\\\x00-\x1f]*+'
_S: Final = r"[ \t\r\n]*+"
_SPACE: Final = re.compile(_S)
_NAME: Final = re.compile(
    rf'{_S}"({_PLAIN}(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{{4}}){_PLAIN})*+)"{_S}:{_S}'
)
# What Spark makes a decimal of digit by digit: 1e-999999999 takes it hours. It leaves out commas, and takes the digits
# of all scripts.
_FAR: Final = re.compile(r"[eE][-+]?\d{4}|[\s\S]{1000}")
_MAY_BE_FAR: Final = re.compile(rb"[eE][-+,0-9]{4}|[-+,.0-9]{1000}|\\u|[\x80-\xff]")
# Long texts are left to json's scanner, which is quicker for them.
_SHORT: Final = (
    r'(?:"[^"\\\x00-\x1f]{0,100}+"'
    r"|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+"
    r"|true|false|null)"
)


class NotAnObject(ValueError):
    """A text is no JSON, or a path leads through something other than an object."""


class JsonFields:
    """The ``FieldFormat`` of JSON.

    Args:
        decimals: the names of members that Spark reads as decimals, or that have some in them.
    """

    schema_header = b""

    def __init__(self, decimals: Collection[str] = ()) -> None:
        self._decimals = frozenset(decimals)

    def as_json(self, content: bytes, _: Sequence[Header] = ()) -> bytes:
        """The content itself, if it is text in UTF-8: bytes that are not would be read as other characters.

        Nor is it passed on with a decimal that has a far exponent, or very many digits; or if it is longer than a
        record whose fields it has may be, since few bytes of it took many characters.
        """
        if len(content) > MOST_BYTES:
            return _NO_JSON
        if self._decimals and _MAY_BE_FAR.search(content) and self._has_far_decimal(content):
            return _NO_JSON
        if content.isascii():
            return content
        try:
            content.decode()
        except UnicodeDecodeError:
            return _NO_JSON
        return content

    def _has_far_decimal(self, content: bytes) -> bool:
        def values(members: list[tuple[str, Any]]) -> list[Any]:
            if any(name in self._decimals and _is_far(value) for name, value in members):
                raise OverflowError
            return [value for _, value in members]

        try:
            json.loads(content, object_pairs_hook=values, parse_float=str, parse_int=str)
        except (ValueError, RecursionError, OverflowError):
            # What Python does not read, Spark may.
            return True
        return False

    def with_fields(
        self,
        content: bytes,
        changes: Mapping[tuple[str, ...], str | None],
        _: Sequence[Header] = (),
        counts: FieldCounts | None = None,
    ) -> bytes:
        """See ``FieldFormat``."""
        try:
            text = content.decode()
        except UnicodeDecodeError:
            raise NotAnObject("it is not text in UTF-8") from None
        return with_fields(text, nest(changes), counts).encode()


def _is_far(value: Any) -> bool:
    """Whether a value has a number or a text that would be no decimal in reasonable time."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, str) and _FAR.search(part.replace(",", "")):
            return True
    return False


def with_fields(text: str, changes: Changes, counts: FieldCounts | None = None) -> str:
    """The text with ``changes``.

    A member that is missing is added, unless it would be null. Where a path leads through an object
    that is missing or null, there is nothing to change. What becomes something else is counted in ``counts``.

    Raises:
        NotAnObject: it is not JSON, or a path leads through an array, text, number or truth value.
    """
    begin = _after_space(text, 0)
    try:
        if text[begin : begin + 1] != "{":
            raise NotAnObject("it is not a JSON object")
        changed, end = _object(text, begin, changes, (), counts or FieldCounts())
        if _after_space(text, end) != len(text):
            raise NotAnObject(f"it is not JSON: more follows at character {end}")
    except (StopIteration, ValueError, RecursionError) as error:
        if isinstance(error, NotAnObject):
            raise
        raise NotAnObject("it is not JSON") from None
    return text[:begin] + changed + text[end:]


def nest(changes: Mapping[tuple[str, ...], str | None]) -> Changes:
    """The values by names within names; where one path lies within another, the longer one has no effect.

    Args:
        changes: by the names on the way to a member, what it becomes.
    """
    nested: dict[str, str | Changes | None] = {}
    for names in sorted(changes, key=len, reverse=True):
        inner = nested
        for name in names[:-1]:
            below = inner.setdefault(name, {})
            assert isinstance(below, dict)
            inner = below
        inner[names[-1]] = changes[names]
    return nested


def _object(
    text: str, at: int, changes: Changes, above: tuple[str, ...], counts: FieldCounts
) -> tuple[str, int]:
    """The object at ``at``, to which the names ``above`` lead, with its changes, and where it ends in ``text``."""
    members, end = _members(text, at, tuple(changes))
    texts: list[str] = []
    present: set[str] = set()
    for name, begin, value, after, delimiter in members:
        if name is None or name not in changes:
            texts.append(text[begin:delimiter])
            continue
        present.add(name)
        change = changes[name]
        if change is None:
            counts.changed[*above, name] += 1
            continue
        if not isinstance(change, str):
            change = _within(text, (*above, name), value, after, change, counts)
        elif change != text[value:after]:
            counts.changed[*above, name] += 1
        texts.append(text[begin:value] + change + text[after:delimiter])
    for name, change in changes.items():
        if name not in present and isinstance(change, str) and change != _NULL:
            texts.append(f"{json.dumps(name)}:{change}")
            names = (*above, name)
            counts.added[names] += 1
            counts.near.look(names, partial(_similar_name, name, text[at:end]))
    if not members and not texts:
        return text[at:end], end
    return "{" + ",".join(texts) + "}", end


def _similar_name(name: str, text: str) -> str:
    """The member of an object whose name is most like one that it lacks, "" for none."""
    try:
        names = [it for it in json.loads(text) if _PLAIN_NAME.fullmatch(it)][:_MOST_NAMES]
    except (ValueError, RecursionError):
        return ""
    return nearest(name, names, cutoff=_SIMILAR)


def _within(
    text: str,
    names: tuple[str, ...],
    value: int,
    after: int,
    changes: Changes,
    counts: FieldCounts,
) -> str:
    """The value of the member that ``names`` lead to, from ``value`` to ``after``, with changes within it."""
    if text[value] == "{":
        return _object(text, value, changes, names, counts)[0]
    if text[value:after] != _NULL:
        raise NotAnObject(f"its field {names[-1]} is not an object")
    return _NULL


_Member = tuple["str | None", int, int, int, int]
"""A member's name, and where it begins, its value, what follows that, and its comma or brace; members that were read
at once have no name. Plain, for speed."""


def _members(text: str, at: int, names: tuple[str, ...]) -> tuple[list[_Member], int]:
    """The members of the object at ``at``, and where it ends; those that begin with ``names`` one by one."""
    match_others, begin = _others(names).match, at + 1
    members: list[_Member] = []
    while True:
        run = match_others(text, begin)
        assert run is not None
        if run.end() > begin:
            members.append((None, begin, begin, run.end() - 1, run.end() - 1))
            begin = run.end()
        match = _NAME.match(text, begin)
        if match is None:
            after = _after_space(text, begin)
            if not members and text[after : after + 1] == "}":
                return members, after + 1
            raise NotAnObject(f"it is not JSON: a name is missing at character {begin}")
        value, name = match.end(), match[1]
        if "\\" in name:
            name = json.loads(f'"{name}"')
        _, after = _scan(text, value)
        delimiter = after if text[after : after + 1] in _ENDS else _after_space(text, after)
        if text[delimiter : delimiter + 1] not in _ENDS:
            raise NotAnObject(f"it is not JSON: a comma is missing at character {delimiter}")
        members.append((name, begin, value, after, delimiter))
        if text[delimiter] == "}":
            return members, delimiter + 1
        begin = delimiter + 1


@lru_cache
def _others(names: tuple[str, ...]) -> re.Pattern[str]:
    """Short members next to each other, each with its comma, whose names begin with none of ``names``."""
    alternatives = "|".join(map(re.escape, names))
    return re.compile(rf'(?:{_S}"(?!{alternatives}){_PLAIN}"{_S}:{_S}{_SHORT}{_S},)*+')


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return int(match.end())
