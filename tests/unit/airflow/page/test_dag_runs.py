"""What the page asks of Airflow's database, of a table in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from kafka_ferry_airflow.page.dag_runs import _ENDED, _WHOLE, _failed_backfills, _newest

AT = datetime(2026, 1, 1, tzinfo=UTC)


def a_row(dag: str, run: str, kind: str, state: str, conf: object = None) -> dict[str, Any]:
    columns = {"run_after": AT, "log_template_id": None, "conf": conf}
    return {"dag_id": dag, "run_id": run, "run_type": kind, "state": state, **columns}


@contextmanager
def runs_in_memory(rows: Sequence[dict[str, Any]]) -> Iterator[Session]:
    engine = create_engine("sqlite://")
    dags: Any = DagModel.__table__
    runs: Any = DagRun.__table__
    with Session(engine) as session:
        for table in (dags, runs):
            table.create(engine)
        names = {row["dag_id"] for row in rows}
        given = {"bundle_name": "dags", "is_stale": False, "has_task_concurrency_limits": False}
        given |= dict.fromkeys(("max_active_tasks", "max_consecutive_failed_dag_runs"), 1)
        session.execute(dags.insert(), [{"dag_id": name, **given} for name in names])
        session.execute(runs.insert(), rows)
        yield session


def test_of_the_failed_runs_of_a_backfill_the_newest_are_shown_for_each_dag() -> None:
    """A user chooses how many runs a backfill has, and each page of all users would have all of them."""
    rows = [
        a_row(dag, f"{dag}-{kind}-{state}-{number}", kind, state)
        for kind, state in (("backfill", "failed"), ("backfill", "success"), ("manual", "failed"))
        for dag, many in (("a", 150), ("b", 2), ("other", 1))
        for number in range(many)
    ]
    with runs_in_memory(rows) as session:
        failed = _failed_backfills(session, ["a", "b", "c"])
    assert failed["a"] == [f"a-backfill-failed-{number}" for number in range(149, 49, -1)]
    assert failed["b"] == ["b-backfill-failed-1", "b-backfill-failed-0"]
    assert failed["c"] == []
    assert "other" not in failed


def test_the_last_run_of_the_whole_flow_is_no_dry_run_backfill_or_run_of_some_topics() -> None:
    asked = {"topics": [], "dry_run": False, "since": None, "until": None}
    rows = [
        a_row("a", "whole", "manual", "failed", asked),
        a_row("a", "some", "manual", "success", asked | {"topics": ["b"]}),
        a_row("a", "day", "backfill", "success", {}),
        a_row("a", "window", "manual", "success", asked | {"since": "2026-01-01T00:00:00Z"}),
        a_row("a", "dry", "manual", "success", {"dry_run": True}),
        a_row("a", "waits", "manual", "queued"),
        a_row("b", "timetable", "scheduled", "success"),
        a_row("c", "dry", "manual", "success", {"dry_run": True}),
    ]
    with runs_in_memory(rows) as session:
        ended, whole = (
            {dag: run.run for dag, run in _newest(session, ["a", "b", "c"], *conditions).items()}
            for conditions in (_ENDED, (*_ENDED, *_WHOLE))
        )
    assert ended == {"a": "window", "b": "timetable"}
    assert whole == {"a": "whole", "b": "timetable"}
