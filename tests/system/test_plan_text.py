"""What the log of the task ``plan`` says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_ferry.plan import AdvisedAcl, Note, OffsetsChoice, Plan, Range, Refusal
from kafka_ferry.plan.plan import PLAINLY_TRANSLATED

PLAN = ("primary->backup", "run-1", 1, "A", "B")


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Plan], list[str]]:
    """What the log says of a plan."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    # Airflow reads its environment when it is imported.
    from kafka_ferry_airflow.plan_text import plan_lines  # noqa: PLC0415

    return lambda plan: list(plan_lines(plan))


def test_a_plans_notes_are_in_the_tasks_log(lines: Callable[[Plan], list[str]]) -> None:
    plan = Plan(
        *PLAN,
        notes=(Note("orders", 3, "offsets [40, 100) were deleted."),),
        refused=(Refusal("old", None, "it was made anew.", "Rename it."),),
    )
    assert lines(plan)[1:] == [
        "NOTE orders-3: offsets [40, 100) were deleted.",
        "REFUSES old: it was made anew. Rename it.",
    ]


def test_how_offsets_are_kept_is_in_the_tasks_log_with_why_and_what_it_takes(
    lines: Callable[[Plan], list[str]],
) -> None:
    payments = "primary.payments"
    share = "auto: about 91% of the source's offsets have a record."
    few = "auto: about 12% of the source's offsets have a record."
    plan = Plan(
        *PLAN,
        ranges=(Range("payments", 0, 5, 4_005, "I", payments, 3),),
        choices=(
            OffsetsChoice("orders", "primary.orders", False, PLAINLY_TRANSLATED),
            OffsetsChoice("payments", payments, True, share, gaps=1_234, fill_ms=7_404),
            OffsetsChoice("clicks", "primary.clicks", False, few),
        ),
        advised_acls=(
            AdvisedAcl(payments, "User:ferry", "WRITE", "ALLOW"),
            AdvisedAcl(payments, "User:ferry", "DELETE", "ALLOW"),
            AdvisedAcl(payments, "User:*", "READ", "ALLOW"),
        ),
    )
    assert lines(plan) == [
        "primary->backup: 4,000 offsets to copy",
        "  topic     becomes           partitions  offsets",
        "  payments  primary.payments           1    4,000",
        "  topic     offsets      gaps  filled in  why",
        f"  payments  preserved   1,234      7.4 s  {share}",
        f"  clicks    translated                    {few}",
        "advises to ALLOW WRITE, DELETE on primary.payments to User:ferry",
        "advises to ALLOW READ on primary.payments to User:*",
    ]


def test_a_plan_that_only_translates_says_nothing_of_offsets(
    lines: Callable[[Plan], list[str]],
) -> None:
    choice = OffsetsChoice("orders", "primary.orders", False, PLAINLY_TRANSLATED)
    assert lines(Plan(*PLAN, choices=(choice,))) == ["primary->backup: 0 offsets to copy"]
