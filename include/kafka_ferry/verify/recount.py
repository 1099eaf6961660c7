"""The independent read: what the target really holds of the ranges in the ledger.

Headers count the records, and the digest is of the bytes in the target's log. All it knows about the writer
is what the ledger claims. Partitions with preserved offsets are checked by ``verify.recount_by_offset``, offset
by offset; this module is for translated offsets.

Batches of another mirror, from which a range was taken over, may hold records of several ranges, and
duplicates that belong to none. They are counted by offset too; the digest is of those that lie in one segment.
Only if such a batch has gaps, as log compaction leaves them, it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from kafka_ferry.batches import Batch, BatchHeader, RangeDigest
from kafka_ferry.config import Cluster
from kafka_ferry.errors import FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.verify.claim import RangeClaim, ReadUntil
from kafka_ferry.verify.recount_by_offset import (
    fetch_bytes,
    record_spans,
    recount_by_offset,
    within,
)
from kafka_ferry.verify.recount_result import PartitionRecount, Recount, Stranger, strangers_of
from kafka_ferry.wire import WireCluster, connect
from kafka_ferry.wire.partitions.fetch import corrupt_in
from kafka_ferry.wire.partitions.held_back import wait_for_shown
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
        return strangers_of(self.offsets)


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
        # One across the boundary is none of the flow's, whose batches end there; nor has a cleaner put it there.
        if header.next_offset > end:
            self.foreign.add(header)
            self.overwritten += 1
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
    return _recounts(target, partitions, recount)


def recount_each(
    target: Cluster, partitions: Asked
) -> list[tuple[TopicPartition, PartitionRecount]]:
    """``recount`` of each partition by itself: one that cannot be read, such as without READ, stops no other.

    Raises:
        FerryError: as ``recount``, if it passes by itself.
    """
    return _recounts(target, partitions, recount_or_reason)


def _recounts(
    target: Cluster, partitions: Asked, count: Callable[..., PartitionRecount]
) -> list[tuple[TopicPartition, PartitionRecount]]:
    """Each partition's recount; again where its leader was none, or an open transaction had hidden some records."""
    with connect(target) as cluster:
        leaders = retry(lambda: cluster.recent_leaders(tp for tp, _, _ in partitions))
        results = {tp: count(cluster, tp, claims, until) for tp, claims, until in partitions}
        lacking = [tp for tp, claims, _ in partitions if _lacks_records(results[tp], claims)]
        # A broker that is cut off from the others answers as if it led still.
        now = retry(lambda: cluster.leaders(lacking)) if lacking else {}
        for tp, claims, until in partitions:
            if tp in now and now[tp] != leaders[tp]:
                results[tp] = count(cluster, tp, claims, until)
        ends = {
            tp: max(claim.target_end for claim in claims)
            for tp, claims, _ in partitions
            if any(it.uncleaned for it in results[tp].ranges)
            and not any(claim.preserved for claim in claims)
        }
        shown = wait_for_shown(cluster, ends) if ends else ()
        for tp, claims, until in partitions:
            if tp in shown:
                results[tp] = count(cluster, tp, claims, until)
    return list(results.items())


def _lacks_records(result: PartitionRecount, claims: Sequence[RangeClaim]) -> bool:
    """Whether some of what the ledger claims was not found, and has not expired."""
    return any(
        it.records + it.expired < sum(segment.records for segment in claim.segments)
        for it, claim in zip(result.ranges, claims, strict=True)
    )


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
    with corrupt_in(partition, cluster.alias):
        # The log's start or leader may move while it is read: then it is read again.
        if any(claim.preserved for claim in claims):
            return retry(lambda: recount_by_offset(cluster, partition, claims, until))
        if not stretches:
            return PartitionRecount(tuple(_Counted().result() for _ in claims), 0)
        return retry(lambda: _recount(cluster, partition, claims, stretches, until))


def _recount(
    cluster: WireCluster,
    partition: TopicPartition,
    claims: Sequence[RangeClaim],
    stretches: Sequence[_Stretch],
    until: ReadUntil | None,
) -> PartitionRecount:
    log = partition_log(cluster, partition)
    counting = _Counting(claims, stretches, log.start)
    ends = [log.end]
    start = max(stretches[0].start, log.start)
    for batch, is_aborted in ended_batches(
        cluster, log, start, max_bytes=fetch_bytes(until), on_end=ends.append
    ):
        if until and batch.header.base_offset >= until.end:
            break
        counting.add(batch, is_aborted=is_aborted)
    return counting.result(min(ends))


class _Counting:
    """Counts the batches of a log, in order, by the ranges that the ledger claims of it.

    Args:
        claims: the ranges.
        stretches: where their records are, ascending.
        first: the log's start.
    """

    def __init__(
        self, claims: Sequence[RangeClaim], stretches: Sequence[_Stretch], first: int
    ) -> None:
        self._claims, self._stretches, self._first = claims, stretches, first
        self._counted = [_Counted() for _ in claims]
        self._compared = [span for claim in claims for span in claim.compared]
        self._beyond = _Foreign()
        # Of the first stretch that does not end before the batch.
        self._at = 0
        self._epoch = -1

    def add(self, batch: Batch, *, is_aborted: bool) -> None:
        """Count the next batch."""
        header, stretches = batch.header, self._stretches
        base = header.base_offset
        if base < stretches[-1].end:
            self._epoch = header.leader_epoch
        while self._at < len(stretches) and stretches[self._at].end <= base:
            self._at += 1
        following = stretches[self._at] if self._at < len(stretches) else None
        if is_aborted or header.is_control:
            self._overwrite(header)
        elif following and self._add_to(following, batch):
            pass
        elif not any(begin <= base < end for begin, end in self._compared):
            foreign = self._counted[following.range].foreign if following else self._beyond
            foreign.add(header)

    def _add_to(self, stretch: _Stretch, batch: Batch) -> bool:
        """Count a batch of a stretch's range, or one in its place; False where it is neither."""
        header, claim = batch.header, self._claims[stretch.range]
        counts = self._counted[stretch.range]
        if claim.is_boundary and header.next_offset > stretch.start:
            counts.add_boundary(header, stretch.end)
        elif claim.is_adopted:
            self._add_of_another(batch)
        elif _is_of_another(header, claim, stretch):
            counts.foreign.add(header)
            self._overwrite(header)
        elif stretch.start <= header.base_offset:
            # Brokers return whole batches, including the one in which the log starts.
            before = max(self._first - header.base_offset, 0)
            counts.records += header.records - min(before, header.records)
            counts.rewritten += header.has_delete_horizon
            counts.digest.add(batch)
        else:
            return False
        return True

    def _add_of_another(self, batch: Batch) -> None:
        """Count a batch of another mirror in each of the stretches that hold its records."""
        header, spans = batch.header, record_spans(batch, self._first)
        for start, end, number in islice(self._stretches, self._at, None):
            if start >= header.next_offset:
                break
            is_whole = start <= header.base_offset and header.next_offset <= end
            self._counted[number].add_of_another(
                batch, within(spans, (start, end)), is_whole=is_whole
            )

    def _overwrite(self, header: BatchHeader) -> None:
        """Count the offsets of ours that a batch has taken: the log was truncated before."""
        for start, end, number in islice(self._stretches, self._at, None):
            if start >= header.next_offset:
                break
            overlap = min(end, header.next_offset) - max(start, header.base_offset)
            self._counted[number].overwritten += max(0, overlap)

    def result(self, end: int) -> PartitionRecount:
        """What was counted, of a log that ends at ``end``."""
        return PartitionRecount(
            tuple(
                counts.result(claim.count_expired(self._first), claim.beyond(end), self._first)
                for counts, claim in zip(self._counted, self._claims, strict=True)
            ),
            self._beyond.records,
            epoch=self._epoch,
            strangers=self._beyond.strangers,
        )


def _is_of_another(header: BatchHeader, claim: RangeClaim, stretch: _Stretch) -> bool:
    """Whether a batch lies where a range's records were, and another producer has written it."""
    overlaps = max(stretch.start, header.base_offset) < min(stretch.end, header.next_offset)
    return overlaps and claim.producer_id not in (None, header.producer_id)
