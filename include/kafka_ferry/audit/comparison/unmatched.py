"""Decides what became of the records that a walk has not matched. Pure.

In this order, so that each record is told once: the same record at another place (*reordered*); one that
the other side has already (*doubled*); one between the same neighbours that differs in parts (*altered*);
and what is left is *missing* or *foreign*, unless a log's start or end explains it: what lies before the
first record that both sides hold may have been deleted by the side that does not have it, but no more of it
than there are offsets before that side's start; and what lies after the last one may not have been copied yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from kafka_ferry.audit.comparison.alignment import longest_ascending
from kafka_ferry.audit.comparison.altered import alterations
from kafka_ferry.audit.comparison.entries import (
    AuditedLog,
    Booleans,
    Entries,
    Integers,
    Times,
    Unmatched,
    all_but,
    chunks,
    locate_first,
    most_deleted,
)
from kafka_ferry.audit.comparison.findings import NO_OFFSET, Differing
from kafka_ferry.audit.comparison.walk import WalkState


@dataclass(frozen=True)
class Judged:
    """What became of unmatched records.

    Attributes:
        differing: all that differ, except those that ``missing`` and ``foreign`` hold.
        missing: records that the target does not have in this partition.
        foreign: records that the source does not have in this partition.
        in_order: records that are the same after all.
        removed: source records that the target has deleted since it had them.
        expired: target records that the source has deleted since they were copied.
        pending: source records that are too recent to be called missing.
    """

    differing: list[Differing]
    missing: Entries
    foreign: Entries
    in_order: int
    removed: int
    expired: int
    pending: int


def judge_unmatched(
    source: AuditedLog,
    target: AuditedLog,
    state: WalkState,
    *,
    times: bool = True,
    recent: Times | None = None,
) -> Judged:
    """What became of the unmatched records of a walk that is over.

    Reads the source's digests again if the target has unmatched records, and the records that may be altered.

    Args:
        source: the source's log.
        target: the target's log.
        state: the walk's.
        times: whether timestamps are compared.
        recent: between which times records at the end of the source's log may not have been copied yet, in
            milliseconds since 1970; None if everything should have been.
    """
    ours, theirs = state.source_unmatched, state.target_unmatched
    ours, removed = _drop_removed(ours, theirs, target, state)
    moved = _pair_moves(ours, theirs)
    differing = [*_reorderings(ours, theirs, moved)]
    ours, theirs = ours.at(moved.left_source), theirs.at(moved.left_target)
    ours, of_head = _pair_with_head(ours, target, state)
    differing += of_head
    is_double, origins = _find_doubles(source, target, theirs, state)
    doubled = theirs.at(is_double).entries.offsets
    for origin, offset in zip(origins[is_double].tolist(), doubled.tolist(), strict=True):
        differing.append(Differing("doubled", origin, offset))
    theirs = theirs.at(~is_double)
    paired = alterations(source, target, ours, theirs, times=times)
    for i, j, what in paired:
        offsets = int(ours.entries.offsets[i]), int(theirs.entries.offsets[j])
        differing.append(Differing("altered", *offsets, what))
    ours = ours.at(all_but([pair.source for pair in paired], len(ours)))
    theirs = theirs.at(all_but([pair.target for pair in paired], len(theirs)))
    # Those that the source has not deleted after all leave room for as many that it may have.
    more = min(len(of_head), int(np.searchsorted(theirs.gaps, 1)))
    theirs = theirs.at(np.arange(more, len(theirs)))
    is_pending = _is_pending(ours, state, recent)
    return Judged(
        differing,
        missing=ours.entries.at(~is_pending),
        foreign=theirs.entries,
        in_order=moved.in_order,
        removed=state.removed_records + removed,
        expired=state.head_records - len(of_head) + more,
        pending=int(is_pending.sum()),
    )


def as_findings(missing: Entries, foreign: Entries) -> Iterator[Differing]:
    """The findings that missing and foreign records are."""
    for offset in missing.offsets.tolist():
        yield Differing("missing", offset, NO_OFFSET)
    for offset in foreign.offsets.tolist():
        yield Differing("foreign", NO_OFFSET, offset)


def _drop_removed(
    ours: Unmatched, theirs: Unmatched, target: AuditedLog, state: WalkState
) -> tuple[Unmatched, int]:
    """The source's unmatched records without those that the target has deleted, and how many these are.

    If the target has records before the first one on both sides, it reaches further back than the source.
    A target's log that starts at offset n has deleted n records at most, whatever the source has deleted: any
    more are missing. What a backfill or a repair has appended is there, after newer records.
    """
    if state.head_records:
        return ours, 0
    head = ours.entries.digests[: np.searchsorted(ours.gaps, 1)]
    is_elsewhere = np.isin(head, theirs.entries.digests)
    most = max(0, most_deleted(target) - state.removed_records)
    deleted = np.flatnonzero(~is_elsewhere)[:most]
    return ours.at(all_but(deleted, len(ours))), len(deleted)


@dataclass(frozen=True, slots=True)
class _Moved:
    """Unmatched records with equal digests on both sides, as places."""

    reordered_source: Integers
    reordered_target: Integers
    left_source: Booleans
    left_target: Booleans
    in_order: int


def _reorderings(ours: Unmatched, theirs: Unmatched, moved: _Moved) -> Iterator[Differing]:
    for i, j in zip(moved.reordered_source.tolist(), moved.reordered_target.tolist(), strict=True):
        yield Differing("reordered", int(ours.entries.offsets[i]), int(theirs.entries.offsets[j]))


def _pair_with_head(
    ours: Unmatched, target: AuditedLog, state: WalkState
) -> tuple[Unmatched, list[Differing]]:
    """The source's unmatched records without those among the target's first ones, and these.

    What a backfill has copied lies after newer records: these come first on the target, before what both sides hold in
    the same order.
    """
    reordered: list[Differing] = []
    for chunk in chunks(target, target.since, state.head_end) if state.head_records else ():
        if not len(ours):
            break
        is_kept = np.isin(chunk.offsets, state.target_unmatched.entries.offsets)
        same = chunk.at(np.isin(chunk.digests, ours.entries.digests) & ~is_kept)
        # Of another gap than any: whatever matches there is at another place.
        theirs = Unmatched(same, np.full(len(same), -1))
        moved = _pair_moves(ours, theirs)
        reordered += _reorderings(ours, theirs, moved)
        ours = ours.at(moved.left_source)
    return ours, reordered


def _pair_moves(ours: Unmatched, theirs: Unmatched) -> _Moved:
    """Pairs unmatched records of equal digests, those of the same gap first."""
    i, j = _equal(ours, theirs)
    order = np.argsort(i)
    i, j = i[order], j[order]
    near = ours.gaps[i] == theirs.gaps[j]
    in_order = np.flatnonzero(near)[longest_ascending(j[near])]
    is_reordered = all_but(in_order, len(i))
    return _Moved(
        i[is_reordered],
        j[is_reordered],
        all_but(i, len(ours)),
        all_but(j, len(theirs)),
        len(in_order),
    )


def _equal(ours: Unmatched, theirs: Unmatched) -> tuple[Integers, Integers]:
    """Places of unmatched records with equal digests, each place once."""
    i = np.flatnonzero(np.isin(ours.entries.digests, theirs.entries.digests))
    j = np.flatnonzero(np.isin(theirs.entries.digests, ours.entries.digests))
    pairs: list[tuple[int, int]] = []
    for by_gap in (True, False):
        waiting: dict[tuple[int, int], list[int]] = defaultdict(list)
        for place in j[::-1].tolist():
            waiting[_span_of(theirs, place, by_gap=by_gap)].append(place)
        here: list[int] = []
        for place in i.tolist():
            if same := waiting.get(_span_of(ours, place, by_gap=by_gap)):
                pairs.append((place, same.pop()))
            else:
                here.append(place)
        i = np.array(here, np.int64)
        j = np.array(sorted(chain.from_iterable(waiting.values())), np.int64)
    matched = np.array(pairs, np.int64).reshape(-1, 2)
    return matched[:, 0], matched[:, 1]


def _span_of(unmatched: Unmatched, place: int, *, by_gap: bool) -> tuple[int, int]:
    return int(unmatched.entries.digests[place]), int(unmatched.gaps[place]) if by_gap else 0


def _find_doubles(
    source: AuditedLog, target: AuditedLog, theirs: Unmatched, state: WalkState
) -> tuple[Booleans, Integers]:
    """Which target records have a copy elsewhere, and the offsets of their records on the source."""
    wanted = theirs.entries.digests
    is_double, origins = locate_first(chunks(source, source.since), wanted)
    if state.head_records and not is_double.all():
        # The source has deleted these; the target may have them twice nevertheless.
        head = chunks(target, target.since, state.head_end)
        again, _ = locate_first(head, wanted[~is_double])
        is_double[np.flatnonzero(~is_double)[again]] = True
    return is_double, origins


def _is_pending(ours: Unmatched, state: WalkState, recent: Times | None) -> Booleans:
    is_last: Booleans = ours.gaps == state.passed
    return is_last & ours.entries.have_time_in(recent)
