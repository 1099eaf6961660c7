"""The tables that expectations check: their columns, and their rows as pandas frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka_ferry.flat import Column, columns_of
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
    """The columns of a table: its rows' values, stored and derived, as numbers and texts."""
    return (WHERE, *_columns(table))


def frame(table: Table, rows: Sequence[Any]) -> Any:
    """The rows with all columns; lists become texts, with one item after the other."""
    import pandas as pd  # noqa: PLC0415

    data: dict[str, list[object]] = {ROW: list(range(len(rows))), WHERE: list(map(str, rows))}
    for name, column in _columns(table).items():
        data[name] = [_cell(column(row)) for row in rows]
    return pd.DataFrame(data)


def _columns(table: Table) -> dict[str, Column]:
    # A partition as an object: its topic and number are columns.
    every = columns_of(KINDS[table])
    return {name: every[name] for name in every if name not in ("source", "target")}


def _cell(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else value
