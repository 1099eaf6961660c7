"""The starts of runs."""

from __future__ import annotations

import pytest

from kafka_ferry.ledger import RunEntry
from kafka_ferry.ledger.queries.run_starts import (
    RunStart,
    isolation_levels,
    last_run,
    last_runs,
    last_start_before,
    most_writers,
    selection_at_start,
)
from kafka_ferry.plan.schedule.sharding import Writers
from tests.unit.ledger.entries import FLOW, NOW, a_copied_range, a_run, a_transaction
from tests.unit.ledger.queries.conftest import Ledger

OTHER = "other->backup"
AGAIN = RunEntry(
    flow=FLOW,
    run="run-2",
    at=NOW + 9,
    writers=4,
    assignment="topic/2",
    topics="t",
    isolation_level="read_committed",
)
ENTRIES = [
    a_run(),
    a_transaction(a_copied_range()),
    a_run("run-2", writers=8, at=NOW + 5),
    a_run("run-9", flow=OTHER, writers=64),
    AGAIN,
]
FIRST = RunStart(0, "run-1", NOW, 4)
LAST = RunStart(4, "run-2", NOW + 9, 4, "topic/2", topics="t")


def test_the_newest_starts_of_the_flow_come_first(ledger: Ledger) -> None:
    table = ledger(*ENTRIES)
    assert last_run(table) == LAST
    assert last_runs(table, 9) == [LAST, RunStart(2, "run-2", NOW + 5, 8), FIRST]
    assert most_writers(table) == 8


def test_no_run_has_begun(ledger: Ledger) -> None:
    table = ledger(a_transaction(a_copied_range()))
    assert (last_run(table), last_runs(table, 2), most_writers(table)) == (None, [], 0)
    assert (selection_at_start(table, "run-1"), last_start_before(table, "run-1")) == ("", 0)


@pytest.mark.parametrize(
    ("run", "topics", "before"), [("run-1", "", NOW + 9), ("run-2", "t", NOW), ("new", "", NOW + 9)]
)
def test_a_run_has_its_last_selection_and_the_start_of_the_run_before(
    ledger: Ledger, run: str, topics: str, before: int
) -> None:
    table = ledger(*ENTRIES)
    assert (selection_at_start(table, run), last_start_before(table, run)) == (topics, before)


@pytest.mark.parametrize(
    ("writers", "are_those"), [(Writers(4, 2), True), (Writers(4), False), (Writers(8, 2), False)]
)
def test_writers_are_those_of_a_run_if_number_and_assignment_are(
    writers: Writers, are_those: bool
) -> None:
    assert LAST.has_writers(writers) is are_those


def test_isolation_levels_are_those_with_which_the_runs_began(ledger: Ledger) -> None:
    table = ledger(*ENTRIES)
    assert isolation_levels(table, ["run-2"]) == {"", "read_committed"}
    # The other flow's run has begun, and this one's takeover never does.
    for other in ("run-9", "takeover__1"):
        assert isolation_levels(table, ["run-2", other]) == {"", "read_committed", "unknown"}
    assert isolation_levels(table, []) == frozenset()
