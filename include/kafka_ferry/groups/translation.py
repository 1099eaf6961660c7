"""Translates offsets of a source partition to the target, and back. Pure.

Both directions follow one rule. A group that has committed an offset has not read what lies at that
offset and after it. Its counterpart is the first place, on the other side, of anything that it has not
read::

    source    0 1 2 3 4 . . 7 8 |        5 and 6: an aborted transaction; 9 is the end of what is copied
    target   10 11 12 13 14 m 16 17 |    m: the marker of our own transaction

    translate(3) = 13 exact     translate(5) = 16 gap     translate(9) = 18 exact
    translate(12) = 18 clamped                            reverse(15) = 7 gap

So nothing unread is ever skipped, whatever the order in which a partition was copied, answers ascend
with offsets, and in a history that was copied in order each answer is the very record. No answer is
given for offsets between ranges that no range accounts for, where another mirror may have copied, or
that existed only in a branch that the source has lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from typing import Literal, NamedTuple

import numpy as np

from kafka_ferry.groups.columns import (
    History,
    Runs,
    disjoint,
    gaps,
    least_from,
    marker_offsets,
)
from kafka_ferry.ledger import CopiedRange
from kafka_ferry.ledger.queries.range_columns import RangeColumns

Kind = Literal["exact", "gap", "clamped"]
"""``exact``: the record at that offset, or the end of the copy for its end; ``gap``: no record was copied
from there, or records after it were copied before it, and this is the first that was not read;
``clamped``: the offset is after what is copied, or before it, or outside of the log."""


class Translation(NamedTuple):
    """An offset's counterpart.

    Attributes:
        offset: on the other cluster; a consumer that begins there misses nothing it had not read.
        kind: how exact it is.
    """

    offset: int
    kind: Kind


class OffsetMap:
    """The offset map of one source partition and one remote topic, with all its history.

    Args:
        copied: what the flow has copied.
        inverse: what the opposite flow has copied from the target to the source, if there is one: then
            other producers also write to the target, and none of their records is skipped.
        pending: what the flow has copied too, and not proved yet. No group has read it, although an opposite flow may
            have seen that it came from here; and the target's log may have lost it already.
    """

    def __init__(
        self,
        copied: RangeColumns,
        inverse: RangeColumns | None = None,
        pending: RangeColumns | None = None,
    ) -> None:
        self._copied = copied
        self._inverse = inverse
        self._pending = pending

    @classmethod
    def of(
        cls, ranges: Iterable[CopiedRange], inverse: Iterable[CopiedRange] | None = None
    ) -> OffsetMap:
        """The map of the ledger's ranges.

        Args:
            ranges: of one source topic's id, one remote topic's id and one partition, in the
                ledger's order.
            inverse: those of the opposite flow, from the remote topic to the source's, where
                records flow both ways; its source offsets are target offsets here.
        """
        returned = None if inverse is None else RangeColumns.of(inverse)
        return cls(RangeColumns.of(ranges), returned)

    @property
    def start(self) -> int:
        """The first source offset that is accounted for; ``end`` where none is."""
        return self._forward.start

    @property
    def end(self) -> int:
        """The source offset after the last one that is accounted for; 0 without any range."""
        return self._forward.end

    @cached_property
    def begin(self) -> int:
        """The first source offset that is not a backfill's alone; ``start`` where backfills have copied nothing."""
        starts, _ = self._copied.ordinary(self._copied.start, self._copied.end)
        return max(self.start, int(starts.min())) if starts.size else self.start

    def count_unknown(self, start: int, end: int) -> int:
        """How many source offsets of ``[start, end)`` are accounted for by no range of either flow."""
        returned = (self._back or _nothing()).kept.reverse()
        ranges = Runs(self._copied.start, self._copied.start, self._copied.end - self._copied.start)
        return _count_outside(start, end, ranges, returned)

    def count_lost(self, start: int, end: int) -> int:
        """How many source offsets of ``[start, end)`` hold records that the target had first, and has lost."""
        back = self._back or _nothing()
        copied_runs = (back.kept.reverse(), self._forward_runs)
        return _count_inside(start, end, back.written.reverse(), copied_runs)

    def count_expired(self, start: int, end: int, log_start: int, *, home: bool = False) -> int:
        """How many offsets of ``[start, end)`` have copies in the other log, but none from its start on.

        Copies that are not proved count too. Records that were copied late lie after newer ones: the log's start does
        not say which records are gone.

        Args:
            start: the first source offset.
            end: the offset after the last one.
            log_start: where the target's log starts.
            home: whether the sides are exchanged, so that the source's log starts there.
        """
        runs = self._there.kept.join((self._back or _nothing()).kept.reverse())
        if self._pending is not None:
            runs = runs.join(History.of(self._pending).kept)
        runs = runs.reverse() if home else runs
        return _count_inside(start, end, runs, (runs.image_from(log_start),))

    def count_orphans(self, start: int, end: int, *, diverged_at: int | None) -> int:
        """How many *target* offsets of ``[start, end)`` hold copies of records that the source has lost.

        Args:
            start: the first offset.
            end: the offset after the last one.
            diverged_at: where the source's log parts from the one that was copied; None where it does not.
        """
        history = self._there
        if diverged_at is not None:
            history = History.of(self._copied.set_back(diverged_at))
        return _count_inside(start, end, history.written.reverse(), (history.kept.reverse(),))

    def count_copies(
        self, start: int, end: int, *, since: int, accepted: Sequence[tuple[int, int]] = ()
    ) -> int:
        """How many *target* offsets of ``[start, end)`` were given to copies of records that the source still has.

        Args:
            start: the first offset.
            end: the offset after the last one.
            since: the first *source* offset of records that count.
            accepted: the offsets ``[start, end)`` of copies that do not count.
        """
        bounds = np.array(accepted, dtype=np.int64).reshape(-1, 2)
        left_out = Runs(bounds[:, 0], bounds[:, 0], bounds[:, 1] - bounds[:, 0])
        copies = self._there.kept.reverse().image_from(since)
        return _count_inside(start, end, copies, (left_out,))

    def count_strangers(self, start: int, end: int) -> int:
        """How many *target* offsets of ``[start, end)`` are neither copies nor the markers after them."""
        copies = self._there.written.reverse()
        ranges, markers = self._copied, marker_offsets(self._copied)
        if markers.size and ranges.batches[ranges.lengths > 0][-1] > 0:
            markers[-1] = 1
        return _count_outside(start, end, copies._replace(length=copies.length + markers))

    def count_records(self, start: int, end: int) -> int:
        """How many source offsets of ``[start, end)`` have a record on the target."""
        runs = self._forward_runs
        ends = np.clip(runs.start + runs.length, start, end)
        return int((ends - np.clip(runs.start, start, end)).sum())

    def translate(
        self, offset: int, *, log_start: int = 0, log_end: int | None = None
    ) -> Translation | None:
        """A source offset's counterpart on the target, None where unknown.

        Args:
            offset: the next source offset to read.
            log_start: of the target partition; no answer is before it.
            log_end: of the target partition, if it is known; no answer is after it.
        """
        return self._forward.answer(offset, log_start, log_end)

    def reverse(
        self, offset: int, *, log_start: int = 0, log_end: int | None = None
    ) -> Translation | None:
        """A target offset's counterpart on the source, None where unknown: ``translate`` with the sides exchanged."""
        return self._backward.answer(offset, log_start, log_end)

    @cached_property
    def _there(self) -> History:
        return History.of(self._copied)

    @cached_property
    def _forward_runs(self) -> Runs:
        return disjoint(self._there.kept)

    @cached_property
    def _back(self) -> History | None:
        return None if self._inverse is None else History.of(self._inverse)

    @cached_property
    def _forward(self) -> _Direction:
        unproved = None
        if self._pending is not None and self._inverse is not None:
            unproved = self._pending.first_image(0)
        return _Direction.of(
            self._there, self._back, unproved=unproved, is_identity=self._is_identity
        )

    @cached_property
    def _backward(self) -> _Direction:
        # With equal offsets, the answers are equal too.
        return self._forward if self._is_identity else _Direction.of(self._back, self._there)

    @property
    def _is_identity(self) -> bool:
        return self._copied.preserved and self._inverse is None


def _count_outside(start: int, end: int, *some: Runs) -> int:
    """How many offsets of ``[start, end)`` are in none of the runs."""
    bounds = np.array([start, end])
    starts = np.concatenate([runs.start for runs in some] + [bounds])
    ends = np.concatenate([runs.start + runs.length for runs in some] + [bounds])
    left = gaps(np.clip(starts, start, end), np.clip(ends, start, end))
    return sum(last - first for first, last in left)


def _count_inside(start: int, end: int, wanted: Runs, others: Sequence[Runs]) -> int:
    """How many offsets of ``[start, end)`` are in ``wanted`` and in none of the others."""
    return _count_outside(start, end, *others) - _count_outside(start, end, *others, wanted)


@cache
def _nothing() -> History:
    return History.of(RangeColumns.of(()))


class _Direction:
    """One direction of a map, from "here" to "there".

    Args:
        runs: where records are, in any order.
        is_known: whether any range exists.
        start: the first offset here that is accounted for.
        end: the offset after the last one.
        unread: the first place there for records that are on neither side yet; None if nothing was
            written.
        unknown: intervals here that are not accounted for.
        is_identity: whether offsets are the same on both sides.
    """

    def __init__(
        self,
        runs: Runs,
        *,
        is_known: bool,
        start: int,
        end: int,
        unread: int | None,
        unknown: Sequence[tuple[int, int]],
        is_identity: bool,
    ) -> None:
        self.start, self.end = min(start, end), end
        self._is_known, self._is_identity = is_known, is_identity
        self._unread, self._unknown = unread, unknown
        self._runs = disjoint(runs)
        self._least = least_from(self._runs.image)
        self._last = runs.reverse().end

    @classmethod
    def of(
        cls,
        forward: History | None,
        back: History | None,
        *,
        unproved: int | None = None,
        is_identity: bool = False,
    ) -> _Direction:
        """The direction in which ``forward`` was copied; ``back`` was copied in the opposite direction.

        Where no flow copies back, no other producer writes there. ``unproved``: the first copy not proved.
        """
        accounted_for = None if back is None else back.end
        forward, back = forward or _nothing(), back or _nothing()
        returned = back.kept.reverse()
        runs = forward.kept.join(returned)
        written = back.written.reverse()
        any_written = forward.written.start.size or written.start.size
        unread = _first_unread(forward, accounted_for) if any_written else None
        if unread is not None and unproved is not None:
            unread = min(unread, unproved)
        return cls(
            runs,
            is_known=forward.exists or back.exists,
            start=min(forward.start, written.first),
            end=max(forward.end, written.end),
            # Without records, their places in either log are unknown.
            unread=unread,
            unknown=[*forward.holes, forward.left, *map(back.around, back.holes)],
            is_identity=is_identity,
        )

    def answer(self, offset: int, log_start: int, log_end: int | None) -> Translation | None:
        """The counterpart of ``offset`` within the bounds of the log there."""
        if not self._is_known or any(first <= offset < last for first, last in self._unknown):
            return None
        counterpart = self._same(offset) if self._is_identity else self._counterpart(offset)
        if offset < self.start or counterpart is None or counterpart.offset < log_start:
            return Translation(log_start, "clamped")
        if log_end is not None and counterpart.offset > log_end:
            return Translation(log_end, "clamped")
        return counterpart

    def _same(self, offset: int) -> Translation:
        return Translation(min(offset, self.end), "exact" if offset <= self.end else "clamped")

    def _counterpart(self, offset: int) -> Translation | None:
        if self._unread is None:
            return None
        runs, unread = self._runs, self._unread
        following = int(runs.start.searchsorted(offset, side="right"))
        if following < self._least.size:
            unread = min(unread, int(self._least[following]))
        if following:
            into = offset - int(runs.start[following - 1])
            if into < runs.length[following - 1]:
                record = int(runs.image[following - 1]) + into
                is_first = record <= unread
                return Translation(record if is_first else unread, "exact" if is_first else "gap")
        if offset > self.end:
            return Translation(unread, "clamped")
        return Translation(
            unread, "exact" if offset == self.end and unread >= self._last else "gap"
        )


def _first_unread(history: History, accounted_for: int | None) -> int:
    """The first offset there that is not a copy from here, nor accounted for by the flow to here."""
    copies = history.written.reverse()
    if accounted_for is None:
        return copies.end
    copied_to = copies.start + copies.length + marker_offsets(history.ranges)
    beyond = copied_to > accounted_for
    # The accounted part reaches from the log's start to there.
    starts = np.append(copies.start[beyond], -1)
    ends = np.append(copied_to[beyond], accounted_for)
    left_out = gaps(starts, ends)
    return left_out[0][0] if left_out else int(ends.max())
