"""The offset map: which source offset became which target offset, as runs.

::

    source   0 1 2 3 4 . . 7 8        (5 and 6: an aborted transaction)
    target  10 11 12 13 14   15 16
    segments (0, 10, 5), (7, 15, 2)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Segment(NamedTuple):
    """``records`` consecutive records: source offset ``source + i`` is target offset ``target + i``."""

    source: int
    target: int
    records: int

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
