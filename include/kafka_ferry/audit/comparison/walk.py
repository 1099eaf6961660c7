"""Walks along two logs at once and matches their records in order, in bounded memory. Pure.

Both sides are read forwards, a block of source records at a time. As long as the digests of a block are
those of the target's next records, nothing is kept of either. Where they differ, the walk looks for the
place at which they are the same again, in windows that grow up to ``MOST_AHEAD`` records; what lies between
is *unmatched*::

    source   a b c d e f g        (letters are digests of records)
    target   a b x d e c d e f    x and "c d e" unmatched on the target, c on the source
             = =   = =       =

The result holds whichever way the walk goes: unmatched records are looked for everywhere afterwards
(``unmatched``). A walk that loses its way only makes that more expensive; one with more than ``most`` of
them stops, since a comparison without order is cheaper then (``unordered``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kafka_ferry.audit.comparison.alignment import align, equal_prefix
from kafka_ferry.audit.comparison.entries import (
    AuditedLog,
    Entries,
    Hashes,
    Integers,
    Unmatched,
    all_but,
    most_deleted,
)

BLOCK: Final = 10_000
"""Source records to a block."""
MOST_UNMATCHED: Final = 500_000
"""The most records of a side that are kept for a second look, some 16 MB."""
MOST_AHEAD: Final = 262_144
"""The most records of each side that are searched for the place where both are the same again."""
_FIRST_AHEAD: Final = 4_096
_GROWTH: Final = 8
# The most source records before the first one on the target that are kept: the target has most likely deleted them.
_MOST_OF_HEAD: Final = 100_000
# A window in which fewer records match may hide a better one further on.
_ENOUGH: Final = 0.25


@dataclass
class WalkState:
    """How far a walk has come; the walk can continue with it in another process.

    Attributes:
        source_at: the next source offset.
        target_at: the next target offset.
        source_records: records of the source up to there.
        target_records: records of the target up to there.
        matched: records that are the same on both sides, in order.
        skipped: records that were only counted, on both sides.
        head_records: the target's first records, before the first one that is on the source too, where the
            source may have deleted theirs.
        head_end: the target offset after them.
        removed_records: source records before the first one that is on the target too, which the target has
            deleted; without those that are kept in ``source_unmatched``.
        is_over: whether both sides were read to their ends.
        is_lost: whether there were too many unmatched records, or a record of the target shows that the source's,
            which were passed over, are missing.
        source_unmatched: the source's records without partner so far.
        target_unmatched: the target's.
    """

    source_at: int
    target_at: int
    source_records: int = 0
    target_records: int = 0
    matched: int = 0
    skipped: int = 0
    head_records: int = 0
    head_end: int = 0
    removed_records: int = 0
    is_over: bool = False
    is_lost: bool = False
    source_unmatched: Unmatched = field(default_factory=lambda: Unmatched.concat([]))
    target_unmatched: Unmatched = field(default_factory=lambda: Unmatched.concat([]))

    @property
    def passed(self) -> int:
        """Records that count as the same."""
        return self.matched + self.skipped


class LogWalk:
    """Continues a walk.

    Args:
        source: the source's log.
        target: the target's log.
        state: where it stands; it is changed.
        one_in: one block in this many is compared by its content, the others are counted only.
        by_time: whether timestamps are the same on both sides, so that they show which side is ahead.
        block: source records to a block.
        most: with more unmatched records of a side than this, the walk gives up.
        most_ahead: the largest window.
    """

    def __init__(
        self,
        source: AuditedLog,
        target: AuditedLog,
        state: WalkState,
        *,
        one_in: int = 1,
        by_time: bool = True,
        block: int = BLOCK,
        most: int = MOST_UNMATCHED,
        most_ahead: int = MOST_AHEAD,
    ) -> None:
        self.state = state
        self._logs = source, target
        self._one_in, self._by_time, self._block = one_in, by_time, block
        self._most, self._most_ahead = most, most_ahead
        self._source, self._target = _Side(source, state.source_at), _Side(target, state.target_at)
        self._unmatched: tuple[list[Unmatched], list[Unmatched]] = ([], [])
        self._counts = len(state.source_unmatched), len(state.target_unmatched)
        # Blocks to be compared before the next ones are skipped.
        self._in_full = 1

    def go(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        """Walk to the end, or until ``goes_on``, which is asked between blocks, says no."""
        state = self.state
        while not state.is_over and not state.is_lost and goes_on():
            if self._one_in > 1 and not self._in_full:
                self._sample()
            elif self._step():
                self._in_full = max(0, self._in_full - 1)
        state.source_at, state.target_at = self._source.at, self._target.at
        ours, theirs = self._unmatched
        state.source_unmatched = Unmatched.concat([state.source_unmatched, *ours])
        state.target_unmatched = Unmatched.concat([state.target_unmatched, *theirs])
        self._unmatched = ([], [])

    def _step(self) -> bool:
        """Compare a block; returns whether it was the same on both sides."""
        ours, theirs = self._source.ahead(self._block), self._target.ahead(self._block)
        if not len(ours) or not len(theirs):
            self._leave(self._source.drop(len(ours)), self._target.drop(len(theirs)))
            self.state.is_over = not len(ours) and not len(theirs)
            return False
        same = equal_prefix(ours.digests, theirs.digests)
        self._match(same)
        if same == min(len(ours), len(theirs)):
            return True
        self._find_way()
        return False

    def _sample(self) -> None:
        """Count all blocks but one of ``one_in``, and compare that; all of them if anything is off."""
        before = self._source.at, self._target.at
        wanted = self._block * (self._one_in - 1)
        ours, theirs = self._source.skip(wanted), self._target.skip(wanted)
        source_block, target_block = (
            self._source.ahead(self._block),
            self._target.ahead(self._block),
        )
        same = equal_prefix(source_block.digests, target_block.digests)
        if ours == theirs and same == len(source_block) == len(target_block):
            self.state.is_over = not same
            self.state.skipped += ours
            self.state.source_records += ours
            self.state.target_records += theirs
            self._match(same)
            return
        # The blocks since the last one that was compared are read again, in full.
        self._source, self._target = (
            _Side(log, at) for log, at in zip(self._logs, before, strict=True)
        )
        self._in_full = self._one_in

    def _match(self, count: int) -> None:
        self._source.drop(count)
        self._target.drop(count)
        self.state.matched += count
        self.state.source_records += count
        self.state.target_records += count

    def _find_way(self) -> None:
        """Match what can be matched from here on, where the next two records differ."""
        size = _FIRST_AHEAD
        while True:
            size = min(size, self._most_ahead)
            ours, theirs = self._source.ahead(size), self._target.ahead(size)
            is_all = len(ours) < size and len(theirs) < size
            i, j = align(ours.digests, theirs.digests)
            is_enough = len(i) >= _ENOUGH * min(len(ours), len(theirs))
            if is_all or (len(i) and is_enough) or size >= self._most_ahead:
                break
            size *= _GROWTH
        if is_all:
            self._commit(i, j, len(ours), len(theirs))
        elif len(i):
            self._commit(i, j, int(i[-1]) + 1, int(j[-1]) + 1)
        else:
            later = self._later(ours, theirs)
            self._leave(
                self._source.drop(len(ours) if later <= 0 else 0),
                self._target.drop(len(theirs) if later >= 0 else 0),
            )

    def _later(self, ours: Entries, theirs: Entries) -> int:
        """Which side is ahead by its timestamps: 1 the source, -1 the target, 0 where they do not tell."""
        if not self._by_time:
            return 0
        return int(np.sign(np.median(ours.times) - np.median(theirs.times)))

    def _commit(self, i: Integers, j: Integers, ours: int, theirs: int) -> None:
        """Pass the first ``ours`` and ``theirs`` records, of which those at ``i`` and ``j`` match."""
        passed = self.state.passed
        source, target = self._source.drop(ours), self._target.drop(theirs)
        for number, (entries, matched) in enumerate(((source, i), (target, j))):
            left = np.setdiff1d(np.arange(len(entries)), matched, assume_unique=True)
            gaps = passed + np.searchsorted(matched, left)
            self._keep(number, entries.at(left), gaps, source.digests)
        self.state.matched += len(i)
        self.state.source_records += ours
        self.state.target_records += theirs

    def _leave(self, ours: Entries, theirs: Entries) -> None:
        """Pass records, none of which match."""
        for number, entries in enumerate((ours, theirs)):
            self._keep(number, entries, np.full(len(entries), self.state.passed, np.int64))
        self.state.source_records += len(ours)
        self.state.target_records += len(theirs)

    def _keep(
        self, number: int, entries: Entries, gaps: Integers, source: Hashes | None = None
    ) -> None:
        """Keep unmatched records of one side, except for those that the other side may have deleted.

        ``source`` are digests of what lies beside them on the source: of that it has deleted nothing.
        """
        head = np.arange(np.searchsorted(gaps, 1))
        if number and source is not None:
            head = head[~np.isin(entries.digests[head], source)]
        head = head[: self._pass_head(number, entries.at(head), len(head))]
        left = all_but(head, len(entries))
        entries, gaps = entries.at(left), gaps[left]
        if not len(entries):
            return
        counts = [*self._counts]
        counts[number] += len(entries)
        self._counts = counts[0], counts[1]
        self._unmatched[number].append(Unmatched(entries, gaps))
        self._give_up(max(self._counts) > self._most)

    def _pass_head(self, number: int, entries: Entries, head: int) -> int:
        """How many of one side's first ``head`` records need not be kept: the other side may have deleted them.

        A log has deleted no more records than there are offsets before its start. A target that has kept a record
        from before the first one on both sides has deleted none of those after it.
        """
        state, most = self.state, most_deleted(self._logs[1 - number])
        if number:
            head = min(head, max(0, most - state.head_records))
            if head:
                state.head_records += head
                state.head_end = int(entries.offsets[head - 1]) + 1
        else:
            head = max(0, head - max(0, _MOST_OF_HEAD - self._counts[0]))
            head = 0 if state.head_records else min(head, max(0, most - state.removed_records))
            state.removed_records += head
        self._give_up(bool(state.head_records and state.removed_records))
        return head

    def _give_up(self, is_lost: bool) -> None:
        self.state.is_lost = self.state.is_lost or is_lost


class _Side:
    """One log with the records that were read ahead."""

    def __init__(self, log: AuditedLog, at: int) -> None:
        self._cursor = log.cursor(at)
        self._ready = Entries.of()
        self.at = at

    def ahead(self, records: int) -> Entries:
        """The next records, as many as asked for; fewer only at the end."""
        if len(self._ready) < records:
            more = self._cursor.take(records - len(self._ready))
            self._ready = Entries.concat([self._ready, more])
        return self._ready.at(slice(0, records))

    def drop(self, records: int) -> Entries:
        """Pass over records that were read ahead."""
        dropped = self._ready.at(slice(0, records))
        if records:
            self.at = int(dropped.offsets[-1]) + 1
            self._ready = self._ready.at(slice(records, None))
        return dropped

    def skip(self, records: int) -> int:
        """Pass over records without comparing them; returns how many there were."""
        ready = min(records, len(self._ready))
        self.drop(ready)
        return ready + (self._cursor.skip(records - ready) if ready < records else 0)
