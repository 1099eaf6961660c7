"""What reading a schema or a record may cost: no more than its length explains."""

from __future__ import annotations

from typing import Any, Final

from kafka_ferry.schemas.fields.record_schema import NotReadable

MOST_NESTED: Final = 64
"""How deep values are within values; Protobuf's library takes 100."""
_NESTED_SCHEMA: Final = 200
MOST_BRANCHES: Final = 100
"""How many types a union of Avro may have: fastavro looks at all of them for each value."""
_MOST_PARTS: Final = 100_000
# Likewise.
_MOST_SYMBOLS: Final = 2_000
_MOST_PATHS: Final = 10_000
_MOST_TYPES: Final = 10 * _MOST_PATHS
_LONG_NAME: Final = 64
_BASE: Final = 10_000
# To look at a value takes longer than to write a character: a batch may have millions of records of a few bytes.
_BASE_OF_WALK: Final = 250
_PER_BYTE: Final = 64
MOST_STEPS: Final = 16_000_000
"""The most steps that reading a record takes, however long it is: some hundreds of MiB of memory."""
OBJECT_STEPS: Final = 8
"""What a value takes that has others in it: in memory, as much as several numbers."""


class Budget:
    """Steps that may be taken.

    Args:
        steps: how many.
        what: what takes them, for the error.
        total: of what several budgets take together.
    """

    def __init__(self, steps: int, what: str, total: Budget | None = None) -> None:
        self._left, self._what, self._total = steps, what, total

    def spend(self, steps: int = 1) -> None:
        """Takes steps.

        Raises:
            NotReadable: there are none left.
        """
        self._left -= steps
        if self._left < 0:
            raise NotReadable(self._what)
        if self._total:
            self._total.spend(steps)

    def spend_name(self, name: str) -> None:
        """Takes a step, and more for a long name, which each path through it repeats.

        Raises:
            NotReadable: there are none left.
        """
        self.spend(1 + len(name) // _LONG_NAME)


def record_budget(payload: bytes, base: int = _BASE) -> Budget:
    """The budget of a record: a few bytes must not become gigabytes, whatever its schema says."""
    steps = base + _PER_BYTE * len(payload)
    if steps > MOST_STEPS:
        return Budget(MOST_STEPS, "it has too many values")
    return Budget(steps, "it has far more values than bytes")


def walk_budget(payload: bytes) -> Budget:
    """The budget for looking at all values of a record, also of those that take none of its bytes."""
    return record_budget(payload, _BASE_OF_WALK)


def schema_budget(total: Budget | None = None) -> Budget:
    """The budget for the names and types within a schema, whose parts may name each other in any number of ways."""
    return Budget(_MOST_PATHS, f"its schema has more than {_MOST_PATHS:,} paths", total)


def types_budget() -> Budget:
    """The budget for the types of all fields of a schema: many may have one that is made of as many others."""
    return Budget(_MOST_TYPES, f"its fields have more than {_MOST_TYPES:,} types")


def check_size(node: Any) -> None:
    """Does nothing if a schema's JSON is nested no deeper, and has no more parts, than schemas have.

    Libraries walk it by recursion, and look at all types of a union, and all symbols of an enumeration, for each value.

    Raises:
        NotReadable: it is or has.
    """
    waiting, budget = [(node, 0)], Budget(_MOST_PARTS, f"it has more than {_MOST_PARTS:,} parts")
    while waiting:
        within, depth = waiting.pop()
        budget.spend()
        if depth > _NESTED_SCHEMA:
            raise NotReadable(f"it is nested deeper than {_NESTED_SCHEMA}")
        symbols = within.get("symbols") if isinstance(within, dict) else None
        if isinstance(symbols, list) and len(symbols) > _MOST_SYMBOLS:
            raise NotReadable(f"an enumeration has more than {_MOST_SYMBOLS:,} symbols")
        parts = within.values() if isinstance(within, dict) else within
        if isinstance(within, dict | list):
            waiting += ((part, depth + 1) for part in parts)
