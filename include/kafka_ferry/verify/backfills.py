"""The partitions of a backfill in the reconciliation table. Pure.

A backfill has no position and no history that its ranges could continue: what it planned of a
partition must be covered, and no record of it may be on the target a second time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.plan.backfill.windows import Span, merge_spans
from kafka_ferry.verify.rows import UNKNOWN, Coverage, PartitionRow, RangeRow


def backfill_rows(
    ranges: Iterable[RangeRow], planned: Iterable[Range], twice: Mapping[TopicPartition, int]
) -> list[PartitionRow]:
    """The rows of a backfill's partitions, by topic and partition.

    Args:
        ranges: the ranges that the run has copied, without those whose topic is gone.
        planned: what it planned.
        twice: *source* partition to how many of its records another range of the ledger also has.
    """
    spans: dict[tuple[TopicPartition, TopicPartition], list[Span]] = defaultdict(list)
    for row in ranges:
        spans[row.source, row.target].append((row.start, row.end))
    plans = {(range_.source, range_.target): range_ for range_ in planned}
    return [
        _row(source, target, spans.get((source, target), ()), plans.get((source, target)), twice)
        for source, target in sorted(spans.keys() | plans.keys())
    ]


def _row(
    source: TopicPartition,
    target: TopicPartition,
    spans: Iterable[Span],
    plan: Range | None,
    twice: Mapping[TopicPartition, int],
) -> PartitionRow:
    covered = merge_spans(spans)
    if plan:
        # Ranges that the run copied before it was planned again were in the earlier plan.
        clipped = ((max(start, plan.start), min(end, plan.end)) for start, end in covered)
        covered = merge_spans(span for span in clipped if span[0] < span[1])
    at = plan.start if plan else 0
    start, end = (covered[0][0], covered[-1][1]) if covered else (at, at)
    inside = sum(last - first for first, last in covered)
    return PartitionRow(
        topic=source.topic,
        partition=source.partition,
        remote_topic=target.topic,
        planned_start=plan.start if plan else UNKNOWN,
        planned_end=plan.end if plan else UNKNOWN,
        coverage=Coverage(start, end, end - start - inside if plan else 0, twice.get(source, 0)),
    )
