"""A part of a long table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_ferry_airflow.page.rows import TableQuery, part_of


@dataclass(frozen=True)
class Row:
    name: str
    lag: int | None = None
    reasons: Mapping[str, int] = field(default_factory=dict)


ROWS = (Row("orders", 5), Row("clicks"), Row("Orders-old", 2), Row("carts", 5))


def names(asked: TableQuery) -> list[str]:
    return [row.name for row in part_of(ROWS, asked, ["name", "lag"]).rows]


def test_rows_come_in_their_own_order_unless_another_is_asked_for() -> None:
    assert names(TableQuery()) == ["orders", "clicks", "Orders-old", "carts"]


def test_a_search_finds_all_of_its_words_whatever_their_case() -> None:
    assert names(TableQuery(search="ORDERS")) == ["orders", "Orders-old"]
    assert names(TableQuery(search="old orders")) == ["Orders-old"]
    assert names(TableQuery(search="5 car")) == ["carts"]
    assert names(TableQuery(search="nobody")) == []


def test_what_has_no_value_comes_last_in_both_directions() -> None:
    assert names(TableQuery(sort="lag")) == ["Orders-old", "orders", "carts", "clicks"]
    assert names(TableQuery(sort="lag", descending=True)) == [
        "orders",
        "carts",
        "Orders-old",
        "clicks",
    ]


def test_numbers_by_name_are_sorted_by_their_sum() -> None:
    rows = [Row("a", reasons={"lost": 2, "aborted": 2}), Row("b", reasons={"lost": 3}), Row("c")]
    asked = TableQuery(sort="reasons", descending=True)
    assert [row.name for row in part_of(rows, asked, ["name"]).rows] == ["a", "b", "c"]


def test_a_page_knows_how_many_rows_there_are_on_all_pages() -> None:
    part = part_of(ROWS, TableQuery(search="r", offset=1, limit=1), ["name"])
    assert (part.total, [row.name for row in part.rows]) == (3, ["Orders-old"])


def test_there_is_nothing_after_the_last_page() -> None:
    assert part_of(ROWS, TableQuery(offset=9), ["name"]).rows == ()
