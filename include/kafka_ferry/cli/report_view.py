"""Reports, shown on a terminal."""

from __future__ import annotations

from pathlib import Path

from kafka_ferry.cli.plan_view import show_notes
from kafka_ferry.cli.terminal import out
from kafka_ferry.clock import duration_text
from kafka_ferry.report import RunReport
from kafka_ferry.report.group_rows import group_counts


def show_report(report: RunReport, page: Path | None) -> None:
    """Print a run's result, and where its report page is."""
    if report.window:
        out.print(f"backfill: {report.window}", markup=False, highlight=False)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in report.counts.reasons.items())
    out.print(
        f"copied:   {report.counts.records:,} records, {report.counts.bytes:,} bytes", markup=False
    )
    if reasons:
        out.print(f"without a record on the target: {reasons}", markup=False)
    for drift in report.topics.drifts:
        out.print(f"DRIFT {drift}", style="yellow", markup=False, highlight=False)
    show_notes(report.topics.notes)
    for loss in report.counts.losses:
        out.print(f"LOST {loss}", style="yellow", markup=False)
    if report.counts.dead_lettered:
        letters = (
            f"{report.counts.dead_lettered:,} records went to {report.counts.dead_letter_topic}"
        )
        out.print(f"DEAD LETTERS {letters}", style="yellow", markup=False)
    for sentence in report.problems.unapplied:
        out.print(f"NOT APPLIED {sentence}", style="red", markup=False, highlight=False)
    if report.groups and report.groups.groups:
        out.print(f"groups:   {group_counts(report.groups)}", markup=False, highlight=False)
    for sentence in report.problems.group_failures:
        out.print(f"GROUPS {sentence}", style="red", markup=False, highlight=False)
    if report.proof.verdict:
        says = (
            "nothing failed"
            if report.state == "verified" and not report.proof.ranges
            else report.state
        )
        out.print(f"{says}: {report.found}", markup=False)
    if report.times.seconds:
        copying = f" (copying: {report.waited})" if report.waited else ""
        out.print(
            f"took:     {duration_text(report.times.duration)}{copying}",
            markup=False,
            highlight=False,
        )
    if page:
        out.print(f"report:   {page}", markup=False)
