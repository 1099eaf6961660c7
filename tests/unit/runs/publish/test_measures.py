"""What is measured of a run without asking a cluster: ages, time, and what is proved until when."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafka_ferry.batches import NO_AGES, Spread
from kafka_ferry.clock import now_ms
from kafka_ferry.copy import Outcome, OutcomeFiles
from kafka_ferry.errors import ClusterUnreachable
from kafka_ferry.model import (
    ORDINARY,
    OffsetsChoice,
    Plan,
    Position,
    Range,
    Refusal,
    RunOptions,
    TopicPartition,
)
from kafka_ferry.model.remarks import PlanRemarks
from kafka_ferry.report.measures import Measures, VerifiedUntil
from kafka_ferry.report.summary import RunScope, RunSummary
from kafka_ferry.runs.publish import measures as measures_module
from kafka_ferry.runs.publish.measures import measure_run
from kafka_ferry.runs.publish.partition_lag import PartitionLag
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.runs.state.run_folder import RunFolder
from kafka_ferry.verify import ExpectationResult, PartitionRow, RangeRow, Verdict
from kafka_ferry.verify.rows import Coverage
from tests.support.runs.reports import A_FAILURE, RANGE, a_report, changed
from tests.unit.ledger.entries import a_copied_range, a_transaction

ORDERS, CLICKS = (TopicPartition(f"primary.{topic}", 0) for topic in ("orders", "clicks"))
PLANNED_AT = 60_000
PROVED = Verdict(success=True)


def a_range(topic: str = "orders", start: int = 0, end: int = 10) -> Range:
    return Range(topic, 0, start, end, f"id of {topic}", f"primary.{topic}", 0)


def a_row(topic: str = "orders", **more: Any) -> PartitionRow:
    row = PartitionRow(topic, 0, f"primary.{topic}", 0, 10, Coverage(0, 10), 10)
    return changed(row, **more)


def a_range_row(topic: str = "orders", **more: Any) -> RangeRow:
    counts = {"start": 0, "end": 10, "copied": 10, "aborted": 0, "control": 0, "target_records": 10}
    place = {"topic": topic, "partition": 0, "remote_topic": f"primary.{topic}"}
    return changed(RANGE, **place, **counts | more)


@pytest.fixture
def run(run_with: Callable[..., RunContext]) -> RunContext:
    return run_with(a_transaction(a_copied_range(0, 10), a_copied_range(0, 4, topic="refused")))


@pytest.fixture
def folder(run: RunContext) -> RunFolder:
    return run.folder


@pytest.fixture
def measured(run: RunContext, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Measures a run with this report and plan; the clusters say what ``behind`` says."""

    def measure(
        *ranges: Range,
        refused: tuple[Refusal, ...] = (),
        behind: Any = None,
        options: RunOptions = ORDINARY,
        **report: Any,
    ) -> Measures:
        def found(_: RunContext, partitions: Any) -> dict[TopicPartition, PartitionLag]:
            if isinstance(behind, Exception):
                raise behind
            return behind or {}

        monkeypatch.setattr(measures_module, "find_lag", found)
        choices = tuple(OffsetsChoice(t, f"primary.{t}", False, "") for t in ("orders", "clicks"))
        plan = Plan(
            *(run.flow.name, run.run_id, PLANNED_AT, "A", "B"),
            ranges=ranges,
            choices=choices,
            remarks=PlanRemarks(refused=refused),
            options=options,
        )
        run.folder.save_plan(plan)
        fields: dict[str, Any] = {"seconds": {"plan": 9.5, "mirror": 7.0}} | report
        report_ = a_report(run.flow.name, run.run_id, planned_at=PLANNED_AT, **fields)
        return measure_run(run, report_)

    return measure


def proved(measures: Measures) -> dict[str, int]:
    return {row.topic: row.verified_until for row in measures.partitions}


BOTH = {
    "partitions": (a_row(), a_row("clicks")),
    "ranges": (a_range_row(), a_range_row("clicks")),
    "verdict": PROVED,
}


def test_what_is_verified_is_proved_until_before_the_run_looked_at_the_source(
    measured: Any,
) -> None:
    """The plan's own time is that at which it was made, when all had been looked at."""
    found = measured(a_range(), a_range("clicks"), **BOTH)
    assert found.verified_until == PLANNED_AT - 9_500
    assert proved(found) == {"orders": PLANNED_AT - 9_500, "clicks": PLANNED_AT - 9_500}


@pytest.mark.parametrize(
    "bad",
    [
        {"partitions": (a_row(), a_row("clicks", covered_end=9))},
        {"partitions": (a_row(), a_row("clicks", target_beyond=1))},
        {"ranges": (a_range_row(), a_range_row("clicks", target_records=9))},
        {"ranges": (a_range_row(), a_range_row("clicks", digest_read="other"))},
        {"partitions": (a_row(),)},
    ],
    ids=[
        "short of its end",
        "more on the target",
        "record missing",
        "bytes differ",
        "not looked at",
    ],
)
def test_one_partition_that_is_not_proved_leaves_the_proof_of_the_others(
    measured: Any, bad: Any
) -> None:
    verdict = Verdict(success=False, failures=("x",))
    found = measured(a_range(), a_range("clicks"), **BOTH | {"verdict": verdict} | bad)
    assert proved(found) == {"orders": PLANNED_AT - 9_500, "clicks": 0}
    assert found.verified_until == 0


@pytest.mark.parametrize(
    "bad",
    [
        {"verdict": None},
        {
            "verdict": Verdict(
                False, (ExpectationResult("x", "ranges", False, "critical", raised="boom"),)
            )
        },
    ],
    ids=["no verdict", "an expectation that could not be evaluated"],
)
def test_without_a_whole_verdict_nothing_is_proved(measured: Any, bad: Any) -> None:
    assert proved(measured(a_range(), **BOTH | bad)) == {"orders": 0}


def test_a_partition_with_nothing_new_is_proved_as_of_now(measured: Any) -> None:
    assert proved(measured(verdict=PROVED)) == {"orders": PLANNED_AT - 9_500}


def test_a_partition_with_nothing_new_is_not_proved_if_what_it_has_is_not(measured: Any) -> None:
    bad = a_range_row(target_records=9)
    found = measured(verdict=Verdict(success=False, failures=("x",)), ranges=(bad,))
    assert proved(found) == {"orders": 0}


@pytest.mark.parametrize(("partition", "until"), [(None, 0), (0, 0), (1, PLANNED_AT - 9_500)])
def test_a_refused_partition_is_not_proved(
    measured: Any, partition: int | None, until: int
) -> None:
    refused = (Refusal("orders", "x.", "Decide.", partition=partition),)
    assert proved(measured(verdict=PROVED, refused=refused)) == {"orders": until}


def test_a_flow_with_something_refused_is_not_proved_as_a_whole(measured: Any) -> None:
    found = measured(a_range(), a_range("clicks"), **BOTH, refused=(), failures=(A_FAILURE,))
    assert found.verified_until == 0
    assert proved(found)["orders"] > 0


def test_an_earlier_proof_stays_until_there_is_a_later_one(
    measured: Any, folder: RunFolder
) -> None:
    folder.save_verified_until(VerifiedUntil(7, {str(ORDERS): 8, str(CLICKS): PLANNED_AT * 2}))
    assert measured(a_range(), verdict=None).verified_until == 7
    found = measured(a_range(), a_range("clicks"), **BOTH)
    assert found.verified_until == PLANNED_AT - 9_500
    assert proved(found) == {"orders": PLANNED_AT - 9_500, "clicks": PLANNED_AT * 2}
    assert folder.verified_until().partitions[str(CLICKS)] == PLANNED_AT * 2


def test_a_proof_by_a_clock_that_was_ahead_does_not_outlast_the_next_one(
    measured: Any, folder: RunFolder
) -> None:
    tomorrow = now_ms() + 86_400_000
    ahead = VerifiedUntil(tomorrow, dict.fromkeys(map(str, (ORDERS, CLICKS)), tomorrow))
    folder.save_verified_until(ahead)
    assert folder.verified_until() == VerifiedUntil(0, {str(ORDERS): 0, str(CLICKS): 0})
    found = measured(a_range(), a_range("clicks"), **BOTH)
    assert found.verified_until == PLANNED_AT - 9_500
    assert set(proved(found).values()) == {PLANNED_AT - 9_500}


@pytest.mark.parametrize(
    ("ends", "flow", "partitions"),
    [
        ({}, 7, {"orders-0": 8, "clicks-0": 9}),
        ({"orders-0": 5}, 7, {"orders-0": 8, "clicks-0": 9}),
        ({"orders-0": 6}, 0, {"clicks-0": 9}),
        ({"clicks-0": 1}, 0, {"orders-0": 8}),
    ],
)
def test_a_proof_of_what_the_ledger_does_not_have_counts_no_more(
    ends: dict[str, int], flow: int, partitions: dict[str, int]
) -> None:
    stored = VerifiedUntil(7, {"orders-0": 8, "clicks-0": 9}, ends)
    there = {TopicPartition("orders", 0): Position(5, "id", "id")}
    assert stored.within(there) == VerifiedUntil(flow, partitions, ends)


def test_a_proof_is_of_what_the_ledger_had_then(measured: Any, folder: RunFolder) -> None:
    measured(a_range(), a_range("clicks"), **BOTH)
    end = folder.verified_until().ends[str(ORDERS)]
    assert end > 0
    later = VerifiedUntil(0, {str(ORDERS): 1}, {str(ORDERS): end + 1})
    folder.save_verified_until(later.later(folder.verified_until()))
    assert folder.verified_until().ends[str(ORDERS)] == end


@pytest.mark.parametrize(
    ("planned", "state", "scope", "told"),
    [
        (PLANNED_AT + 1, "incomplete", RunScope(), "incomplete"),
        (PLANNED_AT + 1, "verified", RunScope(), ""),
        (PLANNED_AT + 1, "incomplete", RunScope(partial=True), ""),
        (PLANNED_AT - 1, "incomplete", RunScope(), ""),
    ],
)
def test_an_older_run_that_is_published_again_does_not_hide_what_the_newest_whole_one_has_found(
    measured: Any, folder: RunFolder, planned: int, state: str, scope: RunScope, told: str
) -> None:
    folder.remember(RunSummary("other", planned, planned, state, scope=scope))

    assert measured(a_range(), **BOTH).flow_state == told


def test_a_run_of_some_topics_does_not_hide_what_the_newest_whole_one_has_found(
    measured: Any, folder: RunFolder
) -> None:
    folder.remember(RunSummary("other", PLANNED_AT - 1, PLANNED_AT, "incomplete"))

    assert measured(a_range(), options=RunOptions(topics=("orders",))).flow_state == "incomplete"


def test_a_refused_topic_that_was_copied_before_is_measured_too(measured: Any) -> None:
    refused = TopicPartition("primary.refused", 0)
    found = measured(
        a_range(),
        refused=(Refusal("refused", "recreated.", "Decide."),),
        behind={refused: PartitionLag(40, 8.0)},
    )
    (row,) = [row for row in found.partitions if row.topic == "refused"]
    assert (row.total_records, row.records_behind, row.seconds_behind) == (4, 40, 8.0)


def test_a_source_that_does_not_answer_is_named_and_the_rest_is_measured(measured: Any) -> None:
    found = measured(a_range(), behind=ClusterUnreachable("primary does not answer."))
    assert found.missing == ("The lag of primary->backup is not known: primary does not answer.",)
    assert [(row.total_records, row.records_behind) for row in found.partitions] == [(10, None)]


def an_outcome(began: int, ended: int, read: Spread, stored: Spread = NO_AGES) -> Outcome:
    return Outcome(a_range(), 10, None, began, ended, read, stored)


def test_ages_and_time_are_those_of_all_attempts(measured: Any, folder: RunFolder) -> None:
    first = an_outcome(1_000, 3_000, Spread(1, 5, 5, 5, 5))
    second = an_outcome(10_000, 11_000, Spread(2, 1, 9, 10, 9), Spread(3, 4, 6, 15, 6))
    at_once = replace(second, range=a_range("clicks"), began_at=10_500, ended_at=11_500)
    OutcomeFiles(folder.files, "b").write(0, [second, at_once])
    OutcomeFiles(folder.files, "a").write(0, [first])
    found = measured(a_range(), a_range("clicks"))
    clicks, orders = found.partitions
    assert orders.read_ages == Spread(3, 1, 9, 15, 9)
    assert orders.stored_ages == clicks.stored_ages == Spread(3, 4, 6, 15, 6)
    assert found.copying_seconds == 2.0 + 1.5


def test_a_run_whose_tasks_told_nothing_has_the_steps_time(measured: Any) -> None:
    assert measured(a_range()).copying_seconds == 7.0


def test_an_outcome_of_an_older_release_has_no_ages(folder: RunFolder) -> None:
    OutcomeFiles(folder.files, "a").write(0, [an_outcome(1, 2, Spread(1, 5, 5, 5, 5))])
    (name,) = [name for name in folder.files.names(".json") if name.startswith("outcomes")]
    stored = json.loads(folder.files.read(name) or b"")
    for key in ("read_ages", "stored_ages"):
        del stored[0][key]
    folder.files.write(name, json.dumps(stored))
    (outcome,) = OutcomeFiles.read_all(folder.files)
    assert outcome.read_ages == NO_AGES
