"""Which topics a run has proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafka_ferry.model import OffsetsChoice, Plan, Range, Refusal, RunOptions, Window
from kafka_ferry.report.summary import RunScope, RunSummary
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.runs.state.run_folder import Reconciliation, RunFolder
from kafka_ferry.runs.verify.verified_topics import TopicProof, later_failures, proved_topics
from kafka_ferry.verify import ExpectationResult, TopicRow, Verdict
from tests.support.runs.reports import changed
from tests.unit.ledger.entries import a_copied_range, a_transaction
from tests.unit.runs.publish.test_measures import PLANNED_AT, PROVED, a_range, a_range_row, a_row

FAILED = Verdict(success=False)
USERS = ExpectationResult(
    "orders are few", "ranges", success=False, severity="critical", source="include/mine.py"
)
UNKNOWN = ExpectationResult(
    "a check", "ranges", success=False, severity="warning", raised="it raised"
)


@pytest.fixture
def proofs(run_with: Callable[..., RunContext]) -> Any:
    """The proofs of a run that copied ten of orders and nothing of clicks, by topic."""
    run = run_with(
        a_transaction(a_copied_range(0, 10), run="run-2"),
        a_transaction(a_copied_range(10, 20), run="run-3"),
    )

    def prove(found: Reconciliation | None, **more: Any) -> dict[str, TopicProof]:
        choices = tuple(OffsetsChoice(t, f"primary.{t}", False, "") for t in ("orders", "clicks"))
        plan = Plan("primary->backup", "run-2", PLANNED_AT, "A", "B", choices=choices)
        run.folder.save_plan(
            changed(plan, **{"ranges": (a_range(), a_range("clicks", 5, 5)), **more})
        )
        if found:
            with run.folder.step("verify"):
                run.folder.save_reconciliation(found)
        return {it.topic: it for it in proved_topics(run)}

    return prove


GOOD = Reconciliation(
    (a_range_row(),), (a_row(), a_row("clicks", covered_start=5, covered_end=5, planned_start=5, planned_end=5)), PROVED
)  # fmt: skip


def test_a_topic_is_proved_until_the_run_looked_at_the_source_also_where_nothing_was_new(
    proofs: Any,
) -> None:
    found = proofs(GOOD)

    assert found["orders"] == TopicProof(
        "orders",
        "primary.orders",
        records=10,
        bytes=found["orders"].bytes,
        complete_until=PLANNED_AT,
        ends={0: 10},
    )
    assert found["orders"].bytes > 0
    assert (found["clicks"].records, found["clicks"].ends) == (0, {0: 5})


def test_without_a_verification_nothing_is_proved(proofs: Any) -> None:
    assert proofs(None) == {}
    assert proofs(replace(GOOD, verdict=replace(FAILED, expectations=(UNKNOWN,)))) == {}


@pytest.mark.parametrize(
    "found",
    [
        replace(GOOD, ranges=(a_range_row(target_records=9),), verdict=FAILED),
        replace(GOOD, partitions=(a_row(covered_end=4, position=4), *GOOD.partitions[1:])),
        replace(GOOD, partitions=GOOD.partitions[1:]),
        replace(GOOD, topics=(TopicRow("orders", "primary.orders", False, 1, 0, lost=1),)),
    ],
    ids=["a record is missing", "not copied to the planned end", "not looked at", "another topic"],
)
def test_a_topic_that_is_not_as_it_should_be_takes_none_of_the_others_along(
    proofs: Any, found: Reconciliation
) -> None:
    assert proofs(found).keys() == {"clicks"}


def test_a_verification_that_the_next_plan_has_overtaken_proves_nothing(
    run_with: Callable[..., RunContext],
) -> None:
    run = run_with(a_transaction(a_copied_range(0, 10), run="run-2"))
    plan = Plan("primary->backup", "run-2", PLANNED_AT, "A", "B", ranges=(a_range(),))
    with run.folder.step("verify"):
        run.folder.forget("plan", "verify")
        run.folder.save_plan(plan)
        run.folder.save_reconciliation(GOOD)

    assert proved_topics(run) == []


def test_a_step_that_is_repeated_knows_what_later_runs_have_found(
    run_with: Callable[..., RunContext],
) -> None:
    run = run_with()
    choices = tuple(OffsetsChoice(t, f"primary.{t}", False, "") for t in ("orders", "clicks"))
    made = Plan("primary->backup", "run-2", PLANNED_AT, "A", "B", choices=choices)
    orders_off = replace(GOOD, ranges=(a_range_row(target_records=9),), verdict=FAILED)
    refused = (Refusal("clicks", "no.", ""),)

    def later(number: int, found: Reconciliation, **more: Any) -> None:
        name, at = f"run-{number}", PLANNED_AT + number - 2
        folder = RunFolder(run.state.folder("runs"), name)
        plan = changed(made, run=name, at=at, ranges=(a_range(),), **more)
        folder.save_plan(plan)
        with folder.step("verify"):
            folder.save_reconciliation(found)
        scope = RunScope(partial=bool(plan.options.topics))
        folder.remember(RunSummary(name, at, at, "incomplete", scope=scope))

    run.folder.save_plan(made)
    later(1, orders_off)
    assert later_failures(run) == set()
    later(3, orders_off, refused=refused)
    assert later_failures(run) == {"orders", "clicks"}
    later(4, GOOD, options=RunOptions(topics=("orders",)), choices=choices[:1])
    assert later_failures(run) == {"clicks"}
    later(5, orders_off, options=RunOptions(window=Window(1, 2)))
    assert later_failures(run) == {"clicks"}


def test_a_topic_with_a_partition_that_was_refused_is_not_proved(proofs: Any) -> None:
    assert proofs(GOOD, refused=(Refusal("orders", "no.", "", partition=3),)).keys() == {"clicks"}


def test_where_an_expectation_of_the_users_fails_its_topic_is_unknown(proofs: Any) -> None:
    assert proofs(replace(GOOD, verdict=replace(FAILED, expectations=(USERS,)))) == {}


def test_a_backfill_proves_its_window_and_only_the_topics_that_it_had_work_in(proofs: Any) -> None:
    window = Window(1, 2)
    one: tuple[Range, ...] = (a_range(),)
    found = proofs(GOOD, ranges=one, options=RunOptions(window=window))

    assert found.keys() == {"orders"}
    assert (found["orders"].window, found["orders"].complete_until) == (window, 0)
