"""The independent read: what the target really holds of the ranges in the ledger.

Headers count the records, and the digest is of the bytes in the target's log. All it knows about the writer
is what the ledger claims. Partitions with preserved offsets are checked by ``verify.recount_by_offset``, offset
by offset; this module is for translated offsets.

Batches of another mirror, from which a range was taken over, may hold records of several ranges, and
duplicates that belong to none. They are counted by offset too; the digest is of those that lie in one segment.
Only if such a batch has gaps, as log compaction leaves them, it is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from kafka_ferry.batches import Batch, BatchHeader, MalformedBatch, RangeDigest
from kafka_ferry.config import Cluster
from kafka_ferry.errors import CorruptBatch, FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.verify.claim import RangeClaim, ReadUntil
from kafka_ferry.verify.recount_by_offset import (
    Span,
    fetch_bytes,
    record_spans,
    recount_by_offset,
    within,
)
from kafka_ferry.verify.rows import PartitionRecount, Recount, Stranger
from kafka_ferry.wire import WireCluster, connect
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import ended_batches

# Enough to find out whether any of them is the flow's own.
_MOST_STRANGERS: Final = 10


@dataclass(slots=True)
class _Foreign:
    """Records that the ledger does not have, and the first offsets of some of their producers."""

    records: int = 0
    offsets: dict[int, int] = field(default_factory=dict)

    def add(self, header: BatchHeader) -> None:
        """Add a batch."""
        self.records += header.records
        if len(self.offsets) < _MOST_STRANGERS:
            self.offsets.setdefault(header.producer_id, header.base_offset)

    @property
    def strangers(self) -> tuple[Stranger, ...]:
        """The producers."""
        return tuple(Stranger(*producer) for producer in self.offsets.items())


@dataclass(slots=True)
class _Counted:
    records: int = 0
    rewritten: int = 0
    overwritten: int = 0
    digest: RangeDigest = field(default_factory=RangeDigest)
    foreign: _Foreign = field(default_factory=_Foreign)
    writer: int | None = None

    def add_boundary(self, header: BatchHeader, end: int) -> None:
        """Add the batch that holds the last record before the ranges, which ends at ``end``."""
        # One across the boundary is none of the flow's, whose batches end there.
        if header.next_offset > end:
            self.foreign.add(header)
        else:
            self.records, self.writer = 1, header.producer_id

    def add_of_another(self, batch: Batch, inside: int, *, is_whole: bool) -> None:
        """Add a batch of another mirror, with the number of its records that are of this range."""
        self.records += inside
        self.rewritten += batch.header.has_delete_horizon
        if is_whole:
            self.digest.add(batch)

    def result(self, expired: int = 0, hidden: int = 0, log_start: int = 0) -> Recount:
        return Recount(
            self.records,
            self.digest.hexdigest(),
            self.foreign.records,
            expired,
            self.rewritten,
            uncleaned=hidden + self.overwritten,
            log_start=log_start,
            strangers=self.foreign.strangers,
            writer=self.writer,
        )


Asked = Sequence[tuple[TopicPartition, Sequence[RangeClaim], ReadUntil | None]]
"""Target partitions, each with what the ledger claims of its ranges and where to stop reading."""


class _Stretch(NamedTuple):
    """Target offsets ``[start, end)`` that belong to a range."""

    start: int
    end: int
    range: int


def recount_here(
    target: Cluster, partitions: Asked
) -> list[tuple[TopicPartition, PartitionRecount]]:
    """Recount partitions one after the other, in this process; errors as of ``recount``."""
    with connect(target) as cluster:
        retry(lambda: cluster.recent_leaders(tp for tp, _, _ in partitions))
        return [(tp, recount(cluster, tp, claims, until)) for tp, claims, until in partitions]


def recount_each(
    target: Cluster, partitions: Asked
) -> list[tuple[TopicPartition, PartitionRecount]]:
    """``recount`` of each partition by itself: one that cannot be read, such as without READ, stops no other.

    Raises:
        FerryError: as ``recount``, if it passes by itself.
    """
    with connect(target) as cluster:
        retry(lambda: cluster.recent_leaders(tp for tp, _, _ in partitions))
        return [
            (tp, recount_or_reason(cluster, tp, claims, until)) for tp, claims, until in partitions
        ]


def recount_or_reason(
    cluster: WireCluster,
    partition: TopicPartition,
    claims: Sequence[RangeClaim],
    until: ReadUntil | None = None,
) -> PartitionRecount:
    """``recount``, or why the partition cannot be read."""
    try:
        return recount(cluster, partition, claims, until)
    except FerryError as error:
        if error.transient:
            raise
        return PartitionRecount.of_unread(len(claims), str(error))


def recount(
    cluster: WireCluster,
    partition: TopicPartition,
    claims: Sequence[RangeClaim],
    until: ReadUntil | None = None,
) -> PartitionRecount:
    """Count and digest what a target partition holds of ranges that were copied into it.

    Args:
        cluster: the target.
        partition: the partition on the target.
        claims: what the ledger claims of each range, the ranges in the ledger's order.
        until: where to stop, if not at the log's end; what lies beyond is not known then.

    Raises:
        CorruptBatch: if the target returns bytes that are not a valid batch.
        FerryError: if the partition cannot be read for a minute.
    """
    stretches = sorted(
        _Stretch(segment.target, segment.target + segment.records, number)
        for number, claim in enumerate(claims)
        for segment in claim.segments
    )
    try:
        # The log's start or leader may move while it is read: then it is read again.
        if any(claim.preserved for claim in claims):
            return retry(lambda: recount_by_offset(cluster, partition, claims, until))
        if not stretches:
            return PartitionRecount(tuple(_Counted().result() for _ in claims), 0)
        return retry(lambda: _recount(cluster, partition, claims, stretches, until))
    except MalformedBatch as error:
        raise CorruptBatch(f"{partition} on {cluster.alias} holds {error}.") from error


def _recount(
    cluster: WireCluster,
    partition: TopicPartition,
    claims: Sequence[RangeClaim],
    stretches: Sequence[_Stretch],
    until: ReadUntil | None,
) -> PartitionRecount:
    log = partition_log(cluster, partition)
    first = log.start
    counted = [_Counted() for _ in claims]
    compared = [span for claim in claims for span in claim.compared]
    beyond = _Foreign()
    at = 0
    epoch = -1
    start = max(stretches[0].start, first)
    ends = [log.end]
    batches = ended_batches(cluster, log, start, max_bytes=fetch_bytes(until), on_end=ends.append)
    for batch, is_aborted in batches:
        base, count = batch.header.base_offset, batch.header.records
        if until and base >= until.end:
            break
        if base < stretches[-1].end:
            epoch = batch.header.leader_epoch
        while at < len(stretches) and stretches[at].end <= base:
            at += 1
        following = stretches[at] if at < len(stretches) else None
        if is_aborted or batch.header.is_control:
            _overwrite(batch.header, stretches, at, counted)
            continue
        if (
            following
            and claims[following.range].is_boundary
            and batch.header.next_offset > following.start
        ):
            counted[following.range].add_boundary(batch.header, following.end)
        elif following and claims[following.range].is_adopted:
            _add_of_another(batch, record_spans(batch, first), islice(stretches, at, None), counted)
        elif following and _is_of_another(batch.header, claims[following.range], following):
            counted[following.range].foreign.add(batch.header)
            _overwrite(batch.header, stretches, at, counted)
        elif following and following.start <= base:
            # Brokers return whole batches, including the one in which the log starts.
            range_counts = counted[following.range]
            range_counts.records += count - min(max(first - base, 0), count)
            range_counts.rewritten += batch.header.has_delete_horizon
            range_counts.digest.add(batch)
        elif any(begin <= base < end for begin, end in compared):
            continue
        elif following:
            counted[following.range].foreign.add(batch.header)
        else:
            beyond.add(batch.header)
    return PartitionRecount(
        tuple(
            counts.result(claim.count_expired(first), claim.beyond(min(ends)), first)
            for counts, claim in zip(counted, claims, strict=True)
        ),
        beyond.records,
        epoch=epoch,
        strangers=beyond.strangers,
    )


def _is_of_another(header: BatchHeader, claim: RangeClaim, stretch: _Stretch) -> bool:
    """Whether a batch lies where a range's records were, and another producer has written it."""
    overlaps = max(stretch.start, header.base_offset) < min(stretch.end, header.next_offset)
    return overlaps and claim.producer_id not in (None, header.producer_id)


def _overwrite(
    header: BatchHeader, stretches: Sequence[_Stretch], at: int, counted: Sequence[_Counted]
) -> None:
    """Count the offsets of ours, from ``stretches[at]`` on, that a batch has taken: the log was truncated before."""
    while at < len(stretches) and stretches[at].start < header.next_offset:
        start, end, number = stretches[at]
        overlap = min(end, header.next_offset) - max(start, header.base_offset)
        counted[number].overwritten += max(0, overlap)
        at += 1


def _add_of_another(
    batch: Batch,
    spans: Sequence[Span],
    stretches: Iterable[_Stretch],
    counted: Sequence[_Counted],
) -> None:
    """Count a batch of another mirror in each of the stretches that hold its records, at ``spans``."""
    header = batch.header
    for start, end, number in stretches:
        if start >= header.next_offset:
            break
        is_whole = start <= header.base_offset and header.next_offset <= end
        counted[number].add_of_another(batch, within(spans, (start, end)), is_whole=is_whole)
