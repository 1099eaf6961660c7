"""The offset map: which source offset became which target offset, as runs.

::

    source   0 1 2 3 4 . . 7 8        (5 and 6: an aborted transaction)
    target  10 11 12 13 14   15 16
    segments (0, 10, 5), (7, 15, 2)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple


class Segment(NamedTuple):
    """``records`` consecutive records: source offset ``source + i`` is target offset ``target + i``."""

    source: int
    target: int
    records: int

    @property
    def last_source(self) -> int:
        """The source offset of the last record."""
        return self.source + self.records - 1

    @property
    def last_target(self) -> int:
        """The target offset of the last record."""
        return self.target + self.records - 1

    def within(self, start: int, end: int) -> Segment | None:
        """The part of it that is of the source offsets ``[start, end)``; None where there is none."""
        first, last = max(self.source, start), min(self.source + self.records, end)
        if first >= last:
            return None
        return Segment(first, self.target + first - self.source, last - first)


class SegmentList(list[Segment]):
    """Segments in order, each as long as possible."""

    def add(self, runs: Iterable[tuple[int, int]], base_offset: int) -> None:
        """Append a batch that the target stored at ``base_offset``.

        Args:
            runs: the source offsets of its records, ``(first offset, count)``, ascending.
            base_offset: the target offset of its first record.
        """
        for source, count in runs:
            last = self[-1] if self else None
            if (
                last
                and last.source + last.records == source
                and last.target + last.records == base_offset
            ):
                self[-1] = last._replace(records=last.records + count)
            else:
                self.append(Segment(source, base_offset, count))
            base_offset += count


def without_overlaps(segments: Iterable[Segment], end: int | None = None) -> Iterator[Segment]:
    """The segments by their source offsets, each offset once, up to ``end``."""
    start = 0
    for segment in sorted(segments):
        last = segment.source + segment.records
        if part := segment.within(start, last if end is None else min(end, last)):
            yield part
            start = last


def first_lost(segments: Sequence[Segment], has: Callable[[int, int], bool | None]) -> int | None:
    """The first source offset whose record the source has no longer, where it lacks the last one.

    A log that has a record has all that was there before it. None where nothing tells of one that is asked for.

    Args:
        segments: what was copied, at least one record, ascending on the source.
        has: whether the source has the record of an offset, which was copied to another one; None where nothing tells.
    """
    ends = list(accumulate(segment.records for segment in segments))

    def place(at: int) -> tuple[int, int]:
        segment = segments[number := bisect_right(ends, at)]
        skipped = at - (ends[number] - segment.records)
        return segment.source + skipped, segment.target + skipped

    first, last = 0, ends[-1] - 1
    while first < last:
        at = (first + last) // 2
        known = has(*place(at))
        if known is None:
            return None
        first, last = (at + 1, last) if known else (first, at)
    return place(first)[0]
