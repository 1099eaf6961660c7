"""What a span of source offsets became: records on the target, or reasons why there are none."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import NamedTuple

from kafka_ferry.batches.epochs import OLDEST_EPOCH
from kafka_ferry.batches.record_format.header import Batch
from kafka_ferry.batches.record_format.records import Runs


class Reason(StrEnum):
    """Why a source offset has no record on the target."""

    ABORTED = "aborted"
    CONTROL = "control"
    COMPACTED = "compacted"
    LOST = "lost"
    DEAD_LETTERED = "dead-lettered"
    RETURNED = "returned"
    OUTSIDE_WINDOW = "outside-window"
    COPIED_BEFORE = "copied-before"
    FILTERED = "filtered"


class Rebuilt(StrEnum):
    """Why a batch could not be copied unopened (broker's rule in ``LogValidator``)."""

    RANGE_EDGE = "range edge inside the batch"
    OFFSET_GAPS = "offset gaps"
    LOG_APPEND_TIME = "log append time"
    OLD_FORMAT = "old message format"
    OTHER_CODEC = "codec of the target"
    TOO_LARGE = "too large for the target"
    JOINED = "joined small batches"
    REJECTED = "records that the target rejects"
    WINDOW_EDGE = "edge of a backfill inside the batch"
    TRANSFORMED = "changed by a transform rule"
    SCHEMA_IDS = "schema ids of the target"
    DIVIDED = "too large to be changed at once"


class Absent(NamedTuple):
    """Consecutive source offsets, ``[first, end)``, that have no record on the target."""

    first: int
    end: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class ConvertedBatch:
    """What a span of source offsets ``[start, end)`` became.

    Each of its offsets is either in ``runs`` or in ``absent``.

    Attributes:
        start: first source offset accounted for.
        end: source offset after the last one accounted for.
        batch: the dense batch to send, None where nothing is left to send.
        runs: the source offsets of its records, ``(first offset, count)``, ascending.
        absent: the other source offsets, ascending.
        rebuilt: how many source batches were rebuilt for it, each under its first reason; a batch
            that became several converted batches counts in the first of them.
        leader_epoch: by which a log shows that it is the one of which ``end`` is an offset: of the source batches in
            it, or else as ``gap`` and ``lost_batch`` have it; -1 if it is not known.
        rule_counts: what a transform rule has done in it, in how many records (``batches.rule_counts``); of a batch
            that became several converted batches, all of it counts in the first of them.
        last_crc: the CRC of the source batch that has the offset before ``end``; -1 where there is none, it is not
            known, or that batch is of an old message format.
    """

    start: int
    end: int
    batch: Batch | None = None
    runs: Runs = ()
    absent: tuple[Absent, ...] = ()
    rebuilt: Mapping[Rebuilt, int] = field(default_factory=dict)
    leader_epoch: int = -1
    rule_counts: Mapping[str, int] = field(default_factory=dict)
    last_crc: int = -1

    @property
    def first(self) -> int | None:
        """The source offset of its first record, None where it has none."""
        return self.runs[0][0] if self.runs else None

    @property
    def reasons(self) -> Mapping[Reason, int]:
        """How many offsets have no record on the target, by reason."""
        counts: Counter[Reason] = Counter()
        for absent in self.absent:
            counts[absent.reason] += absent.end - absent.first
        return counts


def gap(start: int, end: int, leader_epoch: int = -1) -> ConvertedBatch:
    """The converted batch for offsets that are missing between others in the source's log.

    Args:
        start: the first of them.
        end: the offset after the last one.
        leader_epoch: of the batch that follows, in whose log nothing lies between; -1 where it is not known.
    """
    absent = (Absent(start, end, Reason.COMPACTED),)
    return ConvertedBatch(start, end, absent=absent, leader_epoch=leader_epoch)


def lost_batch(start: int, end: int, leader_epoch: int = OLDEST_EPOCH) -> ConvertedBatch:
    """The converted batch for offsets that the source has lost before they were copied.

    Args:
        start: the first of them.
        end: the offset after the last one.
        leader_epoch: of the batch that follows, where the log does not start after them.
    """
    absent = (Absent(start, end, Reason.LOST),)
    return ConvertedBatch(start, end, absent=absent, leader_epoch=leader_epoch)


def left_out(absent: Absent) -> ConvertedBatch:
    """The converted batch for offsets that need not be read."""
    return ConvertedBatch(absent.first, absent.end, absent=(absent,))


def assemble(
    start: int,
    end: int,
    pieces: Iterable[tuple[Batch, Runs]],
    *,
    known: Iterable[Absent],
    rebuilt: Mapping[Rebuilt, int],
    leader_epoch: int,
    rule_counts: Mapping[str, int] = MappingProxyType({}),
    last_crc: int = -1,
) -> Iterator[ConvertedBatch]:
    """Converted batches for the batches that ``[start, end)`` became, one for each, or one for none.

    Args:
        start: first source offset to account for.
        end: source offset after the last one.
        pieces: the batches, and the source offsets of their records; made one after the other.
        known: why other offsets have no record, where it is not compaction; ascending.
        rebuilt: the source batches by reason; they count on the first converted batch.
        leader_epoch: of the source batches.
        rule_counts: what a transform rule has done; it counts on the first converted batch too.
        last_crc: as of the last converted batch.
    """
    known, begin, following = tuple(known), start, iter(pieces)
    piece: tuple[Batch | None, Runs] = next(following, (None, ()))
    while True:
        after = next(following, None)
        stop = after[1][0][0] if after else end
        batch, runs = piece
        absent = tuple(_others(begin, stop, runs, within(known, begin, stop)))
        crc = -1 if after else last_crc
        yield ConvertedBatch(
            begin, stop, batch, runs, absent, rebuilt, leader_epoch, rule_counts, crc
        )
        if after is None:
            return
        begin, piece, rebuilt, rule_counts = stop, after, {}, {}


def within(absent: Sequence[Absent], start: int, end: int) -> Iterator[Absent]:
    """The part of ``absent``, which ascends, that lies in ``[start, end)``."""
    for i in range(bisect_right(absent, start, key=attrgetter("end")), len(absent)):
        span = absent[i]
        if span.first >= end:
            return
        yield Absent(max(span.first, start), min(span.end, end), span.reason)


def _others(start: int, end: int, runs: Runs, known: Iterable[Absent]) -> Iterator[Absent]:
    """All offsets of ``[start, end)`` outside ``runs``: ``known`` ones, and the rest as compacted."""
    records = [(first, first + count, None) for first, count in runs]
    at = start
    for first, stop, reason in sorted([*records, *known], key=itemgetter(0)):
        if first > at:
            yield Absent(at, first, Reason.COMPACTED)
        if reason is not None:
            yield Absent(first, stop, reason)
        at = stop
    if at < end:
        yield Absent(at, end, Reason.COMPACTED)
