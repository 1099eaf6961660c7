"""What the command line says of a report."""

from __future__ import annotations

import pytest

from kafka_ferry.cli.report_view import show_report
from kafka_ferry.plan import Note
from kafka_ferry.report import RunReport

NOTE = Note("orders", 3, "offsets [40, 100) were deleted on the source before they were copied.")


def test_a_report_shows_what_the_target_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    report = RunReport(
        *("primary->backup", "run-1", "primary", "backup", 1, 2),
        reasons={"lost": 60, "dead-lettered": 3},
        losses=("orders-3 [40, 100): 60 offsets were deleted.",),
        dead_letter_topic="ferry-dead-letter.primary.internal",
        notes=(str(NOTE),),
    )
    show_report(report, None)
    said = capsys.readouterr().out
    for line in (
        "without a record on the target: 60 lost, 3 dead-lettered",
        f"NOTE orders-3: {NOTE.message}",
        "LOST orders-3 [40, 100): 60 offsets were deleted.",
        "DEAD LETTERS 3 records went to ferry-dead-letter.primary.internal",
    ):
        assert line in said.splitlines()
