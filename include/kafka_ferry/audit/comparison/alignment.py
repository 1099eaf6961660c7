"""Which records of two windows of digests are the same, in order. Pure.

As in a patience diff: digests that occur once on both sides are anchors, of which the longest ascending
sequence counts. Between two anchors, equal digests are paired by their number of occurrence. What is left
over is missing, foreign, altered or elsewhere, which ``unmatched`` decides.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque

import numpy as np

from kafka_ferry.audit.comparison.entries import Hashes, Integers

Pairs = tuple[Integers, Integers]
"""Places on the source and on the target, both strictly ascending."""


def align(source: Hashes, target: Hashes) -> Pairs:
    """The places of equal digests in two windows, as many as can be found in the same order."""
    anchors = _anchors(source, target)
    between = _between(source, target, anchors)
    i = np.concatenate([anchors[0], between[0]])
    order = np.argsort(i)
    return i[order], np.concatenate([anchors[1], between[1]])[order]


def equal_prefix(source: Hashes, target: Hashes) -> int:
    """How many digests are equal from the start on."""
    count = min(len(source), len(target))
    differing = np.flatnonzero(source[:count] != target[:count])
    return int(differing[0]) if len(differing) else count


def longest_ascending(values: Integers) -> Integers:
    """The places of a longest strictly ascending subsequence; the values differ from each other."""
    if not len(values) or (np.diff(values) > 0).all():
        return np.arange(len(values))
    tails: list[int] = []
    places: list[int] = []
    before = np.full(len(values), -1, np.int64)
    for place, value in enumerate(values.tolist()):
        length = bisect_left(tails, value)
        if length:
            before[place] = places[length - 1]
        if length == len(tails):
            tails.append(value)
            places.append(place)
        else:
            tails[length], places[length] = value, place
    kept = np.empty(len(tails), np.int64)
    place = places[-1]
    for at in range(len(tails) - 1, -1, -1):
        kept[at] = place
        place = int(before[place])
    return kept


def _anchors(source: Hashes, target: Hashes) -> Pairs:
    ours, at_source = _once(source)
    theirs, at_target = _once(target)
    _, x, y = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    i, j = at_source[x], at_target[y]
    order = np.argsort(i)
    i, j = i[order], j[order]
    kept = longest_ascending(j)
    return i[kept], j[kept]


def _once(digests: Hashes) -> tuple[Hashes, Integers]:
    unique, first, counts = np.unique(digests, return_index=True, return_counts=True)
    once = counts == 1
    return unique[once], first[once]


def _between(source: Hashes, target: Hashes, anchors: Pairs) -> Pairs:
    """Pairs of digests that occur several times, each between the same two anchors on both sides."""
    ours = np.setdiff1d(np.arange(len(source)), anchors[0], assume_unique=True)
    theirs = np.setdiff1d(np.arange(len(target)), anchors[1], assume_unique=True)
    ours = ours[np.isin(source[ours], target[theirs])]
    theirs = theirs[np.isin(target[theirs], source[ours])]
    waiting: dict[tuple[int, int], deque[int]] = defaultdict(deque)
    segments = np.searchsorted(anchors[1], theirs)
    for place, key in zip(
        theirs.tolist(), zip(segments.tolist(), target[theirs].tolist(), strict=True), strict=True
    ):
        waiting[key].append(place)
    pairs: list[tuple[int, int]] = []
    segments = np.searchsorted(anchors[0], ours)
    for place, key in zip(
        ours.tolist(), zip(segments.tolist(), source[ours].tolist(), strict=True), strict=True
    ):
        if same := waiting.get(key):
            pairs.append((place, same.popleft()))
    matched = np.array(pairs, np.int64).reshape(-1, 2)
    kept = longest_ascending(matched[:, 1])
    return matched[kept, 0], matched[kept, 1]
