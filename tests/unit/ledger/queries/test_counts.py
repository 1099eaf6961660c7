"""Counts of the ledger, of a run and since the flow began."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.ledger import LedgerTable
from kafka_ferry.ledger.queries.counts import (
    Counts,
    count_copied,
    counts_by_topic,
    offsets_in_ranges,
)
from kafka_ferry.model import TopicPartition
from kafka_ferry.state import StateFolder
from tests.unit.ledger.entries import FLOW, a_backfill, a_copied_range, a_run, a_transaction

ORDERS = TopicPartition("primary.orders", 0)
CLICKS = TopicPartition("primary.clicks", 3)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LedgerTable:
    entries = [
        a_run(),
        a_transaction(a_copied_range(0, 10, records=6, reasons={"aborted": 3, "control": 1})),
        a_transaction(
            a_copied_range(10, 30),
            a_copied_range(0, 5, topic="clicks", partition=3, records=4, reasons={"lost": 1}),
            run="run-2",
        ),
        a_transaction(a_copied_range(30, 40, records=8, reasons={"control": 2}), run="run-2"),
        a_transaction(a_copied_range(0, 1_000), flow="other->backup"),
        a_backfill(a_copied_range(0, 4, topic="old")),
        a_backfill(
            a_copied_range(0, 9, records=1, reasons={"copied-before": 6, "outside-window": 2})
        ),
    ]
    monkeypatch.setattr(
        "kafka_ferry.ledger.projection.read_ledger", lambda *_: iter(enumerate(entries))
    )
    table = LedgerTable(StateFolder(str(tmp_path)), FLOW)
    table.project(None, "ledger")  # type: ignore[arg-type]
    return table


def test_a_partition_has_the_counts_of_the_run_beside_those_of_all(ledger: LedgerTable) -> None:
    assert count_copied(ledger, "run-2") == {
        ORDERS: Counts("orders", 35, 4_900, {"aborted": 3, "control": 3}, 28, 3_000),
        CLICKS: Counts("clicks", 4, 500, {"lost": 1}, 4, 500),
    }


def test_a_run_that_copied_nothing_counts_nothing(ledger: LedgerTable) -> None:
    found = count_copied(ledger, "run-3")
    assert {(counts.records, counts.bytes) for counts in found.values()} == {(0, 0)}
    assert found[ORDERS].total_records == 35


def test_an_empty_ledger_counts_nothing(tmp_path: Path) -> None:
    assert count_copied(LedgerTable(StateFolder(str(tmp_path)), FLOW), "run-1") == {}


def test_a_topic_has_the_sums_of_a_run(ledger: LedgerTable) -> None:
    of_run = {"orders": (28, 3_000), "clicks": (4, 500)}
    assert counts_by_topic(ledger, "run-2", of_backfills=False) == of_run
    assert counts_by_topic(ledger, "run-2", of_backfills=True) == {}
    assert counts_by_topic(ledger, "backfill-1", of_backfills=True) == {
        "old": (4, 400),
        "orders": (1, 900),
    }


def test_offsets_are_those_of_all_ranges(ledger: LedgerTable) -> None:
    assert offsets_in_ranges(ledger) == 40 + 5 + 4 + 9
