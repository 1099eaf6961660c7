"""Reports, shown on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kafka_ferry.cli.plan_view import show_notes
from kafka_ferry.cli.terminal import out
from kafka_ferry.clock import duration_text
from kafka_ferry.groups.moves import GroupMoves
from kafka_ferry.report import RunReport
from kafka_ferry.report.group_rows import group_counts, held_offsets
from kafka_ferry.verify.counts import count

_MOST_SHOWN: Final = 5


def _state(report: RunReport) -> str:
    """What the verification has come to; what it has read stands after a colon."""
    if report.state != "verified":
        return f"{report.state}; read back"
    if report.proof.ranges:
        return "verified"
    return "not complete" if report.topics.deleted else "up to date"


def _show_groups(moves: GroupMoves) -> None:
    out.print(f"groups:   {group_counts(moves)}")
    _show_some("  ", list(held_offsets(moves)))


def _show_some(before: str, sentences: Sequence[str], style: str = "") -> None:
    for sentence in sentences[:_MOST_SHOWN]:
        out.print(f"{before}{sentence}", style=style)
    if more := sentences[_MOST_SHOWN:]:
        out.print(f"  and {len(more):,} more in the report")


def show_report(report: RunReport, page: Path | None) -> None:
    """Print a run's result, and where its report page is."""
    counts, problems = report.counts, report.problems
    if report.window:
        out.print(f"backfill: {report.window}")
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts.reasons.items())
    out.print(f"copied:   {counts.records_text}, {counts.bytes:,} bytes")
    rule_lines = [f"transform: {rule}" for rule in counts.rules]
    for line in (
        [f"without a record on the target: {reasons}", *rule_lines] if reasons else rule_lines
    ):
        out.print(line)
    for drift in report.topics.drifts:
        out.print(f"DRIFT {drift}", style="yellow")
    show_notes(report.topics.notes)
    for loss in counts.losses:
        out.print(f"LOST {loss}", style="yellow")
    if counts.dead_lettered:
        letters = f"{count(counts.dead_lettered, 'record')} went to {counts.dead_letter_topic}"
        out.print(f"DEAD LETTERS {letters}", style="yellow")
    for sentence in problems.unapplied:
        out.print(f"NOT APPLIED {sentence}", style="red")
    if report.groups and report.groups.groups:
        _show_groups(report.groups)
    for sentence in problems.group_failures:
        out.print(f"GROUPS {sentence}", style="red")
    if report.proof.verdict:
        _show_some("WARNING ", report.proof.verdict.warnings, "yellow")
        out.print(f"{_state(report)}: {report.found}")
    if report.proof.certificate:
        out.print(f"proof:    certificate {report.proof.certificate}")
    if report.times.seconds:
        took = duration_text(report.times.duration)
        copying = f" (copying: {report.waited})" if report.waited else ""
        out.print(f"took:     {took}{copying}")
    if page:
        out.print(f"report:   {page}")
