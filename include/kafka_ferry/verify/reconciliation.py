"""The reconciliation table: what the ledger says, compared with what was read back. Pure.

Nothing is judged here; ``verify.checks`` says which numbers have to agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kafka_ferry.batches import Reason
from kafka_ferry.ledger import AcceptedRange, CopiedRange, LedgerRange
from kafka_ferry.model.cluster_state import LogBounds
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.verify.incarnations import NOTHING, Incarnation, Key, incarnations
from kafka_ferry.verify.recount_result import PartitionRecount, Recount, first_stranger
from kafka_ferry.verify.rows import (
    UNKNOWN,
    Coverage,
    LedgerAccount,
    PartitionRow,
    RangeRow,
    RemoteLog,
    TargetRecords,
)


def range_row(
    entry: LedgerRange,
    recount: Recount | None,
    *,
    target_is_compacted: bool = False,
    accepted: AcceptedRange | None = None,
    reached: int = 0,
    unread: str = "",
    is_gone_before: bool = False,
) -> RangeRow:
    """The row for one range of the ledger.

    Args:
        entry: the range in the ledger.
        recount: what was read back, None where the remote topic was deleted since.
        target_is_compacted: whether the target topic's cleanup policy contains ``compact``.
        accepted: as what it is to be left, if a person has decided that.
        reached: the target offset up to which the ledger had written to the partition before.
        unread: why it could not be read back; "" if it was, or if the topic was deleted.
        is_gone_before: whether the last record that had been copied before it is no longer there.
    """
    copied = entry.copied
    target = _target_records(
        copied, recount, accepted, is_compacted=target_is_compacted, unread=unread
    )
    return RangeRow(
        topic=copied.topic,
        partition=copied.partition,
        remote_topic=copied.remote_topic,
        start=copied.start,
        end=copied.end,
        ledger=_account(entry, reached),
        recount=replace(target, gone_before=int(is_gone_before)),
        topic_id=copied.topic_id,
        remote_topic_id=copied.remote_topic_id,
        preserved=copied.preserved,
    )


def _target_records(
    copied: CopiedRange,
    recount: Recount | None,
    accepted: AcceptedRange | None,
    *,
    is_compacted: bool,
    unread: str,
) -> TargetRecords:
    # Where nothing could be read there is no digest either, not even that of no batches.
    is_gone = recount is None and not unread
    gone = copied.records if is_gone else 0
    # Of what was not read, nothing is explained.
    recount = Recount(0, "") if unread or recount is None else recount
    missing = copied.records - recount.records - recount.expired - gone
    # Never negative: surplus records must stay visible.
    cleaned = max(0, missing - recount.uncleaned) if is_compacted and not unread else 0
    # What has expired of it since leaves another digest.
    as_accepted = accepted is not None and (
        recount.digest == accepted.digest or recount.expired > 0
    )
    left = 0
    if accepted and as_accepted and not unread:
        left = _count_left(accepted, copied.records, recount, missing - cleaned)
    unknown = not copied.digest or bool(unread)
    stranger = first_stranger(recount.strangers if recount.foreign else ())
    changed = any((recount.expired, cleaned, recount.rewritten, recount.across, is_gone, unknown))
    return TargetRecords(
        target_records=recount.records,
        digest_read=recount.digest,
        digest_comparable=not (changed or as_accepted),
        expired=recount.expired,
        target_compacted=cleaned,
        gone=gone,
        foreign=recount.foreign,
        foreign_at=stranger.offset,
        foreign_by=stranger.producer_id,
        accepted_missing=left,
        unread=unread,
    )


def _count_left(accepted: AcceptedRange, copied: int, recount: Recount, missing: int) -> int:
    """How many of the missing records a person has decided to leave so."""
    lacked = copied - accepted.records
    if recount.digest != accepted.digest:
        # Of what was missing then, only what is not below the log's start still is.
        lacked = min(lacked, accepted.missing_count(recount.log_start))
    return max(0, min(missing, lacked))


def _account(entry: LedgerRange, reached: int) -> LedgerAccount:
    copied = entry.copied
    known = +Counter({reason: copied.reasons.get(reason, 0) for reason in Reason})
    return LedgerAccount(
        run=entry.run,
        ledger_offset=entry.ledger_offset,
        copied=copied.records,
        digest_sent=copied.digest,
        reasons=known,
        other_reasons=sum(copied.reasons.values()) - known.total(),
        lost_intervals=copied.lost,
        rewound_from=copied.rewound_from,
        adopted=copied.adopted,
        misplaced=_count_misplaced(copied) if copied.preserved else 0,
        backfill=entry.window is not None,
        unmapped=copied.records - sum(segment.records for segment in copied.segments),
        displaced=0 if copied.preserved else _count_displaced(copied, reached),
    )


def _count_displaced(copied: CopiedRange, reached: int) -> int:
    """Records that the ledger has below ``reached``, where others were before: a truncated log was written on."""
    displaced = 0
    for _, target, records in copied.segments:
        displaced += min(max(reached - target, 0), records)
        reached = max(reached, target + records)
    return displaced


def _count_misplaced(copied: CopiedRange) -> int:
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
        _row_of_former(incarnation)
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
        recount = recounts.get(target, PartitionRecount((), 0))
        # Its ranges say so themselves.
        recount = recount if incarnation is None else recount._replace(unread="")
        rows.append(_with_log(row, recount, logs.get(target), plan))
    rows.extend(
        _with_log(_row(TopicPartition("", target.partition), target, None), recount)
        for target, recount in recounts.items()
        if (recount.beyond or recount.unread) and target not in targets
    )
    return sorted(rows, key=lambda row: (row.topic, row.partition, row.remote_topic))


def _row_of_former(incarnation: Incarnation) -> PartitionRow:
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
    if incarnation:
        coverage = _cover(incarnation.spans, incarnation.end, incarnation.verified_to)
    else:
        start = max(0, plan_start)
        coverage = Coverage(start, start, gap_offsets=plan_end - plan_start)
    return PartitionRow(
        topic=source.topic,
        partition=source.partition,
        remote_topic=target.topic,
        planned_start=plan_start,
        planned_end=plan_end,
        coverage=coverage,
        preserved=incarnation.preserved if incarnation else plan is not None and plan.preserved,
    )


def _with_position(row: PartitionRow, position: int) -> PartitionRow:
    # No position is committed before the first range of a partition.
    start, end = row.coverage.covered_start, row.coverage.covered_end
    beyond = 0 if position == UNKNOWN and start == end else abs(end - max(0, position))
    return replace(row, position=position, beyond_position=beyond)


def _with_log(
    row: PartitionRow,
    recount: PartitionRecount,
    log: LogBounds | None = None,
    plan: Range | None = None,
) -> PartitionRow:
    stranger = first_stranger(recount.strangers if recount.beyond else ())
    remote = RemoteLog(
        target_beyond=recount.beyond,
        beyond_at=stranger.offset,
        beyond_by=stranger.producer_id,
        uncommitted=recount.uncommitted,
        target_before=recount.before,
        unread=recount.unread,
    )
    if log:
        # A log's start is never moved beyond the position.
        first = UNKNOWN if plan is None else min(plan.log_start, row.position)
        unreached = max(0, row.coverage.covered_end - log.end)
        remote = replace(remote, unreached=unreached, exposed=max(0, first - log.start))
    return replace(row, log=remote)


def _cover(spans: Iterable[tuple[int, int]], at: int, verified_to: int) -> Coverage:
    """What spans cover of a partition that is at an offset; empty ones cover nothing."""
    full = sorted(span for span in spans if span[0] < span[1])
    if not full:
        return Coverage(at, at)
    first = at = full[0][0]
    before = first if verified_to == UNKNOWN else verified_to
    gap, overlap = max(0, first - before), max(0, before - first)
    for start, end in full:
        gap += max(0, start - at)
        overlap += max(0, min(at, end) - start)
        at = max(at, end)
    return Coverage(first, at, gap, overlap)
