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
from kafka_ferry.verify.rows import UNKNOWN, PartitionRow, RangeRow, Recount

__all__ = ["PartitionRow", "RangeRow", "Recount", "partition_rows", "range_row"]

_LISTED_REASONS: Final = frozenset(Reason)


def range_row(
    copied: CopiedRange,
    recount: Recount,
    *,
    run: str,
    ledger_offset: int,
    target_is_compacted: bool,
) -> RangeRow:
    """The row for one range of the ledger.

    Args:
        copied: what the ledger says.
        recount: what was read back.
        run: the run that copied it.
        ledger_offset: where in the ledger it is written.
        target_is_compacted: whether the target topic's cleanup policy contains ``compact``.
    """
    missing = copied.records - recount.records - recount.expired
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
        digest_comparable=recount.expired == cleaned == recount.rewritten == 0,
        topic_id=copied.topic_id,
        remote_topic_id=copied.remote_topic_id,
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

    A topic that was made anew between two ranges gets a row for each of its lives; plan, position
    and what lies beyond belong to the last one.

    Args:
        ranges: the ranges, in any order.
        planned: *source* partition to the offsets ``(start, end)`` that the run planned.
        positions: *target* partition to the flow's committed position, a source offset.
        beyond: *target* partition to the data records after the last one that the ledger knows.
        remote_topics: source topic to the target's, for planned partitions of topics without a
            range. Without it their position and what lies beyond cannot be looked up.

    Returns:
        The rows by topic and partition; partitions known on the target only come first.
    """
    names = dict(remote_topics or {}) | {row.topic: row.remote_topic for row in ranges}
    lives = _lives(ranges)
    # A dictionary keeps the last value: the newest life of each partition.
    newest = {life[0].source: life for life in lives}
    rows = [
        _row(life[0].source, life[0].remote_topic, life)
        for life in lives
        if life is not newest[life[0].source]
    ]
    known = set()
    for source in newest.keys() | planned.keys():
        life = newest.get(source, [])
        remote = life[0].remote_topic if life else names.get(source.topic, "")
        target = TopicPartition(remote, source.partition)
        known.add(target)
        row = _row(source, remote, life, planned.get(source, (UNKNOWN, UNKNOWN)))
        rows.append(_with_ends(row, positions.get(target, UNKNOWN), beyond.get(target, 0)))
    rows.extend(
        replace(_row(TopicPartition("", target.partition), target.topic, []), target_beyond=records)
        for target, records in beyond.items()
        if records and target not in known
    )
    return sorted(rows, key=lambda row: (row.topic, row.partition, row.remote_topic))


def _lives(ranges: Sequence[RangeRow]) -> list[list[RangeRow]]:
    """The ranges of each life of each partition; the newest life last."""
    lives: dict[tuple[TopicPartition, str, TopicPartition, str], list[RangeRow]] = {}
    for row in sorted(ranges, key=lambda row: (row.ledger_offset, row.start)):
        key = (row.source, row.topic_id, row.target, row.remote_topic_id)
        lives.setdefault(key, []).append(row)
    return sorted(lives.values(), key=lambda life: life[-1].ledger_offset)


def _row(
    source: TopicPartition,
    remote_topic: str,
    life: Sequence[RangeRow],
    planned: tuple[int, int] = (UNKNOWN, UNKNOWN),
) -> PartitionRow:
    plan_start, plan_end = planned
    fallback = life[-1].end if life else max(0, plan_start)
    start, end, gap, overlap = _cover(((row.start, row.end) for row in life), fallback)
    return PartitionRow(
        topic=source.topic,
        partition=source.partition,
        remote_topic=remote_topic,
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
