"""The independent read: what the target really holds of the ranges in the ledger.

It opens no batch: headers count the records, and the digest is of the bytes in the target's log. All
it knows about the writer is what the ledger claims. Partitions with preserved offsets are checked by
``verify.recount_by_offset``, offset by offset; this module is for translated offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_ferry.batches import RangeDigest
from kafka_ferry.config import Cluster
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.verify.claim import RangeClaim, ReadUntil
from kafka_ferry.verify.recount_by_offset import fetch_bytes, recount_by_offset
from kafka_ferry.verify.rows import PartitionRecount, Recount
from kafka_ferry.wire import WireCluster, connected
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import committed_batches


@dataclass(slots=True)
class _Counted:
    records: int = 0
    foreign: int = 0
    rewritten: int = 0
    digest: RangeDigest = field(default_factory=RangeDigest)

    def result(self, expired: int = 0, unreached: int = 0) -> Recount:
        digest = self.digest.hexdigest()
        return Recount(
            self.records, digest, self.foreign, expired, self.rewritten, unreached=unreached
        )


Asked = Sequence[tuple[TopicPartition, Sequence[RangeClaim], ReadUntil | None]]
"""Target partitions, each with what the ledger claims of its ranges and where to stop reading."""


class _Stretch(NamedTuple):
    """Target offsets ``[start, end)`` that belong to a range."""

    start: int
    end: int
    range: int


def recount_here(target: Cluster, asked: Asked) -> list[tuple[TopicPartition, PartitionRecount]]:
    """Recount partitions one after the other, in this process; errors as of ``recount``."""
    with connected(target) as cluster:
        retry(lambda: cluster.recent_leaders(tp for tp, _, _ in asked))
        return [(tp, recount(cluster, tp, claims, until)) for tp, claims, until in asked]


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
    # The log's start or leader may move while it is read: then it is read again.
    if any(claim.preserved for claim in claims):
        return retry(lambda: recount_by_offset(cluster, partition, claims, until))
    stretches = sorted(
        _Stretch(segment.target, segment.target + segment.records, number)
        for number, claim in enumerate(claims)
        for segment in claim.segments
    )
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
    first = log.start
    counted = [_Counted() for _ in claims]
    beyond = at = 0
    start = max(stretches[0].start, first)
    for batch in committed_batches(cluster, log, start, max_bytes=fetch_bytes(until)):
        base, count = batch.header.base_offset, batch.header.records
        if until and base >= until.end:
            break
        while at < len(stretches) and stretches[at].end <= base:
            at += 1
        if at == len(stretches):
            beyond += count
        elif base < stretches[at].start:
            counted[stretches[at].range].foreign += count
        else:
            # Brokers return whole batches, including the one in which the log starts.
            mine = counted[stretches[at].range]
            mine.records += count - min(max(first - base, 0), count)
            mine.rewritten += batch.header.has_delete_horizon
            mine.digest.add(batch)
    return PartitionRecount(
        tuple(
            found.result(claim.expired(first), claim.beyond(log.end))
            for found, claim in zip(counted, claims, strict=True)
        ),
        beyond,
    )
