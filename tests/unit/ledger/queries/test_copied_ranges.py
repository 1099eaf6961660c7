"""The ledger's ranges by what is asked of them."""

from __future__ import annotations

import pytest

from kafka_ferry.batches import Segment
from kafka_ferry.ledger import LedgerTable
from kafka_ferry.ledger.queries.copied_ranges import (
    counts_in_topics,
    counts_of_partition,
    counts_of_run,
    next_source_offset,
    ranges_with,
    rewinds,
    spans_beside,
    spans_between,
    spans_into,
    spans_with_appends,
)
from kafka_ferry.model import TopicPartition, Window
from tests.unit.ledger.entries import NOW, a_backfill, a_copied_range, a_run, a_transaction
from tests.unit.ledger.queries.conftest import Ledger

ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 0)
REMOTE = ("primary.orders", "id of primary.orders")
WITH_REASONS = {"records": 6, "reasons": {"lost": 3, "aborted": 1}, "lost": ((10, 13),)}
ENTRIES = [
    a_run(),
    a_transaction(a_copied_range(0, 10, rebuilt={"legacy": 2}, rule_counts={"x": 3})),
    a_transaction(a_copied_range(10, 20, **WITH_REASONS), run="run-2"),
    a_backfill(a_copied_range(2, 8)),
    a_transaction(a_copied_range(0, 3, topic="clicks"), run="run-2"),
    a_transaction(a_copied_range(5, 9, rewound_from=20), a_copied_range(0, 9, partition=1)),
]


@pytest.fixture
def table(ledger: Ledger) -> LedgerTable:
    return ledger(*ENTRIES)


def test_a_run_has_the_counts_of_its_ranges(table: LedgerTable) -> None:
    orders, clicks = counts_of_run(table, "run-2")
    assert (orders.source, orders.start, orders.end, orders.key) == (
        ORDERS,
        10,
        20,
        (2, "orders", 0, 10),
    )
    assert (orders.reasons, orders.lost) == ({"lost": 3, "aborted": 1}, ((10, 13),))
    assert (clicks.source, clicks.records, clicks.is_backfill) == (CLICKS, 3, False)


def test_a_partition_has_the_counts_of_backfills_too(table: LedgerTable) -> None:
    found = list(counts_of_partition(table, ORDERS))
    assert [it.ledger_offset for it in found] == [1, 2, 3, 5]
    assert [it.is_backfill for it in found] == [False, False, True, False]
    assert (found[0].rebuilt, found[3].rewound_from) == ({"legacy": 2}, 20)
    assert (found[0].rule_counts, found[3].rule_counts) == ({"x": 3}, {})
    assert [it.ledger_offset for it in counts_in_topics(table, ["primary.clicks"])] == [4]


@pytest.mark.parametrize(("offset", "at"), [(0, [1]), (6, [1, 3, 5]), (15, [2]), (20, [])])
def test_an_offset_is_in_ranges_of_runs_and_backfills(
    table: LedgerTable, offset: int, at: list[int]
) -> None:
    found = ranges_with(table, ORDERS, offset)
    assert [it.ledger_offset for it in found] == at
    assert {it.writer for it in found} <= {2}


def test_the_next_run_goes_on_after_the_newest_range(table: LedgerTable) -> None:
    assert next_source_offset(table, ORDERS) == 9
    assert next_source_offset(table, TopicPartition("unknown", 0)) is None


def test_spans_around_offsets_are_those_of_the_topic_of_today(table: LedgerTable) -> None:
    found = spans_between(table, "orders", REMOTE, {0}, (3, 9))
    assert [it.ledger_offset for it in found] == [1, 3, 5]
    assert [it.window for it in found] == [None, Window(NOW - 1_000, NOW), None]
    assert found[0].segments == (Segment(0, 1000, 10),)
    assert spans_between(table, "orders", ("primary.orders", "another"), {0}, (3, 9)) == []


@pytest.mark.parametrize(("after", "at"), [(None, [1, 2, 3, 5, 5]), (9, [1, 2, 5]), (50, [5])])
def test_spans_after_an_offset_have_all_rewinds(
    table: LedgerTable, after: int | None, at: list[int]
) -> None:
    found = spans_into(table, ["id of orders"], ["id of primary.orders"], after=after)
    assert [it.ledger_offset for it in found] == at


def test_rewinds_have_their_start_and_their_place_in_the_ledger(table: LedgerTable) -> None:
    assert rewinds(table) == {("id of orders", 0): [(5, 5)]}


def test_spans_beside_a_range_are_all_but_it(table: LedgerTable) -> None:
    (first, *_) = ranges_with(table, ORDERS, 0)
    (second, *_) = ranges_with(table, ORDERS, 15)
    assert [it.ledger_offset for it in spans_beside(table, first)] == [3, 5]
    assert [it.ledger_offset for it in spans_beside(table, second)] == [5]


def test_only_partitions_with_appended_records_have_spans(table: LedgerTable) -> None:
    ids = dict([REMOTE]) | {"primary.clicks": "id of primary.clicks"}
    found = spans_with_appends(table, ids)
    assert {tp: [it.ledger_offset for it in spans] for tp, spans in found.items()} == {
        ORDERS: [1, 2, 3, 5]
    }
    assert spans_with_appends(table, {"primary.clicks": "id of primary.clicks"}) == {}
    assert spans_with_appends(table, {}) == {}


def test_what_another_mirror_had_put_elsewhere_is_compared_without_places(ledger: Ledger) -> None:
    entry = a_transaction(a_copied_range(0, 9, segments=(), compared=((0, 9),)), a_copied_range(9))
    found = spans_into(ledger(entry), ["id of orders"], ["id of primary.orders"])
    assert [(it.compared, bool(it.segments)) for it in found] == [(True, False), (False, True)]
