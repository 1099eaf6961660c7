"""The partitions of a backfill in the reconciliation table."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_ferry.ledger import LedgerRange
from kafka_ferry.model import Range, TopicPartition, Window
from kafka_ferry.model.ranges import Backfill
from kafka_ferry.verify import RangeRow, Recount, partition_rows
from kafka_ferry.verify.backfills import backfill_rows
from kafka_ferry.verify.checks import PARTITIONS
from kafka_ferry.verify.reconciliation import range_row
from tests.unit.ledger.entries import a_copied_range

SOURCE = TopicPartition("orders", 0)
PLAN = Range("orders", 0, 10, 50, "id of orders", "primary.orders", 1, backfill=Backfill(0, 9, 0))


def a_row(start: int, end: int, **more: Any) -> RangeRow:
    copied = a_copied_range(start, end)
    return range_row(
        LedgerRange(start, "backfill", copied, window=Window(0, 9)),
        Recount(copied.records, copied.digest),
        **more,
    )


def wrong(rows: list[RangeRow], twice: int = 0, planned: tuple[Range, ...] = (PLAN,)) -> set[str]:
    (row,) = backfill_rows(rows, planned, {SOURCE: twice})
    return {check.name for check in PARTITIONS.checks if not check.holds(row)}


def test_a_backfill_that_covers_its_plan_is_right() -> None:
    assert wrong([a_row(10, 30), a_row(30, 50)]) == set()


@pytest.mark.parametrize(
    ("rows", "twice", "broken"),
    [
        ([a_row(10, 30)], 0, "every planned offset is covered"),
        ([], 0, "every planned offset is covered"),
        ([a_row(10, 30), a_row(31, 50)], 0, "the ranges of a partition join without a gap"),
        ([a_row(10, 50)], 1, "no offset was copied twice"),
    ],
)
def test_a_backfill_that_does_not_is_named(rows: list[RangeRow], twice: int, broken: str) -> None:
    assert wrong(rows, twice) == {broken}


def test_what_an_earlier_plan_of_the_run_has_covered_is_no_gap_in_this_one() -> None:
    assert wrong([a_row(0, 5), a_row(10, 50), a_row(60, 70)]) == set()
    assert wrong([a_row(0, 5), a_row(60, 70)], planned=()) == set()


def test_a_backfills_ranges_continue_no_history_of_the_flows_own() -> None:
    target = TopicPartition("primary.orders", 0)
    own = range_row(LedgerRange(0, "run-1", a_copied_range(50, 60)), Recount(10, "50-60"))
    (row,) = partition_rows([own, a_row(0, 10)], [], {target: 60}, {}, {})
    assert [check.name for check in PARTITIONS.checks if not check.holds(row)] == []
