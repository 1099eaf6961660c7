"""A walk over a record in Avro before fastavro reads it, which recurses in C and takes any number of empty values.

(a) A record within another one, or within itself, is followed ``MOST_NESTED`` deep: deeper, the C stack of the
    process would end.
(b) Values are counted. Those that take no byte, such as nulls in an array, are counted against the record's length; and
    a byte may be a record within a record, and so on, each of which takes memory.

A record is read without a walk where its schema and its length say that neither can happen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, NamedTuple

from kafka_ferry.schemas.fields.avro_unions import type_of
from kafka_ferry.schemas.fields.limits import (
    MOST_NESTED,
    MOST_STEPS,
    OBJECT_STEPS,
    Budget,
    walk_budget,
)
from kafka_ferry.schemas.fields.record_schema import NotReadable

_FIXED: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINT_BYTES: Final = 10
_SHORT: Final = "it ends within a value"


class _Blocks(NamedTuple):
    """The rest of an array or a map: how many items of its block are left, and their type."""

    items: Any
    is_map: bool
    left: int


class AvroWalk:
    """Checks records of a schema.

    Args:
        root: the schema, as fastavro has parsed it.
        named: the types that it names, as fastavro has parsed them.

    Attributes:
        is_needed: whether records of it are walked over, however short they are.
        widest: how many types its largest union has.
        has_unnamed_types: whether a union has an array or a map.
    """

    def __init__(self, root: Any, named_types: Mapping[str, Any]) -> None:
        self._root, self._named = root, named_types
        self._depth = _depth(root, named_types)
        self.is_needed = self._depth > MOST_NESTED or _has_empty_values(root, named_types)
        unions = [
            node
            for one in (root, *named_types.values())
            for node in _within(one)
            if isinstance(node, list)
        ]
        self.widest = max(map(len, unions), default=0)
        self.has_unnamed_types = any(
            isinstance(branch, dict) and branch["type"] in ("array", "map")
            for union in unions
            for branch in union
        )

    def check(self, payload: bytes) -> None:
        """Does nothing if a record is neither nested too deep nor has too many values.

        Raises:
            NotReadable: it is or has, or does not fit its schema.
        """
        most_steps = len(payload) * OBJECT_STEPS * (self._depth + 1)
        if self.is_needed or most_steps > MOST_STEPS:
            self._walk(payload, walk_budget(payload))

    def _walk(self, payload: bytes, budget: Budget) -> None:
        waiting: list[tuple[Any, int]] = [(self._root, 0)]
        at = 0
        while waiting:
            node, depth = waiting.pop()
            budget.spend()
            if depth > MOST_NESTED:
                raise NotReadable(f"it is nested deeper than {MOST_NESTED}")
            if isinstance(node, _Blocks):
                node, at = _next_item(payload, at, node)
                if node:
                    waiting += ((node, depth), (node.items, depth + 1))
                continue
            node = type_of(node, self._named)
            if isinstance(node, list):
                branch, at = _varint(payload, at)
                if not 0 <= branch < len(node):
                    raise NotReadable("it does not fit its schema: a union has no such branch")
                waiting.append((node[branch], depth))
                continue
            kind = node["type"] if isinstance(node, dict) else node
            if kind in ("record", "error", "array", "map"):
                budget.spend(OBJECT_STEPS)
            if kind in ("record", "error"):
                budget.spend(len(node["fields"]))
                waiting += ((field["type"], depth + 1) for field in reversed(node["fields"]))
            elif kind in ("array", "map"):
                items = node["items" if kind == "array" else "values"]
                waiting.append((_Blocks(items, kind == "map", 0), depth))
            else:
                at = _after(payload, at, kind, node)


def _next_item(payload: bytes, at: int, blocks: _Blocks) -> tuple[_Blocks | None, int]:
    """What is left of an array or a map without its next item, None after the last one; and where that item is."""
    left = blocks.left
    if not left:
        left, at = _varint(payload, at)
        if left < 0:
            left, at = -left, _varint(payload, at)[1]
        if not left:
            return None, at
    if blocks.is_map:
        at = _after(payload, at, "string", None)
    return blocks._replace(left=left - 1), at


def _after(payload: bytes, at: int, kind: str, node: Any) -> int:
    """Where a value without parts ends."""
    if kind in ("bytes", "string"):
        size, at = _varint(payload, at)
        if size < 0:
            raise NotReadable("it does not fit its schema: a length is negative")
        at += size
    elif kind == "fixed":
        at += int(node["size"])
    elif kind in _FIXED:
        at += _FIXED[kind]
    elif kind in ("int", "long", "enum"):
        return _varint(payload, at)[1]
    elif isinstance(kind, (dict, list)):
        # "type" may hold a type; fastavro resolves those of fields itself.
        raise NotReadable("its schema has a type within a type")
    else:
        raise NotReadable(f"its schema has the unknown type {kind}")
    if at > len(payload):
        raise NotReadable(_SHORT)
    return at


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    number = 0
    for place, byte in enumerate(payload[at : at + _VARINT_BYTES]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + place + 1
    raise NotReadable(_SHORT)


def _parts(node: Any) -> Iterator[Any]:
    """The types that a type is made of."""
    if isinstance(node, list):
        yield from node
    elif isinstance(node, dict):
        if node["type"] in ("record", "error"):
            yield from (field["type"] for field in node["fields"])
        elif node["type"] in ("array", "map"):
            yield node["items" if node["type"] == "array" else "values"]


def _within(node: Any) -> Iterator[Any]:
    """A type and all those in it, up to the names of others."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += _parts(part)


def _depth(root: Any, named_types: Mapping[str, Any]) -> int:
    """How deep the values of a schema are within each other at most; deeper than any if one is within itself."""
    uses = {
        name: {part for part in _within(type_) if isinstance(part, str) and part in named_types}
        for name, type_ in named_types.items()
    }
    depths: dict[str, int] = {}
    try:
        for name in TopologicalSorter(uses).static_order():
            depths[name] = _own_depth(named_types[name], depths)
    except CycleError:
        return sys.maxsize
    return _own_depth(root, depths)


def _own_depth(node: Any, depths: Mapping[str, int]) -> int:
    """The depth of a type, of which those are known that it names; it is nested no deeper than ``check_size`` says."""
    if isinstance(node, str):
        return depths.get(node, 0)
    below = max((_own_depth(part, depths) for part in _parts(node)), default=0)
    return below if isinstance(node, list) else below + 1


def _has_empty_values(root: Any, named_types: Mapping[str, Any]) -> bool:
    """Whether values other than a union's null may take no byte."""
    return any(
        _is_empty(part) and not isinstance(node, list)
        for one in (root, *named_types.values())
        for node in _within(one)
        for part in (node, *_parts(node))
        if not (part is node and part == "null")
    )


def _is_empty(node: Any) -> bool:
    if not isinstance(node, dict):
        return bool(node == "null")
    if node["type"] in ("record", "error"):
        return not node["fields"]
    return bool(node["type"] == "fixed" and not node["size"])
