"""What the page says of findings: the report's sentences, and what to do."""

from __future__ import annotations

from kafka_ferry.verify import ExpectationResult, Verdict
from kafka_ferry_airflow.page.answers import attention
from tests.support.runs.reports import a_report


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


def test_what_says_itself_what_to_do_has_no_other_advice() -> None:
    report = a_report(unended=("The step mirror has not ended. Clear it.",))
    (kind,) = attention(report)
    assert (kind["sentences"], kind["advice"]) == (["The step mirror has not ended. Clear it."], [])
