"""The reconciliation table: what the ledger says, compared with what was read back. Pure.

Nothing is judged here; ``verify.checks`` says which numbers have to agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kafka_ferry.batches import Reason
from kafka_ferry.ledger import CopiedRange
from kafka_ferry.model.cluster_state import LogBounds
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.verify.incarnations import NOTHING, Incarnation, Key, incarnations
from kafka_ferry.verify.rows import (
    UNKNOWN,
    LedgerAccount,
    PartitionRecount,
    PartitionRow,
    RangeRow,
    Recount,
    TargetRecords,
)


def range_row(
    copied: CopiedRange,
    recount: Recount | None,
    *,
    run: str,
    ledger_offset: int,
    target_is_compacted: bool,
    backfill: bool = False,
) -> RangeRow:
    """The row for one range of the ledger.

    Args:
        copied: the ledger's entry.
        recount: what was read back, None where the remote topic was deleted since.
        run: the run that copied it.
        ledger_offset: the entry's offset in the ledger.
        target_is_compacted: whether the target topic's cleanup policy contains ``compact``.
        backfill: whether a backfill has copied it.
    """
    gone = copied.records if recount is None else 0
    recount = recount or Recount(0, "")
    missing = copied.records - recount.records - recount.expired - gone
    # Never negative: surplus records must stay visible.
    cleaned = max(0, missing) if target_is_compacted else 0
    return RangeRow(
        topic=copied.topic,
        partition=copied.partition,
        remote_topic=copied.remote_topic,
        start=copied.start,
        end=copied.end,
        ledger=_account(copied, run, ledger_offset, backfill=backfill),
        recount=TargetRecords(
            recount.records,
            recount.digest,
            not any((recount.expired, cleaned, recount.rewritten, recount.across, gone)),
            recount.expired,
            cleaned,
            gone,
            recount.foreign,
        ),
        topic_id=copied.topic_id,
        remote_topic_id=copied.remote_topic_id,
        preserved=copied.preserved,
    )


def _account(copied: CopiedRange, run: str, ledger_offset: int, *, backfill: bool) -> LedgerAccount:
    known = +Counter({reason: copied.reasons.get(reason, 0) for reason in Reason})
    return LedgerAccount(
        run,
        ledger_offset,
        copied.records,
        copied.digest,
        known,
        sum(copied.reasons.values()) - known.total(),
        copied.lost,
        copied.rewound_from,
        copied.adopted,
        _misplaced(copied) if copied.preserved else 0,
        backfill,
        copied.records - sum(segment.records for segment in copied.segments),
    )


def _misplaced(copied: CopiedRange) -> int:
    """Records that the ledger has at an offset other than the source's, or outside of the range."""
    return sum(
        records
        for source, target, records in copied.segments
        if not copied.start <= source == target <= copied.end - records
    )


def partition_rows(
    ranges: Sequence[RangeRow],
    planned: Iterable[Range],
    positions: Mapping[TopicPartition, int],
    recounts: Mapping[TopicPartition, PartitionRecount],
    logs: Mapping[TopicPartition, LogBounds],
    verified: Mapping[Key, int] = NOTHING,
) -> list[PartitionRow]:
    """The rows for all partitions with a range, a plan or records that the ledger does not know.

    A partition gets a row for each of its incarnations (``verify.incarnations``); plan, position and what was
    read back of the target's log belong to the last one.

    Args:
        ranges: the ranges, in any order, without those whose remote topic is gone: they cover
            nothing of what was planned.
        planned: what the run planned.
        positions: *target* partition to the flow's committed position, a source offset.
        recounts: *target* partition to what was read back.
        logs: *target* partition, of those with preserved offsets, to what a ``read_committed``
            consumer can read of it.
        verified: the end of what was verified before ``ranges``, which have to join it.

    Returns:
        The rows by topic and partition; partitions known on the target only come first.
    """
    plans = {range_.source: range_ for range_ in planned}
    # A backfill's ranges lie below the position, and continue nothing.
    known = incarnations((row for row in ranges if not row.ledger.backfill), verified)
    # A dictionary keeps the last value: the newest incarnation of each partition.
    newest = {incarnation.source: incarnation for incarnation in known}
    rows = [
        _ended(incarnation)
        for incarnation in known
        if incarnation is not newest[incarnation.source]
    ]
    targets = set()
    for source in newest.keys() | plans.keys():
        incarnation, plan = newest.get(source), plans.get(source)
        target = incarnation.target if incarnation else plans[source].target
        targets.add(target)
        row = _with_position(
            _row(source, target, incarnation, plan), positions.get(target, UNKNOWN)
        )
        row = _with_others(row, recounts.get(target, PartitionRecount((), 0)))
        rows.append(_with_log(row, logs[target], plan) if target in logs else row)
    rows.extend(
        replace(
            _row(TopicPartition("", target.partition), target, None), target_beyond=found.beyond
        )
        for target, found in recounts.items()
        if found.beyond and target not in targets
    )
    return sorted(rows, key=lambda row: (row.topic, row.partition, row.remote_topic))


def _ended(incarnation: Incarnation) -> PartitionRow:
    """The row of an incarnation that another one has replaced."""
    row = _row(incarnation.source, incarnation.target, incarnation)
    return row if incarnation.left_at == UNKNOWN else _with_position(row, incarnation.left_at)


def _row(
    source: TopicPartition,
    target: TopicPartition,
    incarnation: Incarnation | None,
    plan: Range | None = None,
) -> PartitionRow:
    plan_start, plan_end = (UNKNOWN, UNKNOWN) if plan is None else (plan.start, plan.end)
    fallback = incarnation.end if incarnation else max(0, plan_start)
    start, end, gap, overlap = _cover(incarnation.spans if incarnation else (), fallback)
    if incarnation and incarnation.verified_to != UNKNOWN and start < end:
        gap += max(0, start - incarnation.verified_to)
        overlap += max(0, incarnation.verified_to - start)
    return PartitionRow(
        topic=source.topic,
        partition=source.partition,
        remote_topic=target.topic,
        planned_start=plan_start,
        planned_end=plan_end,
        covered_start=start,
        covered_end=end,
        gap_offsets=gap if incarnation else plan_end - plan_start,
        overlap_offsets=overlap,
        position=UNKNOWN,
        beyond_position=0,
        target_beyond=0,
        preserved=incarnation.preserved if incarnation else plan is not None and plan.preserved,
    )


def _with_position(row: PartitionRow, position: int) -> PartitionRow:
    # No position is committed before the first range of a partition.
    untouched = position == UNKNOWN and row.covered_start == row.covered_end
    beyond = 0 if untouched else abs(row.covered_end - max(0, position))
    return replace(row, position=position, beyond_position=beyond)


def _with_others(row: PartitionRow, found: PartitionRecount) -> PartitionRow:
    return replace(
        row, target_beyond=found.beyond, uncommitted=found.uncommitted, target_before=found.before
    )


def _with_log(row: PartitionRow, log: LogBounds, plan: Range | None) -> PartitionRow:
    # A log's start is never moved beyond the position.
    first = UNKNOWN if plan is None else min(plan.log_start, row.position)
    return replace(
        row, unreached=max(0, row.covered_end - log.end), exposed=max(0, first - log.start)
    )


def _cover(spans: Iterable[tuple[int, int]], fallback: int) -> tuple[int, int, int, int]:
    """Start, end, offsets in gaps and offsets covered again; empty spans cover nothing."""
    full = sorted(span for span in spans if span[0] < span[1])
    if not full:
        return fallback, fallback, 0, 0
    at = full[0][0]
    gap = overlap = 0
    for start, end in full:
        gap += max(0, start - at)
        overlap += max(0, min(at, end) - start)
        at = max(at, end)
    return full[0][0], at, gap, overlap
