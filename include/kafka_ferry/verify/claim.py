"""The ledger's claims on a range, as far as an independent read of the target can check them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from kafka_ferry.batches import Segment
from kafka_ferry.ledger import CopiedRange

FOR_EVER: Final = 2**62
"""After every offset."""


class ReadUntil(NamedTuple):
    """Where to stop reading a partition that is not read to its end.

    Attributes:
        end: the *target* offset after the last one to read.
        bytes: about how many bytes that is.
    """

    end: int
    bytes: int


class RangeClaim(NamedTuple):
    """One range of the ledger, without its counts and its digest.

    Attributes:
        segments: where its records are on the target.
        start: first source offset.
        end: source offset after the last one.
        preserved: whether the records kept their offsets.
        producer_id: of the producer that wrote them; None where it is not known.
        is_first: whether a mirror with preserved offsets begins with it, so that no record may be
            before it.
        is_adopted: whether another mirror has written it, whose batches may hold other records besides.
        compared: the intervals ``(start, end)`` of target offsets with records of that mirror, which need not be
            in a segment.
        is_boundary: whether it is of the last record before the ranges alone, and says from where on to read.
    """

    segments: tuple[Segment, ...]
    start: int
    end: int
    preserved: bool = False
    producer_id: int | None = None
    is_first: bool = False
    is_adopted: bool = False
    compared: tuple[tuple[int, int], ...] = ()
    is_boundary: bool = False

    @classmethod
    def of(cls, copied: CopiedRange, *, writer: int = -1, is_first: bool = False) -> RangeClaim:
        """The claim of the ledger's entry ``copied``.

        Args:
            copied: the entry.
            writer: the producer of the ledger's record, and so of all in its transaction; -1 where it is not known.
            is_first: whether a mirror with preserved offsets begins with it.
        """
        is_adopted = copied.adopted > 0 and not copied.preserved
        producer = copied.producer.producer_id if copied.producer else None
        if writer >= 0 and not (copied.preserved or is_adopted):
            producer = writer
        return cls(
            copied.segments,
            copied.start,
            copied.end,
            copied.preserved,
            producer,
            is_first,
            is_adopted,
            copied.compared,
        )

    @classmethod
    def boundary(cls, offset: int) -> RangeClaim:
        """A claim to the record before a *target* offset, from which on a partition is to be read.

        What lies between there and the first record that is claimed is foreign.
        """
        last = Segment(0, offset - 1, 1) if offset else Segment(0, 0, 0)
        return cls((last,), 0, 0, is_boundary=True)

    @property
    def target_end(self) -> int:
        """The offset on the target after its last record; with preserved offsets, after the range."""
        if self.preserved:
            return self.end
        return max((target + records for _, target, records in self.segments), default=0)

    @property
    def log_end(self) -> int:
        """Where the target's log ends at least: a marker follows what the flow has written in a transaction.

        0 for a claim to everything after an offset.
        """
        if self.end >= FOR_EVER:
            return 0
        return self.target_end + (not self.preserved and self.producer_id is not None)

    def beyond(self, log_end: int) -> int:
        """How many of the records would be at or after ``log_end`` on the target."""
        return sum(
            min(max(target + records - log_end, 0), records) for _, target, records in self.segments
        )

    def count_expired(self, log_start: int) -> int:
        """How many of the records are below ``log_start`` on the target."""
        return sum(min(max(log_start - target, 0), records) for _, target, records in self.segments)


def without_overwritten(claims: Sequence[RangeClaim]) -> list[RangeClaim]:
    """The claims of a partition without offsets that a later one claims too.

    A target's log only grows. Where the ledger has an offset twice, the log was truncated in between (an unclean
    leader election), and only the later record can be there.

    Args:
        claims: in the ledger's order.
    """
    kept = list(claims)
    spans = sorted(
        (segment.target, segment.target + segment.records)
        for claim in claims
        for segment in claim.segments
    )
    if all(before[1] <= after[0] for before, after in pairwise(spans)):
        return kept
    taken = _Spans()
    for number in range(len(claims) - 1, -1, -1):
        segments = claims[number].segments
        left = tuple(part for segment in segments for part in taken.outside(segment))
        kept[number] = claims[number]._replace(segments=left)
        taken.add(left)
    return kept


class _Spans:
    """Target offsets that are claimed, as disjoint intervals in ascending order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, segments: Sequence[Segment]) -> None:
        """Add offsets, none of which was added before."""
        for segment in segments:
            at = bisect_left(self._starts, segment.target)
            self._starts.insert(at, segment.target)
            self._ends.insert(at, segment.target + segment.records)

    def outside(self, segment: Segment) -> Iterator[Segment]:
        """The parts of a segment that are not there."""
        at, end = segment.target, segment.target + segment.records
        for number in range(bisect_right(self._ends, at), len(self._starts)):
            if self._starts[number] >= end:
                break
            if at < self._starts[number]:
                yield _part(segment, at, self._starts[number])
            at = self._ends[number]
        if at < end:
            yield _part(segment, at, end)


def _part(segment: Segment, start: int, end: int) -> Segment:
    return Segment(segment.source + start - segment.target, start, end - start)
