"""What the page says of findings: the report's sentences, and what to do."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from kafka_ferry.errors import FerryError
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.run_folder import RunFolder
from kafka_ferry.verify import ExpectationResult, Verdict
from kafka_ferry_airflow.page.answers import attention, details_answer
from kafka_ferry_airflow.page.dag_runs import DagRunState, DagState
from tests.support.runs.reports import A_REFUSAL, a_report
from tests.unit.plan.builders import a_flow


def a_finding(key: str, severity: str, advice: str = "") -> ExpectationResult:
    return ExpectationResult(
        f"{key} is true",
        "ranges",
        success=False,
        severity=severity,  # type: ignore[arg-type]
        unexpected=(f"orders-3 lacks {key}",),
        advice=advice,
    )


def test_each_finding_comes_with_what_to_do() -> None:
    checks = (
        a_finding("one", "critical", "Do this."),
        a_finding("two", "critical", "Do this."),
        a_finding("three", "warning", "Do that."),
        a_finding("four", "info", "Do nothing."),
    )
    failures = tuple(sentence for check in checks[:2] for sentence in check.sentences)
    verdict = Verdict(False, checks, failures, warnings=checks[2].sentences)

    kinds = {kind["title"]: kind["advice"] for kind in attention(a_report(verdict=verdict))}

    assert kinds == {
        "Not as expected": ["What to do: Do this."],
        "Worth knowing": ["What to do: Do that."],
    }


def test_of_what_the_plan_has_refused_it_says_which_task_to_clear() -> None:
    (kind,) = attention(a_report(refused=(A_REFUSAL,)))
    assert kind["sentences"] == [str(A_REFUSAL)]
    assert "clear the task plan" in kind["advice"][0]


def test_what_says_itself_what_to_do_has_no_other_advice() -> None:
    report = a_report(unended=("The step mirror has not ended. Clear it.",))
    (kind,) = attention(report)
    assert (kind["sentences"], kind["advice"]) == (["The step mirror has not ended. Clear it."], [])


@pytest.mark.parametrize(
    ("error", "said"),
    [("--since is after --until.", "--since is after"), ("", "the logs of its tasks say why")],
)
def test_a_flow_whose_last_run_has_no_report_says_why_it_failed(
    error: str, said: str, tmp_path: Path
) -> None:
    flow = a_flow(state_dir=str(tmp_path))
    if error:
        with suppress(FerryError), RunFolder(flow_state(flow).folder("runs"), "r").step("plan"):
            raise FerryError(error)
    latest = DagRunState("r", "failed", "manual", 1, 2, 1)
    (kind,) = details_answer(flow, DagState("a", False, "", None, latest, latest))["attention"]
    assert said in kind["sentences"][0]


def test_a_failed_backfill_is_not_hidden_by_the_runs_after_it(tmp_path: Path) -> None:
    latest = DagRunState("later", "success", "backfill", 1, 2, 1)
    dag = DagState("a", False, "", None, latest, latest, failed_backfills=("earlier",))
    (kind,) = details_answer(a_flow(state_dir=str(tmp_path)), dag)["attention"]
    assert (kind["title"], kind["level"]) == ("Failed backfills", "failed")
    assert "earlier has failed, and no later run copies its interval" in kind["sentences"][0]
