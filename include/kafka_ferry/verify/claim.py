"""The ledger's claims on a range, as far as an independent read of the target can check them."""

from __future__ import annotations

from typing import NamedTuple

from kafka_ferry.batches import Segment
from kafka_ferry.ledger import CopiedRange


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
        producer_id: of the producer that wrote them; None where the ledger names none.
        is_first: whether a mirror with preserved offsets begins with it, so that no record may be
            before it.
    """

    segments: tuple[Segment, ...]
    start: int
    end: int
    preserved: bool = False
    producer_id: int | None = None
    is_first: bool = False

    @classmethod
    def of(cls, copied: CopiedRange, *, is_first: bool = False) -> RangeClaim:
        """The claim of the ledger's entry ``copied``."""
        return cls(
            copied.segments,
            copied.start,
            copied.end,
            copied.preserved,
            copied.producer.producer_id if copied.producer else None,
            is_first,
        )

    @classmethod
    def boundary(cls, offset: int) -> RangeClaim:
        """A claim to nothing, at the *target* offset from which on a partition is to be read.

        What lies between there and the first record that is claimed is foreign.
        """
        return cls((Segment(0, offset, 0),), 0, 0)

    @property
    def is_boundary(self) -> bool:
        """Whether it only says from where on to read."""
        return bool(self.segments) and not any(segment.records for segment in self.segments)

    @property
    def target_end(self) -> int:
        """The offset on the target after its last record; with preserved offsets, after the range."""
        if self.preserved:
            return self.end
        return max((target + records for _, target, records in self.segments), default=0)

    def beyond(self, log_end: int) -> int:
        """How many of the records would be at or after ``log_end`` on the target."""
        return sum(
            min(max(target + records - log_end, 0), records) for _, target, records in self.segments
        )

    def expired(self, log_start: int) -> int:
        """How many of the records are below ``log_start`` on the target."""
        return sum(min(max(log_start - target, 0), records) for _, target, records in self.segments)
