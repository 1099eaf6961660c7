"""The independent read: what the target really holds of the ranges in the ledger.

It opens no batch: headers count the records, and the digest runs over the bytes as they lie in
the target's log. All it knows of the writer is the ledger's segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafka_ferry.batches import (
    AbortFilter,
    Batch,
    MalformedBatch,
    RangeDigest,
    Segment,
    split_batches,
)
from kafka_ferry.errors import ClusterUnreachable, CorruptBatch
from kafka_ferry.patience import patiently
from kafka_ferry.plan.ranges import TopicPartition
from kafka_ferry.verify.reconciliation import Recount
from kafka_ferry.wire import Fetched, WireCluster, fetch, log_start
from kafka_ferry.wire.faults import NONE, OFFSET_OUT_OF_RANGE, THROTTLED, fault

_FETCH_BYTES: Final = 16 * 1024 * 1024


class PartitionRecount(NamedTuple):
    """What was found in one target partition.

    Attributes:
        ranges: a recount for each range, in the order given.
        beyond: data records behind the last range: nobody should have written them.
    """

    ranges: tuple[Recount, ...]
    beyond: int


@dataclass(slots=True)
class _Counted:
    records: int = 0
    foreign: int = 0
    rewritten: int = 0
    digest: RangeDigest = field(default_factory=RangeDigest)

    def result(self, expired: int) -> Recount:
        digest = self.digest.hexdigest()
        return Recount(self.records, digest, self.foreign, expired, self.rewritten)


class _Stretch(NamedTuple):
    """Target offsets ``[start, end)`` that belong to a range."""

    start: int
    end: int
    range: int


def recount(
    cluster: WireCluster, partition: TopicPartition, ranges: Sequence[Sequence[Segment]]
) -> PartitionRecount:
    """Count and digest what a target partition holds of ranges that were copied into it.

    Args:
        cluster: the target.
        partition: the partition on the target.
        ranges: the segments of each range, the ranges in the ledger's order.

    Raises:
        CorruptBatch: if the target gives bytes that are no valid batch.
        FerryError: if the partition cannot be read for a minute.
    """
    stretches = sorted(
        _Stretch(segment.target, segment.target + segment.records, number)
        for number, segments in enumerate(ranges)
        for segment in segments
    )
    if not stretches:
        return PartitionRecount(tuple(_Counted().result(0) for _ in ranges), 0)
    # The log's start or its leader may move while it is read: then it is read again.
    return patiently(lambda: _recount(cluster, partition, ranges, stretches))


def _recount(
    cluster: WireCluster,
    partition: TopicPartition,
    ranges: Sequence[Sequence[Segment]],
    stretches: Sequence[_Stretch],
) -> PartitionRecount:
    leader = _leader(cluster, partition)
    first = log_start(cluster, leader, partition)
    counted = [_Counted() for _ in ranges]
    beyond = at = 0
    for batch in _data_batches(cluster, leader, partition, max(stretches[0].start, first)):
        base, count = batch.header.base_offset, batch.header.records
        while at < len(stretches) and stretches[at].end <= base:
            at += 1
        if at == len(stretches):
            beyond += count
        elif base < stretches[at].start:
            counted[stretches[at].range].foreign += count
        else:
            # Brokers give batches whole, also the one in which the log starts.
            mine = counted[stretches[at].range]
            mine.records += count - min(max(first - base, 0), count)
            mine.rewritten += batch.header.has_delete_horizon
            mine.digest.add(batch)
    expired = [
        sum(min(max(first - s.target, 0), s.records) for s in segments) for segments in ranges
    ]
    return PartitionRecount(
        tuple(found.result(gone) for found, gone in zip(counted, expired, strict=True)), beyond
    )


def _data_batches(
    cluster: WireCluster, leader: int, partition: TopicPartition, start: int
) -> Iterator[Batch]:
    """The committed data batches from ``start`` to the last stable offset."""
    at, before = start, -1
    while at > before:
        before = at
        fetched = _fetch(cluster, leader, partition, at)
        aborted = AbortFilter(fetched.aborted)
        try:
            for batch in split_batches(fetched.records):
                header = batch.header
                if not batch.crc_matches:
                    raise MalformedBatch(f"a batch at offset {header.base_offset} with a wrong CRC")
                is_data = not (aborted.is_aborted(batch) or header.is_control)
                if header.next_offset > at:
                    at = header.next_offset
                    if is_data:
                        yield batch
        except MalformedBatch as error:
            raise CorruptBatch(f"{partition} on {cluster.alias} holds {error}.") from error


def _fetch(cluster: WireCluster, leader: int, partition: TopicPartition, at: int) -> Fetched:
    answers = fetch(
        cluster,
        leader,
        {partition: at},
        max_bytes=_FETCH_BYTES,
        partition_max_bytes=_FETCH_BYTES,
        max_wait_ms=0,
    )
    fetched = next(answers, None)
    # A broker that throttles us answers with nothing at all.
    error = THROTTLED if fetched is None else fetched.error
    if fetched is None or error != NONE:
        doing = f"Reading {partition} on {cluster.alias} back from offset {at}"
        if error == OFFSET_OUT_OF_RANGE:
            raise ClusterUnreachable(f"{doing}: the log's start has moved on.")
        raise fault(error, doing)
    return fetched


def _leader(cluster: WireCluster, partition: TopicPartition) -> int:
    leader = cluster.leaders([partition])[partition]
    if leader.node < 0:
        raise fault(leader.error, f"Looking for the leader of {partition} on {cluster.alias}")
    return leader.node
