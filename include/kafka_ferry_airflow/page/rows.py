"""A part of a long table, searched, sorted and paged on the server. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True)
class TableQuery:
    """A request for a part of a table.

    Attributes:
        search: only rows in which each of its words occurs, whatever the case; "" for all.
        sort: the attribute to sort by, "" for the rows' own order.
        descending: whether the largest comes first.
        offset: how many rows are left out before the first one.
        limit: how many rows are wanted at most.
    """

    search: str = ""
    sort: str = ""
    descending: bool = False
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True)
class Part(Generic[Row]):
    """The requested rows.

    Attributes:
        total: how many rows match, on all pages.
        rows: those of this page.
    """

    total: int
    rows: tuple[Row, ...]


def part_of(rows: Sequence[Row], query: TableQuery, searched: Iterable[str]) -> Part[Row]:
    """The requested part of ``rows``; rows without a value come last in any order.

    Args:
        rows: all rows, in their own order.
        query: the request.
        searched: the attributes to search.
    """
    matching = _matches(rows, query.search, tuple(searched))
    if query.sort:
        of = _sorted_by(query.sort)
        known = [row for row in matching if of(row) is not None]
        # Sorting is stable: rows with the same value keep their own order.
        known.sort(key=of, reverse=query.descending)
        matching = [*known, *(row for row in matching if of(row) is None)]
    return Part(len(matching), tuple(matching[query.offset : query.offset + query.limit]))


def _sorted_by(name: str) -> Callable[[Any], Any]:
    """What of a row an attribute sorts by; of numbers by name, their sum."""

    def of(row: Any) -> Any:
        value = getattr(row, name)
        return sum(value.values()) if isinstance(value, Mapping) else value

    return of


def _matches(rows: Sequence[Row], search: str, searched: tuple[str, ...]) -> Sequence[Row]:
    words = search.casefold().split()
    if not words:
        return rows

    def matches(row: Any) -> bool:
        text = " ".join(str(getattr(row, name)) for name in searched).casefold()
        return all(word in text for word in words)

    return [row for row in rows if matches(row)]
