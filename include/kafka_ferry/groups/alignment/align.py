"""Matches a partition's records on source and target by their content. Pure.

Another mirror has copied records at least once, in order, and may have gone back after a crash::

    source   a b c d e f g h        (letters are records: content and time)
    target   a b c d e c d e f      went back to c, and wrote c, d and e a second time

A record of the target follows the record before it, or the mirror has gone back there. So ``f`` is the
last one on the target, and copying continues with ``g``. Of duplicate records the later ones count, once
they have caught up: a consumer that reads from there on sees everything once.

Where one of the two logs is compacted, records may be missing on either side if a later record of the
same key explains it. Whatever cannot be explained is reported, and never guessed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from kafka_ferry.groups.alignment.aligned_runs import Alignment, Misaligned
from kafka_ferry.groups.alignment.record_digests import LogRecords
from kafka_ferry.groups.alignment.walk import Walk

__all__ = ["Alignment", "LogRecords", "Misaligned", "align"]


def align(
    source: LogRecords,
    target: LogRecords,
    position: int | None,
    *,
    compacted: bool = False,
    is_cleaned: bool = False,
    joined: int | None = None,
) -> Alignment | None:
    """Find out what the target has of the source; None if nothing, and no position says otherwise.

    Args:
        source: the partition on the source.
        target: the partition on the target.
        position: the next source offset that the other mirror would copy, by its own account.
        compacted: whether one of the two logs is compacted.
        is_cleaned: whether the target's is, whose cleaner removes records without a key.
        joined: the source offset that the target's first record must have, where that is known.

    Raises:
        Misaligned: the target's records are not those of the source, in its order, or they are fewer
            than the mirror says.
    """
    kind = _Compaction(compacted, is_cleaned)
    if not len(target):
        return None if position is None else _of_nothing(source, target, position, kind)
    walk = _walk(source, target, position, kind, joined)
    if walk is None:
        may_be_lost = target.distinct(compacted=compacted) <= source.start
        if position is not None and position <= source.start and may_be_lost:
            # The source has lost all that was copied: nothing is left to compare.
            return replace(_of_nothing(source, target, position, kind), unknown=len(target))
        raise Misaligned(
            "none of its records is one of the source's"
            + (f", of which offset {position - 1} should be there" if position else "")
        )
    return walk.alignment(position)


def begins_late(alignment: Alignment, source: LogRecords, target: LogRecords) -> bool:
    """Whether the source has more records before the first one that was copied than the target can have deleted."""
    before = ~source.aborted[: source.below(alignment.start)]
    return bool(alignment.records) and int(before.sum()) > target.start


class _Compaction(NamedTuple):
    """Whether one of the logs is compacted, and whether the target's is."""

    either: bool
    target: bool


def _of_nothing(
    source: LogRecords, target: LogRecords, position: int, compaction: _Compaction
) -> Alignment:
    """The result where no record is left on both sides: the position, as far as nothing contradicts it.

    Raises:
        Misaligned: the source never had what the mirror says that it has copied, or the target never did.
    """
    if position > source.end:
        raise Misaligned(
            f"the position of the other mirror is {position}, and the source ends at {source.end}"
        )
    before = source.below(position)
    copied = ~source.aborted[:before]
    if compaction.either:
        copied &= source.survivors(before, target.keys)
    if compaction.target and int((copied & ~source.has_key(before)).sum()) <= target.removed:
        copied &= source.has_key(before)
    missing = int(copied.sum())
    if missing > target.start:
        raise Misaligned(
            f"the position of the other mirror is {position}, but {missing} of the source's records before it are "
            f"not there, and at most {target.start} were deleted"
        )
    epoch = int(source.leader_epochs[before - 1]) if before else -1
    return Alignment(position, position, leader_epoch=epoch, is_compared=False)


def _walk(
    source: LogRecords,
    target: LogRecords,
    position: int | None,
    compaction: _Compaction,
    joined: int | None,
) -> Walk | None:
    """The walk along both logs, with or without aborted records on the target; None without a start."""
    whole = Walk(source, target, compacted=compaction.either, is_cleaned=compaction.target)
    if not source.aborted.any():
        return whole if whole.go(position, joined) else None
    # Which one applies depends on the mirror's isolation level, which is read_uncommitted by default.
    with suppress(Misaligned):
        if whole.go(position, joined):
            return whole
    committed = Walk(
        source,
        target,
        compacted=compaction.either,
        is_cleaned=compaction.target,
        without=source.aborted,
    )
    return committed if committed.go(position, joined) else None
