"""The result of aligning a target with its source: equal records, as segments. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kafka_ferry.batches import Segment
from kafka_ferry.groups.alignment.record_digests import LogRecords


class Misaligned(ValueError):
    """The target's records are not the source's; the message names them, without the partition."""


@dataclass(frozen=True)
class Alignment:
    """The result for a partition.

    Attributes:
        start: the first source offset that is accounted for.
        end: the source offset to continue with.
        segments: which record is which, ascending in both offsets.
        records: the number of these records.
        doubled: duplicates that the other mirror has written.
        unknown: records of the target that the source no longer has, and that cannot be compared.
        skipped: source offsets of ``[start, end)`` with a record that is not on the target: it was
            compacted there, or belongs to an aborted transaction.
        aborted: how many of ``skipped`` are of aborted transactions.
        unkeyed: how many have no key: the target's cleaner removes such records, and nothing tells whether it has.
        leader_epoch: the source's, of the last record before ``end``; -1 where there is none.
        is_compared: False where no record was left to compare, so that only the mirror's position says
            where to continue.
    """

    start: int
    end: int
    segments: tuple[Segment, ...] = ()
    records: int = 0
    doubled: int = 0
    unknown: int = 0
    skipped: int = 0
    aborted: int = 0
    unkeyed: int = 0
    leader_epoch: int = -1
    is_compared: bool = True


class AlignedRun(NamedTuple):
    """Consecutive records that are the same on both sides.

    Attributes:
        place: the index of the first one on the source.
        at: its index on the target.
        records: how many records it has.
    """

    place: int
    at: int
    records: int

    def after(self, place: int) -> AlignedRun:
        """The part of it from a source index on."""
        less = max(0, place - self.place)
        return AlignedRun(self.place + less, self.at + less, self.records - less)

    def before(self, place: int) -> AlignedRun:
        """The part of it before a source index."""
        return self._replace(records=min(self.records, place - self.place))


def segments_of(
    runs: Iterable[AlignedRun], source: LogRecords, target: LogRecords
) -> tuple[Segment, ...]:
    """The offsets of runs, which ascend on both sides, in as few segments as possible."""
    segments: list[Segment] = []
    for place, at, count in runs:
        sources = source.offsets[place : place + count]
        targets = target.offsets[at : at + count]
        breaks = np.flatnonzero((np.diff(sources) != 1) | (np.diff(targets) != 1)) + 1
        for begin, end in pairwise([0, *breaks.tolist(), count]):
            _add(segments, Segment(int(sources[begin]), int(targets[begin]), end - begin))
    return tuple(segments)


def _add(segments: list[Segment], here: Segment) -> None:
    last = segments[-1] if segments else None
    if (
        last
        and last.source + last.records == here.source
        and last.target + last.records == here.target
    ):
        segments[-1] = last._replace(records=last.records + here.records)
    else:
        segments.append(here)
