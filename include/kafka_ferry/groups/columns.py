"""The known part of one flow's ranges, and the arithmetic over runs of offsets. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafka_ferry.ledger.queries.range_columns import Offsets, RangeColumns

FOREVER: Final = 2**63 - 1
"""After every offset."""


class Runs(NamedTuple):
    """Consecutive offsets: ``start + i`` is ``image + i`` on the other side, for each ``i`` below ``length``."""

    start: Offsets
    image: Offsets
    length: Offsets

    def reverse(self) -> Runs:
        """The runs, seen from the other side."""
        return Runs(self.image, self.start, self.length)

    def where(self, wanted: npt.NDArray[np.bool_]) -> Runs:
        """Some of them."""
        return Runs(self.start[wanted], self.image[wanted], self.length[wanted])

    def join(self, other: Runs) -> Runs:
        """These and the others."""
        if not other.start.size:
            return self
        return Runs(*map(np.concatenate, zip(self, other, strict=True)))

    def image_from(self, offset: int) -> Runs:
        """Their parts whose images are at ``offset`` or after it."""
        before = np.clip(offset - self.image, 0, self.length)
        parts = Runs(self.start + before, self.image + before, self.length - before)
        return parts.where(parts.length > 0)

    @property
    def first(self) -> int:
        """The lowest offset, ``FOREVER`` if there is none."""
        return int(self.start.min()) if self.start.size else FOREVER

    @property
    def end(self) -> int:
        """The offset after the highest one, 0 if there is none."""
        return int((self.start + self.length).max()) if self.start.size else 0


class History(NamedTuple):
    """The known part of one flow's ranges.

    Attributes:
        exists: whether there is any range.
        start: the first offset that a range accounts for.
        end: the offset after the last one.
        holes: the intervals between that are not fully accounted for; between a backfill's ranges
            nothing was copied, which is known.
        left: the offsets after ``end`` that existed only in a branch that the source has lost: a group
            that has committed one of them has read nothing of what replaced it.
        kept: the records that the source's log still has as they were copied.
        written: all that were written, including those of branches that the source has lost.
        ranges: its input.
    """

    exists: bool
    start: int
    end: int
    holes: list[tuple[int, int]]
    left: tuple[int, int]
    kept: Runs
    written: Runs
    ranges: RangeColumns

    @classmethod
    def of(cls, ranges: RangeColumns) -> History:
        """Derives it from ``ranges``."""
        written = kept = Runs(ranges.source, ranges.target, ranges.records)
        if not ranges.start.size:
            return cls(False, FOREVER, 0, [], (0, 0), kept, written, ranges)
        starts, ends = ranges.start, ranges.end
        left_from = int(ranges.rewound_from.max())
        if left_from >= 0:
            # What was copied before a rewind counts up to where the log was set back to.
            cuts = np.where(ranges.rewound_from >= 0, ranges.start, FOREVER)
            valid_to = np.append(least_from(cuts)[1:], FOREVER)
            starts, ends = np.minimum(starts, valid_to), np.minimum(ends, valid_to)
            valid = np.repeat(valid_to, ranges.lengths) - written.start
            kept = written._replace(length=np.clip(valid, 0, written.length))
            kept = kept.where(kept.length > 0)
        begun, end = int(starts.min()), int(ends.max())
        holes = [
            (max(begun, kept.where(kept.start < first).end), last)
            for first, last in gaps(*ranges.ordinary(starts, ends))
        ]
        return cls(True, begun, end, holes, (end + 1, left_from + 1), kept, written, ranges)

    def around(self, hole: tuple[int, int]) -> tuple[int, int]:
        """The offsets on the other side between what was copied before and after a hole."""
        before, after = self.kept.start < hole[0], self.kept.start >= hole[1]
        return self.kept.where(before).reverse().end, self.kept.where(after).reverse().first


def gaps(starts: Offsets, ends: Offsets) -> list[tuple[int, int]]:
    """The gaps between intervals."""
    if (starts[1:] == ends[:-1]).all():
        return []
    order = np.argsort(starts, kind="stable")
    reached = np.maximum.accumulate(ends[order])[:-1]
    following = starts[order][1:]
    return [(int(reached[at]), int(following[at])) for at in np.flatnonzero(following > reached)]


def disjoint(runs: Runs) -> Runs:
    """The runs, ascending, each offset once: with the first of its images."""
    if (runs.start[1:] < runs.start[:-1]).any():
        order = np.argsort(runs.start, kind="stable")
        runs = Runs(*(column[order] for column in runs))
    ends = runs.start + runs.length
    if not (runs.start[1:] < ends[:-1]).any():
        return runs
    # Split wherever one of them starts or ends: then pieces are equal or disjoint.
    edges = np.unique(np.concatenate((runs.start, ends)))
    first, last = edges.searchsorted(runs.start), edges.searchsorted(ends)
    owner = np.repeat(np.arange(runs.start.size), last - first)
    before = np.cumsum(last - first) - (last - first)
    at = np.arange(owner.size) - before[owner] + first[owner]
    image = runs.image[owner] + edges[at] - runs.start[owner]
    order = np.lexsort((image, at))
    at, image = at[order], image[order]
    single = np.append(True, at[1:] != at[:-1])
    at, image = at[single], image[single]
    return Runs(edges[at], image, edges[at + 1] - edges[at])


def least_from(numbers: Offsets) -> Offsets:
    """For each index, the minimum from there on."""
    return np.minimum.accumulate(numbers[::-1])[::-1]


def marker_offsets(ranges: RangeColumns) -> Offsets:
    """1 for each segment that is certainly followed by its transaction's marker, else 0.

    A range is a transaction's part: a single offset before the next range is the marker. Records that
    another mirror had written, which a takeover has found, may end without a marker.
    """
    number = np.repeat(np.arange(ranges.lengths.size), ranges.lengths)
    ends = ranges.target + ranges.records
    follows = (ranges.target[1:] == ends[:-1] + 1) & (number[1:] != number[:-1])
    follows &= ranges.batches[number[:-1]] > 0
    return np.append(follows, np.zeros(min(1, ends.size))).astype(np.int64)
