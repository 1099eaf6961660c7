"""What a partition shows to a read_committed consumer, batch by batch, without opening any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import Final

from kafka_ferry.batches import (
    AbortFilter,
    Batch,
    MalformedBatch,
    TransactionFates,
    read_records,
    split_batches,
    value_of,
)
from kafka_ferry.errors import CorruptBatch, FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.error_codes import fault
from kafka_ferry.wire.partitions.ends import high_watermarks
from kafka_ferry.wire.partitions.fetch import Fetched, log_start
from kafka_ferry.wire.partitions.lookahead import fates_after
from kafka_ferry.wire.partitions.read_ahead import AheadReader

_FETCH_BYTES: Final = 16 * 1024 * 1024


def committed_batches(
    cluster: WireCluster, leader: int, partition: TopicPartition, start: int
) -> Iterator[Batch]:
    """The committed data batches of a partition from ``start`` to its last stable offset.

    Args:
        cluster: the cluster.
        leader: the broker that leads the partition.
        partition: the partition.
        start: the first offset to read.

    Raises:
        CorruptBatch: on bytes that are not a valid batch.
        FerryError: if the partition cannot be read.
    """
    return _committed(ended_batches(cluster, leader, partition, start))


def _committed(batches: Iterator[tuple[Batch, bool]]) -> Iterator[Batch]:
    for batch, is_aborted in batches:
        if not (is_aborted or batch.header.is_control):
            yield batch


def committed_values(
    cluster: WireCluster, partition: TopicPartition, start: int
) -> Iterator[tuple[int, bytes | None]]:
    """The values of a partition's committed records from ``start`` on, with their offsets.

    Goes on after what passes by itself. Where the log begins after ``start``, or ends before it, the log's
    start is where it begins.

    Args:
        cluster: the cluster, with no request on its way.
        partition: the partition.
        start: the first offset to read.

    Raises:
        CorruptBatch: on bytes that are no valid batch.
        FerryError: if the partition cannot be read for a minute.
    """
    at, end, leader = retry(lambda: _inside(cluster, partition, start))
    if at == end:
        return
    batches: Iterator[Batch] | None = _committed(_ended(cluster, leader, partition, at))

    def following() -> Batch | None:
        nonlocal batches
        try:
            if batches is None:
                leader = leader_of(cluster, partition, recent=True)
                batches = committed_batches(cluster, leader, partition, at)
            return next(batches, None)
        except FerryError:
            batches = None
            cluster.forget_leaders()
            raise

    while batch := retry(following):
        try:
            for record in read_records(batch):
                if record[0] >= at:
                    yield record[0], value_of(record)
        except MalformedBatch as error:
            raise CorruptBatch(f"{partition} on {cluster.alias} holds {error}.") from error
        at = batch.header.next_offset


def _inside(cluster: WireCluster, partition: TopicPartition, offset: int) -> tuple[int, int, int]:
    """The offset if the log has it, else the log's start; the log's end, and the leader that says so."""
    try:
        leader = leader_of(cluster, partition, recent=True)
        end = high_watermarks(cluster, {partition: leader})[partition]
        first = end if offset == end else log_start(cluster, leader, partition)
    except FerryError:
        cluster.forget_leaders()
        raise
    return (max(offset, first) if offset <= end else first), end, leader


def ended_batches(
    cluster: WireCluster, leader: int, partition: TopicPartition, start: int
) -> Iterator[tuple[Batch, bool]]:
    """All batches of a partition from ``start`` to its last stable offset, and which are data of aborted transactions.

    Args and errors as in ``committed_batches``.
    """
    # A newly elected leader may not know yet how far its log is replicated: it shows less than there
    # is, without an error, and refuses to say where the log ends (KIP-207).
    high_watermarks(cluster, {partition: leader})
    yield from _ended(cluster, leader, partition, start)


def _ended(
    cluster: WireCluster, leader: int, partition: TopicPartition, start: int
) -> Iterator[tuple[Batch, bool]]:
    """What ``ended_batches`` gives, of a leader that has said where the log ends."""
    at, before, fates = start, -1, TransactionFates()
    look_ahead = partial(fates_after, cluster, leader, partition)
    with _reader(cluster, leader, partition, committed=True) as reader:
        while at > before:
            before = at
            fetched = reader.fetched(at)
            batches = list(_checked(cluster, partition, fetched))

            def judge(aborted: AbortFilter, batches: Sequence[Batch] = batches) -> list[bool]:
                return list(map(aborted.is_aborted, batches))

            for batch, is_aborted in zip(
                batches, fates.judged(fetched.aborted, judge, look_ahead), strict=True
            ):
                if batch.header.next_offset > at:
                    at = batch.header.next_offset
                    yield batch, is_aborted
            if at >= fetched.end:
                return


def stored_batches(
    cluster: WireCluster, leader: int, partition: TopicPartition, start: int, end: int
) -> Iterator[Batch]:
    """All batches of a partition with an offset of ``[start, end)``, including control and aborted batches.

    Args:
        cluster: the cluster.
        leader: the broker that leads the partition.
        partition: the partition.
        start: the first offset to read.
        end: the offset after the last one to read, not after the high watermark.

    Raises:
        CorruptBatch: on bytes that are not a valid batch.
        FerryError: if the partition cannot be read.
    """
    at, before = start, -1
    with _reader(cluster, leader, partition, committed=False) as reader:
        while before < at < end:
            before = at
            for batch in _checked(cluster, partition, reader.fetched(at)):
                if at < batch.header.next_offset:
                    at = batch.header.next_offset
                    yield batch
                if at >= end:
                    return


def _reader(
    cluster: WireCluster, leader: int, partition: TopicPartition, *, committed: bool
) -> AbstractContextManager[AheadReader]:
    reader = AheadReader(cluster, leader, partition, max_bytes=_FETCH_BYTES, committed=committed)
    return closing(reader)


def holds_records(cluster: WireCluster, partition: TopicPartition) -> bool:
    """Whether a partition holds a committed record; aborted ones do not count.

    Raises:
        AccessDenied: without READ on the topic.
        FerryError: if the partition cannot be read.
    """
    leader = leader_of(cluster, partition)
    first = log_start(cluster, leader, partition)
    batches = committed_batches(cluster, leader, partition, first)
    return any(batch.header.records for batch in batches)


def leader_of(cluster: WireCluster, partition: TopicPartition, *, recent: bool = False) -> int:
    """The broker that leads ``partition``.

    Args:
        cluster: the cluster.
        partition: the partition.
        recent: whether an earlier answer will do; see ``WireCluster.recent_leaders``.

    Raises:
        BrokerError: transient while there is none.
    """
    look_up = cluster.recent_leaders if recent else cluster.leaders
    leader = look_up([partition])[partition]
    if leader.node < 0:
        raise fault(leader.error, f"Looking for the leader of {partition} on {cluster.alias}")
    return leader.node


def _checked(cluster: WireCluster, partition: TopicPartition, fetched: Fetched) -> Iterator[Batch]:
    try:
        for batch in split_batches(fetched.records):
            if not batch.crc_matches:
                at = batch.header.base_offset
                raise MalformedBatch(f"a batch at offset {at} with a wrong CRC")
            yield batch
    except MalformedBatch as error:
        raise CorruptBatch(f"{partition} on {cluster.alias} holds {error}.") from error
