"""A run's report as one HTML file that loads nothing: for the engineer on call, on any screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_ferry.batches import Reason
from kafka_ferry.groups.moves import GroupMoves
from kafka_ferry.report.group_rows import group_counts, group_rows, left_alone
from kafka_ferry.report.offsets_picture import Picture, picture
from kafka_ferry.report.run_report import RunProblems, RunReport
from kafka_ferry.report.templates import template
from kafka_ferry.verify import Verdict
from kafka_ferry.verify.checks import unproved_rows
from kafka_ferry.verify.counts import count

_GROUPS_ASTRAY: Final = "The copy is verified, but not its groups' offsets"


def render(report: RunReport) -> str:
    """The page for ``report``. Everything in it is escaped."""
    proof = report.proof
    verdict = proof.verdict or Verdict(success=False)
    check_sentences = {sentence for check in verdict.expectations for sentence in check.sentences}
    # Listed first.
    off_partitions = frozenset(unproved_rows("partitions", proof.verdict, proof.partitions))
    off_ranges = frozenset(unproved_rows("ranges", proof.verdict, proof.ranges))
    groups = report.groups or GroupMoves(report.times.finished_at)
    return template("page.html.j2").render(
        report=report,
        measures=report.measures,
        headline=headline(report),
        differs=any(_differences(report)),
        has_preserved=report.has_preserved,
        has_evaluations=bool(report.proof.evaluated_ranges),
        has_backfilled=any(row.ledger.backfill for row in proof.ranges),
        has_filtered=any(Reason.FILTERED in row.ledger.reasons for row in proof.ranges),
        checks=sorted(verdict.expectations, key=lambda check: (not check.failed, check.success)),
        failures=[failure for failure in verdict.failures if failure not in check_sentences],
        warnings=[warning for warning in verdict.warnings if warning not in check_sentences],
        offsets={"copied": report.counts.records} | dict(report.counts.reasons),
        partitions=sorted(proof.partitions, key=lambda row: row not in off_partitions),
        ranges=sorted(proof.ranges, key=lambda row: row not in off_ranges),
        pictures=_pictures(report),
        off_partitions=off_partitions,
        off_ranges=off_ranges,
        groups=groups,
        group_counts=group_counts(groups),
        left_alone=list(left_alone(groups)),
        group_rows=group_rows(groups),
    )


def _pictures(report: RunReport) -> list[tuple[str, Picture]]:
    """All offsets, and those without a record by themselves: beside all others they may be too few to be seen."""
    whole = picture(report.so_far.bars)
    left_out = picture(report.so_far.bars, without_copied=True)
    titled = [("All source offsets", whole), ("Those without a record", left_out)]
    return [(title, shown) for title, shown in titled if shown.boxes]


def headline(report: RunReport) -> str:
    """The run's state in one sentence, and how the target differs from the source."""
    return "; ".join([_state(report), *_differences(report)])


def _state(report: RunReport) -> str:
    verdict = report.proof.verdict
    if failed := _failure_text(report.problems):
        return f"{failed}; {_rest(report)}"
    if verdict is None:
        return "Copied, not verified"
    if not verdict.success:
        tables = {check.table for check in verdict.expectations if check.failed}
        return _GROUPS_ASTRAY if tables == {"groups"} else "The copy is incomplete"
    return _verified_text(report)


def _failure_text(problems: RunProblems) -> str:
    """What failed, "" for nothing."""
    if problems.failures:
        return f"{count(len(problems.failures), 'partition')} failed"
    if problems.refused:
        what = count(len(problems.refused), "topic or partition", "topics or partitions")
        return f"{what} cannot be mirrored"
    steps = " and ".join(problems.step_failures)
    noun = "step" if len(problems.step_failures) == 1 else "steps"
    return f"The {noun} {steps} failed" if steps else ""


def _verified_text(report: RunReport) -> str:
    unapplied, of_groups = report.problems.unapplied, report.problems.group_failures
    if unapplied:
        return f"Verified, but {count(len(unapplied), 'change')} could not be made on the target"
    if of_groups:
        return f"Verified, but {count(len(of_groups), 'thing')} could not be done for groups"
    if not report.proof.ranges:
        return f"{report.found[0].upper()}{report.found[1:]}"
    return "Verified" if any(_differences(report)) else "Verified: the copy is complete"


def _rest(report: RunReport) -> str:
    verdict = report.proof.verdict
    if verdict is None:
        return "nothing is verified"
    if report.window and not report.proof.ranges:
        return "nothing was copied"
    return "the rest is verified" if verdict.success else "the copy is incomplete"


def _differences(report: RunReport) -> Iterator[str]:
    """Differences between source and target that the flow's policies allow."""
    lost, dead_lettered = report.counts.lost, report.counts.dead_lettered
    if lost:
        wording = ("offset was", "it was") if lost == 1 else ("offsets were", "they were")
        yield f"{lost:,} {wording[0]} lost before {wording[1]} copied"
    if dead_lettered:
        yield f"{count(dead_lettered, 'record')} went to the dead letter topic"
    if report.proof.ranges and report.deleted_text:
        yield report.deleted_text
    rewound = report.proof.rewound(report.run)
    if rewound:
        yield f"the source has lost {count(rewound, 'offset')} that had been copied"
