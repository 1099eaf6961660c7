"""What the command line says of a plan and of a report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_ferry.cli import _show_plan, _show_report
from kafka_ferry.plan import AdvisedAcl, Note, OffsetsChoice, Plan, Refusal
from kafka_ferry.report import RunReport

NOTE = Note("orders", 3, "offsets [40, 100) were deleted on the source before they were copied.")
PLAN = Plan(
    *("primary->backup", "run-1", 1, "A", "B"),
    notes=(NOTE,),
    refused=(Refusal("old", None, "it was made anew.", "Rename it."),),
)
SAID = f"NOTE orders-3: {NOTE.message}"


def test_a_plan_shows_its_notes_before_what_it_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    _show_plan(PLAN)
    said = capsys.readouterr().out
    assert said.index(SAID) < said.index("REFUSED old: it was made anew. Rename it.")


def test_a_report_shows_what_the_target_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    report = RunReport(
        *("primary->backup", "run-1", "primary", "backup", 1, 2),
        reasons={"lost": 60, "dead-lettered": 3},
        losses=("orders-3 [40, 100): 60 offsets were deleted.",),
        dead_letter_topic="ferry-dead-letter.primary.internal",
        notes=(str(NOTE),),
    )
    _show_report(report, None)
    said = capsys.readouterr().out
    for line in (
        "without a record on the target: 60 lost, 3 dead-lettered",
        SAID,
        "LOST orders-3 [40, 100): 60 offsets were deleted.",
        "DEAD LETTERS 3 records went to ferry-dead-letter.primary.internal",
    ):
        assert line in said.splitlines()


def test_a_plan_shows_how_offsets_are_kept_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    choices = (
        OffsetsChoice("orders", "primary.orders", True, "offsets: preserved.", 1200, 7200),
        OffsetsChoice("payments", "primary.payments", False, "auto: [it] is compacted."),
    )
    acl = AdvisedAcl("primary.orders", "User:ferry", "WRITE", "ALLOW")
    _show_plan(replace(PLAN, choices=choices, advised_acls=(acl,)))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "orders preserved offsets: preserved. 1,200 7.2 s" in lines
    assert "payments translated auto: [it] is compacted. - -" in lines
    assert "advised: ALLOW WRITE on primary.orders to User:ferry" in lines


def test_a_plan_says_nothing_of_offsets_that_are_all_translated_anyway(
    capsys: pytest.CaptureFixture[str],
) -> None:
    choice = OffsetsChoice("orders", "primary.orders", False, "offsets: translated.")
    _show_plan(replace(PLAN, choices=(choice,)))
    assert "translated" not in capsys.readouterr().out
