"""What was read back of a partition; and what of that still stands once the start of its log has moved. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final, NamedTuple

from kafka_ferry.verify.claim import RangeClaim


class Stranger(NamedTuple):
    """Another producer's records in a log that is the flow's.

    Attributes:
        producer_id: the producer's, -1 where it has none: it is not idempotent.
        offset: that of the first record of it that was seen, on the target.
    """

    producer_id: int
    offset: int


_NO_STRANGER: Final = Stranger(-1, -1)


def first_stranger(strangers: Iterable[Stranger]) -> Stranger:
    """The one whose record comes first; without any, one whose id and offset are -1."""
    return min(strangers, key=attrgetter("offset"), default=_NO_STRANGER)


def strangers_of(first_offsets: Mapping[int, int]) -> tuple[Stranger, ...]:
    """Producers, by the ids of each and the offset of its first record."""
    return tuple(Stranger(*producer) for producer in first_offsets.items())


@dataclass(frozen=True, slots=True)
class Recount:
    """What an independent read of the target found for a range of the ledger.

    Attributes:
        records: records of ours, counted from the headers of their batches.
        digest: of these batches (``RangeDigest``).
        foreign: data records between ours that are not ours.
        expired: records of ours that are below the target's log start now.
        rewritten: batches of ours that the target's log cleaner has rewritten, with all their
            records, to store until when it keeps their tombstones (KIP-534).
        across: batches of ours that reach beyond the range; ``digest`` excludes them.
        uncleaned: records of ours that no cleaner has removed: they would be at or after the last stable offset of the
            target's log (``LogCleanerManager.cleanableOffsets``), or where an aborted record, a marker or a batch of
            another producer is now.
        log_start: the first offset of the target's log when it was read.
        strangers: some producers of ``foreign``, by their first offsets.
        writer: the producer of the record that a boundary claims (``RangeClaim.boundary``); None where it is not there.
    """

    records: int
    digest: str
    foreign: int = 0
    expired: int = 0
    rewritten: int = 0
    across: int = 0
    uncleaned: int = 0
    log_start: int = 0
    strangers: tuple[Stranger, ...] = ()
    writer: int | None = None


class PartitionRecount(NamedTuple):
    """What was found in one target partition.

    Attributes:
        ranges: a recount for each range, in the order given.
        beyond: data records after the last range, which should not exist.
        uncommitted: records after the last range, of an attempt that was interrupted before the
            ledger had them: the next run adopts them. Only where offsets are preserved; elsewhere
            they are in a transaction that was aborted.
        before: data records before the first range, if a mirror with preserved offsets begins there.
        unread: why the partition could not be read, "" if it was: the numbers say nothing then.
        epoch: the leader epoch of the last batch before the end of the ranges, -1 where none is known.
        strangers: some producers of ``beyond``.
    """

    ranges: tuple[Recount, ...]
    beyond: int
    uncommitted: int = 0
    before: int = 0
    unread: str = ""
    epoch: int = -1
    strangers: tuple[Stranger, ...] = ()

    @classmethod
    def of_unread(cls, ranges: int, why: str) -> PartitionRecount:
        """The recount of a partition that could not be read: it says nothing of any of its ranges."""
        return cls((Recount(0, ""),) * ranges, 0, unread=why)


def as_of(
    log_start: int, claims: Sequence[RangeClaim], recount: PartitionRecount
) -> PartitionRecount:
    """The recount without the records that have expired since the partition was read.

    A record that was missing when it was read stays missing.

    Args:
        log_start: the first offset of the log now.
        claims: what the ledger claims of each range.
        recount: what was read back of them, in the same order.
    """
    ranges = tuple(
        _without(claim.count_expired(log_start), range_recount)
        for claim, range_recount in zip(claims, recount.ranges, strict=True)
    )
    return recount._replace(ranges=ranges)


def _without(expired: int, recount: Recount) -> Recount:
    since = max(0, expired - recount.expired)
    return replace(
        recount, records=max(0, recount.records - since), expired=max(expired, recount.expired)
    )
