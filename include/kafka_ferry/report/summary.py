"""A run in a few numbers: a flow's history consists of these, so that no page opens a hundred reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

from kafka_ferry.as_json import AsJson
from kafka_ferry.flat import Flat
from kafka_ferry.model import ORDINARY, RunOptions
from kafka_ferry.report.page import headline
from kafka_ferry.report.run_report import RunReport


@dataclass(frozen=True, slots=True)
class CopiedTotals:
    """How much a run has copied, and how long it took.

    Attributes:
        records: records copied.
        bytes: bytes of their batches, compressed as they are.
        seconds: how long all steps took together.
        copying_seconds: how long records were copied.
        topics: its topics.
        partitions: their partitions.
        heartbeats: how many of the records are in topics of heartbeats.
    """

    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    copying_seconds: float = 0.0
    topics: int = 0
    partitions: int = 0
    heartbeats: int = 0


@dataclass(frozen=True, slots=True)
class LagTotals:
    """How far the copy was behind when a run had ended, and until when it was proved.

    Attributes:
        records_behind: offsets not yet accounted for; None where unknown.
        seconds_behind: how old the first of them is; None where unknown.
        verified_until: until when the flow's copy was proved complete, in milliseconds since 1970; 0
            where it never was.
        oldest_proof: when the range was last read back that was not read for the longest time; 0 where that
            is not known.
    """

    records_behind: int | None = None
    seconds_behind: float | None = None
    verified_until: int = 0
    oldest_proof: int = 0


@dataclass(frozen=True, slots=True)
class ProblemCounts:
    """How much of a run was not as it should be.

    Attributes:
        lost: source offsets that were deleted before they were copied.
        dead_lettered: records that went to the dead letter topic.
        failures: partitions and steps that failed.
        refused: topics and partitions that cannot be mirrored as things are.
        drifts: configs of remote topics that another client has changed, and topics with replicas on other
            racks than the flow says.
        warnings: what the verification found and allowed.
    """

    lost: int = 0
    dead_lettered: int = 0
    failures: int = 0
    refused: int = 0
    drifts: int = 0
    warnings: int = 0


@dataclass(frozen=True, slots=True)
class RunScope:
    """Which of the flow's records a run was for.

    Attributes:
        partial: whether it was only for some topics.
        since: of a backfill, the first timestamp of its window in milliseconds since 1970; -1
            otherwise.
        until: of a backfill, the first timestamp after it; -1 otherwise.
    """

    partial: bool = False
    since: int = -1
    until: int = -1

    @property
    def is_whole(self) -> bool:
        """Whether it was for the whole flow, so that its numbers are the flow's."""
        return not self.partial and self.since < 0


@dataclass(frozen=True, slots=True)
class RunSummary(Flat, AsJson):
    """A run in one line.

    Attributes:
        run: the run's id.
        planned_at: when it was planned, in milliseconds since 1970.
        finished_at: when it ended, in milliseconds since 1970.
        state: ``RunReport.state``.
        headline: the same in a sentence.
        copied: how much it has copied.
        lag: how far the copy was behind after it.
        problems: how much was not as it should be.
        scope: which of the flow's records it was for.
    """

    WHAT: ClassVar = "a line of a flow's history"

    run: str
    planned_at: int
    finished_at: int
    state: str
    headline: str = ""
    copied: CopiedTotals = CopiedTotals()
    lag: LagTotals = LagTotals()
    problems: ProblemCounts = ProblemCounts()
    scope: RunScope = RunScope()


def summarise(report: RunReport, options: RunOptions = ORDINARY) -> RunSummary:
    """The summary of a run's report.

    Args:
        report: the report.
        options: the run's options.
    """
    measures = report.measures
    behind, window = measures.records_behind, options.window
    return RunSummary(
        run=report.run,
        planned_at=report.times.planned_at,
        finished_at=report.times.finished_at,
        state=report.state,
        headline=headline(report),
        copied=CopiedTotals(
            records=report.counts.records,
            bytes=report.counts.bytes,
            seconds=report.times.duration,
            copying_seconds=measures.copying_seconds,
            topics=len({row.topic for row in measures.partitions}),
            partitions=len(measures.partitions),
            heartbeats=sum(report.counts.heartbeats.values()),
        ),
        lag=LagTotals(
            records_behind=behind,
            seconds_behind=None if behind is None else measures.seconds_behind,
            verified_until=measures.verified_until,
            oldest_proof=report.proof.oldest_proof,
        ),
        problems=_problems(report),
        scope=RunScope(
            partial=bool(options.topics),
            since=window.since_ms if window else -1,
            until=window.until_ms if window else -1,
        ),
    )


def newest_whole(history: Iterable[RunSummary]) -> RunSummary | None:
    """The run of the whole flow that was planned last: an older one may be published again after it."""
    whole = (one for one in history if one.scope.is_whole)
    return max(whole, key=attrgetter("planned_at"), default=None)


def _problems(report: RunReport) -> ProblemCounts:
    return ProblemCounts(
        lost=report.counts.lost,
        dead_lettered=report.counts.dead_lettered,
        failures=len(report.problems.failures) + len(report.problems.step_failures),
        refused=len(report.problems.refused),
        drifts=len(report.topics.drifts),
        warnings=len(report.proof.verdict.warnings) if report.proof.verdict else 0,
    )
