"""What the log of the task ``plan`` says, and what a person sees who is asked to approve it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_ferry.config import load_flow
from kafka_ferry.model import Note, Plan, Refusal, RunOptions, Skipped
from kafka_ferry.model.remarks import PlanRemarks
from kafka_ferry.report.plan_text import plan_text
from kafka_ferry.runs.state.run_context import RunContext
from tests.support.airflow.dags import task_context

PLAN = Plan(
    *("primary->backup", "run-1", 1, "A", "B"),
    remarks=PlanRemarks(
        skipped=(Skipped("mm2-x.internal", "it is internal"),),
        notes=(Note("orders", "offsets [40, 100) were deleted: 100% of {them}.", partition=3),),
        refused=(Refusal("old", "it was recreated.", "Rename it."),),
    ),
)


@pytest.fixture(autouse=True)
def _airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Airflow reads its environment when it is imported.
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    return


class Log(logging.Handler):
    """A log that Airflow's own settings do not reach."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.levelname, record.getMessage()))


def test_the_log_has_the_lines_of_the_plan_each_with_its_weight() -> None:
    from kafka_ferry_airflow.dags.plan_text import log_plan  # noqa: PLC0415

    written, logger = Log(), logging.Logger("plan")
    logger.addHandler(written)
    log_plan(logger, PLAN)

    assert written.lines == [
        ("INFO", "primary->backup: refused: 1"),
        ("INFO", "skip mm2-x.internal: it is internal"),
        ("WARNING", "NOTE orders-3: offsets [40, 100) were deleted: 100% of {them}."),
        ("ERROR", "REFUSED old: it was recreated. Rename it."),
    ]


def test_what_a_person_approves_are_the_same_lines_what_is_left_out_last_and_no_markup() -> None:
    from kafka_ferry_airflow.dags.plan_text import plan_markdown  # noqa: PLC0415

    topics = tuple(Skipped(f"mm2-{number:02}.internal", "it is internal") for number in range(8))
    plan = replace(PLAN, remarks=replace(PLAN.remarks, skipped=topics))
    first, *shown, last = plan_markdown(plan).splitlines()

    head, skipped, *others = (line.text for line in plan_text(plan))
    assert shown[: len(others) + 1] == [head, *others]
    assert " ".join(map(str.strip, shown[len(others) + 1 :])) == skipped
    assert max(map(len, shown)) <= 88
    assert (first, last) == ("~~~~~~text", "~~~~~~")


def test_a_plan_too_long_for_a_page_is_cut_and_says_so() -> None:
    from kafka_ferry_airflow.dags.plan_text import plan_markdown  # noqa: PLC0415

    notes = tuple(Note("orders", "odd.", partition=number) for number in range(1000))
    plan = Plan(*("a->b", "run-1", 1, "A", "B"), remarks=PlanRemarks(notes=notes))
    shown = plan_markdown(plan).splitlines()

    assert len(shown) == 403
    assert shown[-2] == "... and 601 more lines: see the log of the task plan."


def test_only_the_plan_that_a_run_has_made_ends_it_as_a_dry_run(tmp_path: Path) -> None:
    from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException  # noqa: PLC0415

    from kafka_ferry_airflow.dags.approval import PlanApprovalOperator  # noqa: PLC0415
    from kafka_ferry_airflow.dags.steps import SyncTopicsOperator  # noqa: PLC0415

    file = tmp_path / "flow.yaml"
    file.write_text(f"""
        source: {{alias: primary, bootstrap.servers: "a:9092"}}
        target: {{alias: backup, bootstrap.servers: "b:9092"}}
        state.dir: {tmp_path}
    """)
    flow = load_flow(file)
    plan = replace(PLAN, options=RunOptions(dry_run=True))
    RunContext.of(flow, "run-1").folder.save_plan(plan)
    for operator in (SyncTopicsOperator, PlanApprovalOperator):
        task = operator(task_id="task", flow=flow)
        with pytest.raises(AirflowSkipException):
            task.execute(task_context("run-1", plan_made=plan.digest))
        # A failback by the same id has planned since, which is a dry run unless a person says otherwise.
        with pytest.raises(AirflowFailException, match="not the one that the task plan has made"):
            task.execute(task_context("run-1", plan_made=PLAN.digest))
