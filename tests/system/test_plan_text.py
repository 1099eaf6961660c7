"""What the log of the task ``plan`` says."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.plan import Note, Plan, Refusal


def test_a_plans_notes_are_in_the_tasks_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    # Airflow reads its environment when it is imported.
    from kafka_ferry_airflow.plan_text import plan_lines  # noqa: PLC0415

    plan = Plan(
        *("primary->backup", "run-1", 1, "A", "B"),
        notes=(Note("orders", 3, "offsets [40, 100) were deleted."),),
        refused=(Refusal("old", None, "it was made anew.", "Rename it."),),
    )
    assert list(plan_lines(plan))[1:] == [
        "NOTE orders-3: offsets [40, 100) were deleted.",
        "REFUSES old: it was made anew. Rename it.",
    ]
