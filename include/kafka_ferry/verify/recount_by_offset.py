"""The independent read of a partition with preserved offsets: offset by offset.

The ledger claims which offsets of ``[start, end)`` hold a record, and which producer wrote them.
Any other record that a consumer of either isolation level sees there is foreign::

    ledger      [100 ............... 110 ...... 120)  range, its records at 100 to 107 and 110 to 119
    target      [100 ... 107] c c [110 ....... 119]   as claimed, with control records in the gap
                [100 ... 107] x c [110 ... 115] c c   x is foreign, 116 to 119 are missing
                ... 119] [120 ... 125]                after the last range: uncommitted or foreign

A batch is the partition's own if its producer is one that the ledger names for the partition and it is
not transactional: our transactions hold no data. Batches whose offsets have gaps, as log compaction
leaves them, are opened; for all others the header gives the offsets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import itemgetter
from typing import Final

from kafka_ferry.batches import Batch, RangeDigest
from kafka_ferry.batches.record_format.records import runs_of, stream_records
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.verify.claim import RangeClaim, ReadUntil
from kafka_ferry.verify.recount_result import PartitionRecount, Recount, strangers_of
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import FETCH_BYTES, stored_batches

_FOREVER: Final = 2**63
# Batches of transactions, and the rest of a batch that is cut off.
_MARGIN_BYTES: Final = 256 * 1024

Span = tuple[int, int]
"""Offsets ``[start, end)``."""


def fetch_bytes(until: ReadUntil | None) -> int:
    """How much to ask for at a time, where little is read of a partition."""
    return FETCH_BYTES if until is None else min(FETCH_BYTES, until.bytes + _MARGIN_BYTES)


def recount_by_offset(
    cluster: WireCluster,
    partition: TopicPartition,
    claims: Sequence[RangeClaim],
    until: ReadUntil | None,
) -> PartitionRecount:
    """Compare a target partition with the ledger's claims, offset by offset; arguments as of ``verify.recount``.

    Raises:
        MalformedBatch: if the target returns bytes that are not a valid batch.
        FerryError: if the partition cannot be read.
    """
    begins = any(claim.is_first for claim in claims)
    start = 0 if begins else min(claim.start for claim in claims)
    log = partition_log(cluster, partition)
    # Beyond the last stable offset too: all that a consumer of either isolation level gets.
    end = log.end if until is None else min(until.end, log.end)
    batches = stored_batches(cluster, log, max(start, log.start), end, max_bytes=fetch_bytes(until))
    return count_by_offset(claims, log.start, batches)


def count_by_offset(
    claims: Sequence[RangeClaim], log_start: int, batches: Iterable[Batch]
) -> PartitionRecount:
    """Compare a partition's batches with the ledger's claims.

    Args:
        claims: the ranges, in any order; records between ranges that do not join are not counted.
        log_start: the first offset of the log.
        batches: all batches from the first range's start on, or from the log's start on where the
            mirror begins with it; the first may begin before that. Control batches may be among
            them: no consumer sees them.

    Raises:
        MalformedBatch: if a batch that has to be opened cannot be read.
    """
    producers = {claim.producer_id for claim in claims} - {None}
    tallies = [_Tally(claim) for claim in claims]
    ascending = sorted(tallies, key=lambda tally: tally.span)
    start = min(claim.start for claim in claims) if any(claim.is_first for claim in claims) else 0
    end = max(claim.end for claim in claims)
    at = before = beyond = uncommitted = 0
    epoch = -1
    strangers: dict[int, int] = {}
    for batch in batches:
        header = batch.header
        if header.base_offset < end:
            epoch = header.leader_epoch
        while at < len(ascending) and ascending[at].span[1] <= header.base_offset:
            at += 1
        is_own = header.producer_id in producers and not header.is_transactional
        runs = [] if header.is_control else record_spans(batch, log_start)
        for tally in islice(ascending, at, None):
            if tally.span[0] >= header.next_offset:
                break
            if header.is_control:
                tally.add_control(batch)
            else:
                tally.add(batch, runs, is_own=is_own)
        before += within(runs, (0, start))
        after = within(runs, (end, _FOREVER))
        if is_own:
            uncommitted += after
        elif after:
            beyond += after
            first = max(end, header.base_offset)
            strangers.setdefault(header.producer_id, first)
    results = tuple(tally.result(log_start) for tally in tallies)
    return PartitionRecount(
        results, beyond, uncommitted, before, epoch=epoch, strangers=strangers_of(strangers)
    )


@dataclass(slots=True)
class _Tally:
    """What is found for one range."""

    claim: RangeClaim
    claimed: list[Span] = field(init=False)
    records: int = 0
    foreign: int = 0
    rewritten: int = 0
    across: int = 0
    filled: int = 0
    digest: RangeDigest = field(default_factory=RangeDigest)
    strangers: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        spans = ((target, target + records) for _, target, records in self.claim.segments)
        self.claimed = _merge(spans)

    @property
    def span(self) -> Span:
        """The range's offsets, the same on both sides."""
        return self.claim.start, self.claim.end

    def add(self, batch: Batch, runs: Sequence[Span], *, is_own: bool) -> None:
        """Count a batch some of whose offsets may lie in the range; ``runs`` hold its records."""
        header, (start, end) = batch.header, self.span
        if max(start, header.base_offset) >= min(end, header.next_offset):
            return
        inside = within(runs, self.span)
        if not is_own:
            self.foreign += inside
            if inside:
                self.strangers.setdefault(header.producer_id, max(start, header.base_offset))
            return
        claimed = sum(self._count_claimed(_clip(run, self.span)) for run in runs)
        self.records += claimed
        self.foreign += inside - claimed
        self.rewritten += header.has_delete_horizon
        if start <= header.base_offset and header.next_offset <= end:
            self.digest.add(batch)
        else:
            self.across += 1

    def add_control(self, batch: Batch) -> None:
        """Count a control batch where a record is claimed: a cleaner puts none in the place of what it removes."""
        offsets = batch.header.base_offset, batch.header.next_offset
        self.filled += self._count_claimed(_clip(offsets, self.span))

    def _count_claimed(self, run: Span) -> int:
        at = max(bisect_right(self.claimed, run[0], key=itemgetter(0)) - 1, 0)
        total = 0
        while at < len(self.claimed) and self.claimed[at][0] < run[1]:
            total += _length(_clip(run, self.claimed[at]))
            at += 1
        return total

    def result(self, log_start: int) -> Recount:
        """The recount."""
        return Recount(
            self.records,
            self.digest.hexdigest(),
            self.foreign,
            self.claim.count_expired(log_start),
            self.rewritten,
            self.across,
            uncleaned=self.filled,
            log_start=log_start,
            strangers=strangers_of(self.strangers),
        )


def record_spans(batch: Batch, log_start: int) -> list[Span]:
    """The offsets of a batch's records, without those below the log's start: brokers return whole batches.

    Raises:
        MalformedBatch: if the batch has to be opened and cannot be read.
    """
    header = batch.header
    if header.records == header.last_offset_delta + 1:
        runs = [(header.base_offset, header.next_offset)]
    else:
        parts = map(runs_of, stream_records(batch))
        runs = [(first, first + count) for first, count in chain.from_iterable(parts)]
    return [_clip(run, (log_start, _FOREVER)) for run in runs]


def _merge(spans: Iterable[Span]) -> list[Span]:
    """Sorts the claims ascending, with each offset once, even if the ledger's ranges overlap."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _clip(run: Span, span: Span) -> Span:
    return max(run[0], span[0]), min(run[1], span[1])


def _length(span: Span) -> int:
    return max(0, span[1] - span[0])


def within(runs: Iterable[Span], span: Span) -> int:
    """How many offsets of ``runs`` lie in ``span``."""
    return sum(_length(_clip(run, span)) for run in runs)
