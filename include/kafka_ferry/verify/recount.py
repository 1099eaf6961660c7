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
from kafka_ferry.errors import CorruptBatch
from kafka_ferry.patience import patiently
from kafka_ferry.plan.ranges import TopicPartition
from kafka_ferry.verify.reconciliation import Recount
from kafka_ferry.wire import Fetched, WireCluster, fetch
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
    digest: RangeDigest = field(default_factory=RangeDigest)


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
        _Stretch(segment.target, segment.target + segment.count, number)
        for number, segments in enumerate(ranges)
        for segment in segments
    )
    counted = [_Counted() for _ in ranges]
    beyond, log_start, at = 0, 0, 0
    for log_start, batch in (
        _data_batches(cluster, partition, stretches[0].start) if stretches else ()
    ):
        while at < len(stretches) and stretches[at].end <= batch.header.base_offset:
            at += 1
        if at == len(stretches):
            beyond += batch.header.count
        elif batch.header.base_offset < stretches[at].start:
            counted[stretches[at].range].foreign += batch.header.count
        else:
            mine = counted[stretches[at].range]
            mine.records += batch.header.count
            mine.digest.add(batch)
    return PartitionRecount(
        tuple(
            Recount(
                records=found.records,
                digest=found.digest.hexdigest(),
                foreign=found.foreign,
                expired=sum(min(max(log_start - s.target, 0), s.count) for s in segments),
            )
            for found, segments in zip(counted, ranges, strict=True)
        ),
        beyond,
    )


def _data_batches(
    cluster: WireCluster, partition: TopicPartition, start: int
) -> Iterator[tuple[int, Batch]]:
    """The committed data batches from ``start`` to the last stable offset, each with the log's start."""
    at = start
    while True:
        fetched = patiently(lambda: _fetch(cluster, partition, at))  # noqa: B023 - called at once
        if fetched.error == OFFSET_OUT_OF_RANGE and at < fetched.log_start:
            at = fetched.log_start
            continue
        aborted = AbortFilter(fetched.aborted)
        before = at
        try:
            for batch in split_batches(fetched.records):
                if not batch.crc_matches:
                    raise MalformedBatch(
                        f"a batch at offset {batch.header.base_offset} with a wrong CRC"
                    )
                is_aborted = aborted.is_aborted(batch)
                if batch.header.next_offset > at:
                    at = batch.header.next_offset
                    if not (is_aborted or batch.header.is_control or batch.header.count == 0):
                        yield fetched.log_start, batch
        except MalformedBatch as error:
            raise CorruptBatch(f"{partition} on {cluster.alias} holds {error}.") from error
        if at >= fetched.stable_end or at == before:
            return


def _fetch(cluster: WireCluster, partition: TopicPartition, at: int) -> Fetched:
    leader = cluster.leaders([partition])[partition]
    if leader.node < 0:
        raise fault(leader.error, f"Looking for the leader of {partition} on {cluster.alias}")
    answers = fetch(
        cluster,
        leader.node,
        {partition: at},
        max_bytes=_FETCH_BYTES,
        partition_max_bytes=_FETCH_BYTES,
    )
    fetched = next(answers, None)
    if fetched is None:
        # A broker that throttles us answers with nothing at all.
        raise fault(THROTTLED, f"Reading {partition} on {cluster.alias} back")
    if fetched.error not in (NONE, OFFSET_OUT_OF_RANGE):
        raise fault(fetched.error, f"Reading {partition} on {cluster.alias} back")
    return fetched
