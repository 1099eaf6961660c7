"""A run's report as samples of metrics for Airflow, Prometheus and a Pushgateway. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import add
from typing import Final, Literal, NamedTuple, TypeVar, get_args

from kafka_ferry.batches import NO_AGES, Reason, Spread
from kafka_ferry.groups.moves import Action, GroupMoves
from kafka_ferry.report.measures import Measures, PartitionMeasures
from kafka_ferry.report.run_report import RunReport, State

Detail = Literal["partition", "topic", "flow"]

_NO_TAGS: Final[Mapping[str, str]] = {}
_STATES: Final[tuple[State, ...]] = get_args(State)  # the worst one last


class _GroupRow(NamedTuple):
    """A partition that a group has an offset for."""

    group: str
    remote_topic: str
    partition: int
    latency: Spread
    behind: int | None


_T = TypeVar("_T", PartitionMeasures, _GroupRow)


class Sample(NamedTuple):
    """A metric's value.

    Attributes:
        name: of the metric, as in ``catalogue.METRICS``.
        tags: by tag, without those that ``detail`` leaves out.
        value: the value.
    """

    name: str
    tags: Mapping[str, str]
    value: float


def samples(report: RunReport, detail: Detail = "partition") -> Iterator[Sample]:
    """All samples of a run, without what could not be measured.

    Args:
        report: the run's report.
        detail: the detail: counts of several partitions are summed, ages are combined to their minimum
            and maximum, and lags to the largest.
    """
    flow = {"source": report.source, "target": report.target}
    measures = report.measures
    for tags, partitions in _by_tags(flow, measures.partitions, detail):
        yield from _tag(tags, _of_partitions(partitions, measures.copying_seconds))
    for tags, groups in _by_tags(flow, _group_rows(report.groups), detail):
        yield from _tag(tags, _of_groups(groups))
    yield from _tag(flow, _of_flow(report, measures))


def _tag(tags: Mapping[str, str], untagged: Iterable[Sample]) -> Iterator[Sample]:
    """The samples with these tags in addition to their own."""
    for name, own, value in untagged:
        yield Sample(name, {**tags, **own} if own else tags, value)


def _by_tags(
    flow: Mapping[str, str], rows: Iterable[_T], detail: Detail
) -> Iterator[tuple[dict[str, str], list[_T]]]:
    """The rows that have the same tags, with these."""
    rows_by_tags: dict[tuple[tuple[str, str], ...], list[_T]] = defaultdict(list)
    for row in rows:
        tags = dict(flow)
        if isinstance(row, _GroupRow):
            tags["group"] = row.group
        if detail != "flow":
            tags["topic"] = row.remote_topic
        if detail == "partition":
            tags["partition"] = str(row.partition)
        rows_by_tags[tuple(tags.items())].append(row)
    for key, same in rows_by_tags.items():
        yield dict(key), same


def _of_partitions(rows: list[PartitionMeasures], seconds: float) -> Iterator[Sample]:
    yield _untagged_sample("record-count", sum(row.total_records for row in rows))
    yield _untagged_sample("byte-count", sum(row.total_bytes for row in rows))
    for name, of_run in (
        ("record-rate", sum(row.records for row in rows)),
        ("byte-rate", sum(row.bytes for row in rows)),
    ):
        yield _untagged_sample(name, of_run / seconds if seconds else 0.0)
    yield from _spread_samples("record-age-ms", (row.read_ages for row in rows))
    yield from _spread_samples("replication-latency-ms", (row.stored_ages for row in rows))
    behind = [row.records_behind for row in rows if row.records_behind is not None]
    if behind:
        yield _untagged_sample("records-behind", sum(behind))
    late = [row.seconds_behind for row in rows if row.seconds_behind is not None]
    if late:
        yield _untagged_sample("seconds-behind", max(late))
    if all(row.verified_until for row in rows):
        until = min(row.verified_until for row in rows)
        yield _untagged_sample("partition-verified-until-seconds", until / 1000)
    reasons: Counter[str] = Counter()
    # Always there, so that Prometheus sees the first loss as an increase.
    reasons[Reason.LOST] = 0
    for row in rows:
        reasons.update(row.total_reasons)
    for reason, count in reasons.items():
        yield Sample("offsets-without-record", {"reason": str(reason)}, count)


def _group_rows(moves: GroupMoves | None) -> Iterator[_GroupRow]:
    for group, move in moves.partitions() if moves else ():
        if move.target:
            latency = NO_AGES
            if moves and moves.done_at and group.at and move.offset is not None:
                took = moves.done_at - group.at
                latency = Spread(1, took, took, took, took)
            yield _GroupRow(
                group.group.name, move.target.topic, move.target.partition, latency, move.lag
            )


def _of_groups(rows: list[_GroupRow]) -> Iterator[Sample]:
    yield from _spread_samples("checkpoint-latency-ms", (row.latency for row in rows))
    behind = [row.behind for row in rows if row.behind is not None]
    if behind:
        yield _untagged_sample("group-records-behind", sum(behind))


def _of_flow(report: RunReport, measures: Measures) -> Iterator[Sample]:
    known = {report.state, measures.flow_state}
    worst = [state for state in _STATES if state in known][-1]
    for state in _STATES:
        yield Sample("run-state", {"state": state}, float(state == worst))
    yield _untagged_sample("run-planned-seconds", report.times.planned_at / 1000)
    yield _untagged_sample("run-finished-seconds", report.times.finished_at / 1000)
    yield _untagged_sample("run-duration-seconds", report.times.duration)
    for step, seconds in report.times.seconds.items():
        yield Sample("run-step-seconds", {"step": step}, seconds)
    yield _untagged_sample("run-records", report.counts.records)
    yield _untagged_sample("run-bytes", report.counts.bytes)
    yield _untagged_sample("run-partitions", len(measures.partitions))
    for reason, count in ({Reason.LOST: 0} | dict(report.counts.reasons)).items():
        yield Sample("run-offsets-without-record", {"reason": str(reason)}, count)
    for why, count in report.counts.rebuilt.items():
        yield Sample("run-rebuilt-batches", {"reason": why}, count)
    for kind, count in _problems(report).items():
        yield Sample("run-problems", {"kind": kind}, count)
    actions: Counter[str] = Counter(dict.fromkeys(get_args(Action), 0))
    actions.update(move.action for _, move in (report.groups or GroupMoves(0)).partitions())
    for action, count in actions.items():
        yield Sample("group-offsets", {"action": action}, count)
    if measures.verified_until:
        yield _untagged_sample("verified-until-seconds", measures.verified_until / 1000)
    if report.proof.oldest_proof:
        yield _untagged_sample("oldest-proof-seconds", report.proof.oldest_proof / 1000)


def _problems(report: RunReport) -> dict[str, int]:
    """The number of problems by kind; 0 where there are none."""
    problems, verdict = report.problems, report.proof.verdict
    unproved = verdict.failures if verdict else ()
    return {
        "failed": len(problems.failures),
        "refused": len(problems.refused),
        "unproved": 0 if verdict and verdict.success else max(1, len(unproved)),
        "unapplied": len(problems.unapplied),
        "groups": len(problems.group_failures),
    }


def _spread_samples(name: str, spreads: Iterable[Spread]) -> Iterator[Sample]:
    whole = reduce(add, spreads, NO_AGES)
    if whole.count:
        yield _untagged_sample(name, whole.last)
        yield _untagged_sample(f"{name}-min", whole.least)
        yield _untagged_sample(f"{name}-max", whole.most)
        yield _untagged_sample(f"{name}-avg", whole.average)


def _untagged_sample(name: str, value: float) -> Sample:
    return Sample(name, _NO_TAGS, value)
