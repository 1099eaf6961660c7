"""The reconciliation table: what the ledger says beside what was read back. Pure.

Nothing is judged here; ``verify.checks`` says which numbers have to agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kafka_ferry.batches import Reason
from kafka_ferry.ledger import CopiedRange
from kafka_ferry.plan.ranges import TopicPartition
from kafka_ferry.verify.lives import Life, lives
from kafka_ferry.verify.rows import UNKNOWN, PartitionRow, RangeRow, Recount

__all__ = ["PartitionRow", "RangeRow", "Recount", "partition_rows", "range_row"]

_LISTED_REASONS: Final = frozenset(Reason)


def range_row(
    copied: CopiedRange,
    recount: Recount | None,
    *,
    run: str,
    ledger_offset: int,
    target_is_compacted: bool,
) -> RangeRow:
    """The row for one range of the ledger.

    Args:
        copied: what the ledger says.
        recount: what was read back, None where the remote topic was deleted since.
        run: the run that copied it.
        ledger_offset: where in the ledger it is written.
        target_is_compacted: whether the target topic's cleanup policy contains ``compact``.
    """
    gone = copied.records if recount is None else 0
    recount = recount or Recount(0, "")
    missing = copied.records - recount.records - recount.expired - gone
    # Never negative: more records than were copied must stay visible as such.
    cleaned = max(0, missing) if target_is_compacted else 0
    return RangeRow(
        topic=copied.topic,
        partition=copied.partition,
        remote_topic=copied.remote_topic,
        run=run,
        ledger_offset=ledger_offset,
        start=copied.start,
        end=copied.end,
        source_offsets=copied.end - copied.start,
        copied=copied.records,
        aborted=copied.reasons.get(Reason.ABORTED, 0),
        control=copied.reasons.get(Reason.CONTROL, 0),
        compacted=copied.reasons.get(Reason.COMPACTED, 0),
        other_reasons=sum(n for name, n in copied.reasons.items() if name not in _LISTED_REASONS),
        accounted=copied.records + sum(copied.reasons.values()),
        target_records=recount.records,
        expired=recount.expired,
        target_compacted=cleaned,
        foreign=recount.foreign,
        digest_sent=copied.digest,
        digest_read=recount.digest,
        digest_comparable=recount.expired == cleaned == recount.rewritten == gone == 0,
        topic_id=copied.topic_id,
        remote_topic_id=copied.remote_topic_id,
        lost=copied.reasons.get(Reason.LOST, 0),
        dead_lettered=copied.reasons.get(Reason.DEAD_LETTERED, 0),
        lost_intervals=copied.lost,
        rewound_from=copied.rewound_from,
        gone=gone,
    )


def partition_rows(
    ranges: Sequence[RangeRow],
    planned: Mapping[TopicPartition, tuple[int, int]],
    positions: Mapping[TopicPartition, int],
    beyond: Mapping[TopicPartition, int],
    *,
    remote_topics: Mapping[str, str] | None = None,
) -> list[PartitionRow]:
    """The rows for all partitions with a range, a plan or records that the ledger does not know.

    A partition gets a row for each of its lives (``verify.lives``); plan, position and what lies
    beyond belong to the last one.

    Args:
        ranges: the ranges, in any order, without those whose remote topic is gone: they cover
            nothing of what was planned.
        planned: *source* partition to the offsets ``(start, end)`` that the run planned.
        positions: *target* partition to the flow's committed position, a source offset.
        beyond: *target* partition to the data records after the last one that the ledger knows.
        remote_topics: source topic to the target's, for planned partitions of topics without a
            range. Without it their position and what lies beyond cannot be looked up.

    Returns:
        The rows by topic and partition; partitions known on the target only come first.
    """
    names = dict(remote_topics or {}) | {row.topic: row.remote_topic for row in ranges}
    known = lives(ranges)
    # A dictionary keeps the last value: the newest life of each partition.
    newest = {life.source: life for life in known}
    rows = [_ended(life) for life in known if life is not newest[life.source]]
    targets = set()
    for source in newest.keys() | planned.keys():
        life = newest.get(source)
        target = (
            life.target if life else TopicPartition(names.get(source.topic, ""), source.partition)
        )
        targets.add(target)
        row = _row(source, target, life, planned.get(source, (UNKNOWN, UNKNOWN)))
        rows.append(_with_ends(row, positions.get(target, UNKNOWN), beyond.get(target, 0)))
    rows.extend(
        replace(_row(TopicPartition("", target.partition), target, None), target_beyond=records)
        for target, records in beyond.items()
        if records and target not in targets
    )
    return sorted(rows, key=lambda row: (row.topic, row.partition, row.remote_topic))


def _ended(life: Life) -> PartitionRow:
    """The row of a life that another one followed."""
    row = _row(life.source, life.target, life)
    return row if life.left_at == UNKNOWN else _with_ends(row, life.left_at, 0)


def _row(
    source: TopicPartition,
    target: TopicPartition,
    life: Life | None,
    planned: tuple[int, int] = (UNKNOWN, UNKNOWN),
) -> PartitionRow:
    plan_start, plan_end = planned
    fallback = life.end if life else max(0, plan_start)
    start, end, gap, overlap = _cover(life.spans if life else (), fallback)
    return PartitionRow(
        topic=source.topic,
        partition=source.partition,
        remote_topic=target.topic,
        planned_start=plan_start,
        planned_end=plan_end,
        covered_start=start,
        covered_end=end,
        gap_offsets=gap if life else plan_end - plan_start,
        overlap_offsets=overlap,
        position=UNKNOWN,
        beyond_position=0,
        target_beyond=0,
    )


def _with_ends(row: PartitionRow, position: int, target_beyond: int) -> PartitionRow:
    # Nobody has committed a position before the first range of a partition.
    untouched = position == UNKNOWN and row.covered_start == row.covered_end
    beyond = 0 if untouched else abs(row.covered_end - max(0, position))
    return replace(row, position=position, beyond_position=beyond, target_beyond=target_beyond)


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
