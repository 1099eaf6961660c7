"""The tables that expectations check: their columns, and their rows as pandas frames."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka_ferry.verify.groups import GroupRow
from kafka_ferry.verify.rows import PartitionRow, RangeRow
from kafka_ferry.verify.topics import TopicRow
from kafka_ferry.verify.verdict import Table

Rows = Mapping[Table, Sequence[Any]]
"""The rows of each table that is judged."""

KINDS: Final[Mapping[Table, type]] = {
    "ranges": RangeRow,
    "partitions": PartitionRow,
    "topics": TopicRow,
    "groups": GroupRow,
}
# In addition to the attributes: a row's number, and its name in sentences.
ROW: Final = "row"
WHERE: Final = "where"


def columns(table: Table) -> tuple[str, ...]:
    """The columns of a table: its rows' attributes and derived values, as numbers and texts."""
    kind = KINDS[table]
    stored = (field.name for field in dataclasses.fields(kind))
    derived = (name for name, found in vars(kind).items() if isinstance(found, property))
    # A partition as an object: its topic and number are columns.
    return (WHERE, *stored, *(name for name in derived if name not in ("source", "target")))


def frame(table: Table, rows: Sequence[Any]) -> Any:
    """The rows with all columns; lists become texts, with one item after the other."""
    import pandas as pd  # noqa: PLC0415

    found: dict[str, list[object]] = {ROW: list(range(len(rows))), WHERE: list(map(str, rows))}
    for name in columns(table)[1:]:
        found[name] = [_cell(getattr(row, name)) for row in rows]
    return pd.DataFrame(found)


def _cell(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else value
