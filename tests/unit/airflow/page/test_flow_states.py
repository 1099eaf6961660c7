"""Which of a flow's runs says how the flow is."""

from __future__ import annotations

import pytest

from kafka_ferry.report.summary import RunScope, RunSummary, newest_whole
from kafka_ferry_airflow.page.dag_runs import DagRunState, DagState
from kafka_ferry_airflow.page.flow_states import state_of

WHOLE, SOME_TOPICS, A_BACKFILL = RunScope(), RunScope(partial=True), RunScope(since=1, until=2)


def published(
    run: str, planned: int, finished: int, state: str = "verified", scope: RunScope = WHOLE
) -> RunSummary:
    return RunSummary(run, planned, finished, state, scope=scope)


def ended(run: str, began: int, state: str = "failed") -> DagRunState:
    return DagRunState(run, state, "manual", began, began + 5, began)


def a_dag(last: DagRunState | None, whole: DagRunState | None) -> DagState:
    return DagState("a", False, "", None, last, last, whole)


FAILED = published("failed", 20, 25, "failed")
OLD = published("old", 10, 15)


@pytest.mark.parametrize(
    ("history", "dag", "state"),
    [
        ((), None, "never run"),
        ((), a_dag(ended("r", 10), ended("r", 10)), "failed"),
        ((), a_dag(ended("r", 10, "success"), ended("r", 10, "success")), "not proved"),
        ((OLD,), a_dag(ended("old", 9, "success"), ended("old", 9, "success")), "verified"),
        # What the newest run of the whole flow has found stays until another one has looked at it.
        ((OLD, FAILED, published("b", 30, 35, scope=SOME_TOPICS)), None, "failed"),
        ((OLD, FAILED, published("day", 30, 35, scope=A_BACKFILL)), None, "failed"),
        ((FAILED, published("old", 10, 35)), None, "failed"),
        ((FAILED, published("new", 30, 35)), None, "verified"),
        # A run that ended without a report likewise.
        ((OLD,), a_dag(ended("r", 20), ended("r", 20)), "failed"),
        ((published("old", 10, 35),), a_dag(ended("r", 20), ended("r", 20)), "failed"),
        (
            (OLD, published("b", 30, 35, scope=SOME_TOPICS)),
            a_dag(ended("b", 29, "success"), ended("r", 20)),
            "failed",
        ),
        ((published("new", 30, 35),), a_dag(ended("r", 20), ended("r", 20)), "verified"),
        # It was cleared, and has failed before it could publish again.
        ((OLD,), a_dag(ended("old", 20), ended("old", 20)), "failed"),
        # None has looked at all of it yet.
        ((published("b", 30, 35, scope=SOME_TOPICS),), None, "not verified"),
        ((published("b", 30, 35, "failed", A_BACKFILL),), None, "failed"),
        # It is not as good as the newest run of the whole flow has left it.
        ((OLD, published("b", 30, 35, "incomplete", SOME_TOPICS)), None, "incomplete"),
        ((OLD,), a_dag(ended("b", 20), ended("old", 9, "success")), "failed"),
        ((published("new", 30, 35), published("old", 10, 40, "incomplete")), None, "incomplete"),
    ],
)
def test_a_run_that_has_not_looked_at_all_of_it_hides_nothing(
    history: tuple[RunSummary, ...], dag: DagState | None, state: str
) -> None:
    assert state_of(history, dag).state == state


def test_the_report_is_that_of_the_run_that_gives_the_state() -> None:
    found = state_of((FAILED, published("old", 10, 35)), None)
    assert (found.published, found.unpublished) == (FAILED, None)
    assert newest_whole((FAILED, published("old", 10, 35))) is FAILED
    found = state_of((OLD,), a_dag(ended("r", 20), ended("r", 20)))
    assert (found.published, found.unpublished) == (OLD, ended("r", 20))
