"""Pairs records that are the same but for some of their parts. Pure.

Records are only compared with those of the same gap, between the same neighbours. Which parts are equal
decides, and the more of them the better: a record whose value alone differs is found before one of which only
the timestamp is the same. A null key or value is no evidence by itself.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from kafka_ferry.audit.comparison.entries import (
    AuditedLog,
    Booleans,
    Integers,
    RecordParts,
    Unmatched,
)

AT_ONCE: Final = 50_000
"""How many records of a side are looked at in parts at a time, some 60 MB."""
_PARTS: Final = ("key", "value", "headers", "timestamp")
# Which parts are equal, the strongest evidence first; what is not named is altered.
_WITH_TIME: Final = (
    ("value", "headers", "timestamp"),
    ("key", "headers", "timestamp"),
    ("key", "value", "timestamp"),
    ("key", "value", "headers"),
    ("key", "timestamp"),
    ("value", "timestamp"),
    ("key", "value"),
    ("timestamp",),
    ("value",),
)
_WITHOUT_TIME: Final = (
    ("key", "value"),
    ("value", "headers"),
    ("key", "headers"),
    ("value",),
)


class Alteration(NamedTuple):
    """A record that differs in parts.

    Attributes:
        source: its place among the source's unmatched records.
        target: its place among the target's.
        what: the parts that differ.
    """

    source: int
    target: int
    what: tuple[str, ...]


def alterations(
    source: AuditedLog,
    target: AuditedLog,
    ours: Unmatched,
    theirs: Unmatched,
    *,
    times: bool,
) -> list[Alteration]:
    """Which of the unmatched records of both sides are the same but for some parts.

    Reads the records of gaps with unmatched records on both sides again.

    Args:
        source: the source's log.
        target: the target's log.
        ours: the source's unmatched records.
        theirs: the target's.
        times: whether timestamps are compared.
    """
    i = np.flatnonzero(np.isin(ours.gaps, theirs.gaps))
    j = np.flatnonzero(np.isin(theirs.gaps, ours.gaps))
    results: list[Alteration] = []
    for our_slice, their_slice in _slices(ours.gaps[i], theirs.gaps[j]):
        results += _alterations(
            source, target, (ours, i[our_slice]), (theirs, j[their_slice]), times=times
        )
    return results


def _slices(ours: Integers, theirs: Integers) -> Iterator[tuple[slice, slice]]:
    """Places of both sides, some gaps at a time; a gap with more records than that is divided by their order."""
    at = other = 0
    while at < len(ours) and other < len(theirs):
        end, other_end = min(at + AT_ONCE, len(ours)), min(other + AT_ONCE, len(theirs))
        # The last gap that is whole on both sides.
        last = min(ours[end - 1], theirs[other_end - 1])
        if end < len(ours) or other_end < len(theirs):
            whole = int(np.searchsorted(ours, last)), int(np.searchsorted(theirs, last))
            if whole[0] > at and whole[1] > other:
                end, other_end = whole
        yield slice(at, end), slice(other, other_end)
        at, other = end, other_end


def _alterations(
    source: AuditedLog,
    target: AuditedLog,
    ours: tuple[Unmatched, Integers],
    theirs: tuple[Unmatched, Integers],
    *,
    times: bool,
) -> list[Alteration]:
    """The alterations among some of the unmatched records, by their places."""
    (all_ours, i), (all_theirs, j) = ours, theirs
    source_parts = source.parts(all_ours.entries.offsets[i])
    target_parts = target.parts(all_theirs.entries.offsets[j])
    gaps = all_ours.gaps[i], all_theirs.gaps[j]
    left = _Left(np.ones(len(i), np.bool_), np.ones(len(j), np.bool_))
    compared = _PARTS if times else _PARTS[:-1]
    results = [
        Alteration(int(i[a]), int(j[b]), source_parts.differences(a, target_parts, b, compared))
        for equal in (_WITH_TIME if times else _WITHOUT_TIME)
        for a, b in _pairs(source_parts, target_parts, *gaps, equal, left)
    ]
    return sorted(results)


class _Left(NamedTuple):
    ours: Booleans
    theirs: Booleans


def _pairs(
    source_parts: RecordParts,
    target_parts: RecordParts,
    source_gaps: Integers,
    target_gaps: Integers,
    equal: tuple[str, ...],
    left: _Left,
) -> Iterator[tuple[int, int]]:
    """Pairs in order of those that are left and whose parts ``equal`` are the same; they are left no longer."""
    waiting: dict[tuple[int, ...], deque[int]] = defaultdict(deque)
    for place, known in _keys(target_parts, target_gaps, equal, left.theirs):
        waiting[known].append(place)
    for place, known in _keys(source_parts, source_gaps, equal, left.ours):
        if same := waiting.get(known):
            other = same.popleft()
            left.ours[place] = left.theirs[other] = False
            yield place, other


def _keys(
    parts: RecordParts, gaps: Integers, equal: tuple[str, ...], left: Booleans
) -> Iterator[tuple[int, tuple[int, ...]]]:
    usable = left.copy()
    if "timestamp" not in equal:
        identifiable = np.zeros(len(left), np.bool_)
        if "key" in equal:
            identifiable |= ~parts.no_key
        if "value" in equal:
            identifiable |= ~parts.no_value
        usable &= identifiable
    places = np.flatnonzero(usable)
    columns = [gaps[places].tolist(), *(parts.column(name)[places].tolist() for name in equal)]
    return zip(places.tolist(), zip(*columns, strict=True), strict=True)
