"""What the page asks of Airflow's database, of a table in memory."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.models.dagrun import DagRun
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from kafka_ferry_airflow.page.dag_runs import _failed_backfills

AT = datetime(2026, 1, 1, tzinfo=UTC)


def test_of_the_failed_runs_of_a_backfill_the_newest_are_shown_for_each_dag() -> None:
    """A user chooses how many runs a backfill has, and each page of all users would have all of them."""
    engine = create_engine("sqlite://")
    table: Any = DagRun.__table__
    table.create(engine)
    rows = [
        {
            "dag_id": dag,
            "run_id": f"{dag}-{kind}-{state}-{number}",
            "run_type": kind,
            "state": state,
            "run_after": AT,
            "log_template_id": None,
        }
        for kind, state in (("backfill", "failed"), ("backfill", "success"), ("manual", "failed"))
        for dag, many in (("a", 150), ("b", 2), ("other", 1))
        for number in range(many)
    ]
    with Session(engine) as session:
        session.execute(table.insert(), rows)
        failed = _failed_backfills(session, ["a", "b", "c"])
    assert failed["a"] == [f"a-backfill-failed-{number}" for number in range(149, 49, -1)]
    assert failed["b"] == ["b-backfill-failed-1", "b-backfill-failed-0"]
    assert failed["c"] == []
    assert "other" not in failed
