"""How many replicas of a remote topic's partitions go to which racks, as files say it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import regex

from kafka_ferry.config.types.values import whole_number

# What separates racks, counts, patterns and topics in a text cannot be part of a rack's name.
_RACK: Final = regex.compile(r"[^\s:;=,]+")
_MUST: Final = (
    "must be racks, each with a number of replicas, such as {rack-a: 2, rack-b: 1}, or racks with one "
    "replica each, such as [rack-a, rack-b]"
)
# What the request that creates a topic has room for.
_MOST: Final = 32767

SCHEMA: Final = {
    "anyOf": [
        {
            "type": "object",
            "additionalProperties": {"type": "integer", "minimum": 1, "maximum": _MOST},
        },
        {"type": "array", "items": {"type": ["string", "integer"]}, "minItems": 1},
        {"type": "string", "pattern": r"^[^\s:,]+$"},
    ]
}
"""The JSON Schema of a value, for editors."""


def replica_placement_text(value: Any) -> str:
    """The text of a file's value: ``rack=count``, several after each other with ``;``.

    Raises:
        ValueError: it is no mapping of racks to counts, no list of racks, and no such text.
    """
    if isinstance(value, str):
        parts = [part.strip() for part in value.split(";") if part.strip()]
        pairs = [tuple(part.partition("=")[::2]) if "=" in part else (part, 1) for part in parts]
    elif isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list | tuple):
        pairs = [(rack, 1) for rack in value]
    else:
        raise ValueError(_MUST)
    counts = {_rack(rack): _count(count) for rack, count in pairs}
    if not counts or len(counts) < len(pairs) or sum(counts.values()) > _MOST:
        raise ValueError(_MUST)
    return ";".join(f"{rack}={count}" for rack, count in sorted(counts.items()))


@lru_cache(maxsize=256)
def read_replica_placement(text: str) -> Mapping[str, int]:
    """By rack, the replicas of a text by ``replica_placement_text``; none for ""."""
    pairs = (part.partition("=") for part in text.split(";") if part)
    return {rack: int(count) for rack, _, count in pairs}


def _rack(name: object) -> str:
    text = str(name).strip()
    if isinstance(name, bool) or not isinstance(name, str | int) or not _RACK.fullmatch(text):
        raise ValueError(_MUST)
    return text


def _count(value: object) -> int:
    count = whole_number(value, least=1, most=_MOST)
    if count is None:
        raise ValueError(_MUST)
    return count
