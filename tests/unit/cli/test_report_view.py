"""What the command line says of a report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_ferry.cli.report_view import show_report
from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove
from kafka_ferry.model import Note, TopicPartition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.report.run_report import RuleCounts
from kafka_ferry.verify import Verdict
from tests.support.runs.reports import a_report, changed

NOTE = Note(
    "orders", "offsets [40, 100) were deleted on the source before they were copied.", partition=3
)


def test_a_report_shows_what_the_target_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    report = a_report(
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


def test_a_report_says_what_rules_did_and_counts_one_dead_letter(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rules = (RuleCounts(1, 1, 1, 0, True), RuleCounts(2, 2_000, 0, 7, False))
    show_report(a_report(reasons={"dead-lettered": 1}, dead_letter_topic="d", rules=rules), None)
    said = capsys.readouterr().out.splitlines()
    assert "transform: rule 1 changed 1 of 1 record" in said
    assert "transform: rule 2 left out 7 of 2,000 records" in said
    assert "DEAD LETTERS 1 record went to d" in said


def test_records_in_topics_of_heartbeats_are_counted_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_report(a_report(records=154, bytes=7, heartbeats={"heartbeats": 153}), None)
    assert "copied:   1 record and 153 heartbeats, 7 bytes" in capsys.readouterr().out
    show_report(a_report(records=2, bytes=7), None)
    assert "copied:   2 records, 7 bytes" in capsys.readouterr().out


def test_a_report_counts_what_was_done_for_groups(capsys: pytest.CaptureFixture[str]) -> None:
    move = PartitionMove(
        TopicPartition("orders", 3), Committed(4), 9, TopicPartition("eu.orders", 3), 4, "exact"
    )
    written, held = replace(move, action="written"), replace(move, action="held")
    report = a_report(
        groups=GroupMoves(5, (GroupMove(Group("billing"), (written, held)),)),
        group_failures=("backup: the group audit may not be written.",),
    )
    show_report(report, None)
    said = capsys.readouterr().out.splitlines()
    assert "groups:   1 group; offsets: 1 held, 1 committed" in said
    assert "GROUPS backup: the group audit may not be written." in said
    show_report(changed(report, groups=None, group_failures=()), None)
    assert "roup" not in capsys.readouterr().out


def test_a_report_shows_what_the_verification_has_found_and_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    warnings = tuple(f"orders-{number} [0, 9): compacted." for number in range(7))
    show_report(a_report(verdict=Verdict(success=True, warnings=warnings)), None)
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if "compacted" in line] == [
        f"WARNING {it}" for it in warnings[:5]
    ]
    assert "  and 2 more in the report" in said
