"""Measures a run that has ended: the input of its report's metrics."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafka_ferry.batches import Spread
from kafka_ferry.copy import OutcomeFiles
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger.queries.counts import Counts, count_copied
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.waits import NO_WAITS, Waits
from kafka_ferry.report.measures import Measures, PartitionMeasures, VerifiedUntil
from kafka_ferry.report.summary import newest_whole
from kafka_ferry.retry import retry_for
from kafka_ferry.runs.publish.partition_lag import PartitionLag, find_lag
from kafka_ferry.runs.state.history import read_history
from kafka_ferry.runs.verify.verified_topics import proved_partitions

if TYPE_CHECKING:
    from kafka_ferry.copy import Outcome
    from kafka_ferry.model import Plan
    from kafka_ferry.report import RunReport
    from kafka_ferry.runs.state.run_context import RunContext

# The run is over: a dead source is not worth a long wait.
_RETRY_S: Final = 10.0

Partitions = Mapping[TopicPartition, TopicPartition]
"""The source's partitions by the target's."""


def measure_run(run: RunContext, report: RunReport) -> Measures:
    """All measurements; what cannot be measured is named in ``missing``.

    Args:
        run: the run, whose ledger has all that it has copied.
        report: its report so far.
    """
    folder = run.folder
    plan = folder.plan()
    counts = count_copied(run.ledger, run.run_id)
    partitions = _partitions(plan, counts)
    outcomes = OutcomeFiles.read_all(folder.files)
    behind, missing = _behind(run, partitions)
    positions = run.ledger.positions()
    proved = _proof_moments(partitions, plan, report)
    ends = {str(tp): position.offset for tp, position in positions.items()}
    ends = {tp: ends.get(tp, 0) for tp in proved.partitions}
    verified = replace(proved, ends=ends).later(folder.verified_until().within(positions))
    folder.save_verified_until(verified)
    return Measures(
        copying_seconds=_copying_seconds(outcomes) or report.times.seconds.get("mirror", 0.0),
        waits=_waits(outcomes),
        verified_until=verified.flow,
        partitions=tuple(_rows(partitions, counts, outcomes, behind, verified)),
        missing=missing,
        flow_state=_flow_state(run, plan),
    )


def _flow_state(run: RunContext, plan: Plan) -> str:
    """The state of the newest run of the whole flow, unless that is this run or has proved all of it; else "".

    A run of some topics, a backfill, and an older run that is published again have not looked at what it has found.
    """
    newest = newest_whole(read_history(run.state.folder("runs")))
    is_this = plan.options.is_whole and newest is not None and plan.at >= newest.planned_at
    return "" if newest is None or is_this or newest.state == "verified" else newest.state


def _partitions(plan: Plan, counts: Mapping[TopicPartition, Counts]) -> Partitions:
    """Partitions that are planned, that have nothing new, or that were copied before and are refused now."""
    topics = {choice.topic for choice in plan.choices} | {
        refusal.topic for refusal in plan.remarks.refused
    }
    before = {
        target: TopicPartition(count.topic, target.partition)
        for target, count in counts.items()
        if count.topic in topics
    }
    if plan.options.window:
        return before
    return before | {range_.target: range_.source for range_ in plan.ranges}


def _rows(
    partitions: Partitions,
    counts: Mapping[TopicPartition, Counts],
    outcomes: Sequence[Outcome],
    behind: Mapping[TopicPartition, PartitionLag],
    verified: VerifiedUntil,
) -> Iterator[PartitionMeasures]:
    read = _ages(outcomes, lambda outcome: outcome.read_ages)
    stored = _ages(outcomes, lambda outcome: outcome.stored_ages)
    for target, source in sorted(partitions.items()):
        count = counts.get(target, Counts())
        late = behind.get(target)
        yield PartitionMeasures(
            topic=source.topic,
            partition=source.partition,
            remote_topic=target.topic,
            total_records=count.total_records,
            total_bytes=count.total_bytes,
            total_reasons=count.total_reasons,
            records=count.records,
            bytes=count.bytes,
            read_ages=read[target],
            stored_ages=stored[target],
            records_behind=late.records if late else None,
            seconds_behind=late.seconds if late else None,
            verified_until=verified.partitions.get(str(target), 0),
        )


def _ages(
    outcomes: Sequence[Outcome], which: Callable[[Outcome], Spread]
) -> dict[TopicPartition, Spread]:
    """The ages by *target* partition, of all attempts together."""
    ages: dict[TopicPartition, Spread] = defaultdict(Spread)
    for outcome in sorted(outcomes, key=lambda outcome: outcome.ended_at):
        ages[outcome.range.target] += which(outcome)
    return ages


def _copying_seconds(outcomes: Iterable[Outcome]) -> float:
    """How long tasks copied, without the pauses between attempts."""
    milliseconds, until = 0, 0
    for began, ended in sorted((outcome.began_at, outcome.ended_at) for outcome in outcomes):
        milliseconds += max(0, ended - max(began, until))
        until = max(until, ended)
    return milliseconds / 1000


def _waits(outcomes: Iterable[Outcome]) -> Waits:
    """What all tasks waited for: each is named by all of its outcomes."""
    tasks = {
        (outcome.range.writer, outcome.began_at, outcome.ended_at): outcome.waits
        for outcome in outcomes
    }
    return sum(tasks.values(), NO_WAITS)


def _behind(
    run: RunContext, partitions: Partitions
) -> tuple[Mapping[TopicPartition, PartitionLag], tuple[str, ...]]:
    try:
        with retry_for(_RETRY_S):
            return find_lag(run, partitions), ()
    except FerryError as error:
        return {}, (f"The lag of {run.flow.name} is not known: {error}",)


def _proof_moments(partitions: Partitions, plan: Plan, report: RunReport) -> VerifiedUntil:
    """What this run has proved, as of the time before it read the source."""
    verdict = report.proof.verdict
    if plan.options.window:
        # It does not cover what was written last.
        return VerifiedUntil()
    if verdict is None or any(check.raised for check in verdict.expectations):
        return VerifiedUntil()
    # The plan's time is when it was made, after everything was read.
    until = plan.at - math.ceil(report.times.seconds.get("plan", 0.0) * 1000)
    proved = dict.fromkeys(map(str, proved_partitions(partitions, plan, report.proof)), until)
    complete = verdict.success and report.state != "failed"
    whole = complete and plan.options.is_whole
    return VerifiedUntil(until if whole else 0, proved)
