"""What a partition shows to a read_committed consumer, batch by batch, without opening any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import Final

from kafka_ferry.batches import (
    AbortFilter,
    Batch,
    BatchHeader,
    MalformedBatch,
    TransactionFates,
    each_record,
    key_value_of,
    split_batches,
)
from kafka_ferry.errors import FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.partitions.absence import LogAnswers
from kafka_ferry.wire.partitions.fetch import Fetched, corrupt_in
from kafka_ferry.wire.partitions.lookahead import fates_after
from kafka_ferry.wire.partitions.partition_log import PartitionLog, partition_log
from kafka_ferry.wire.partitions.read_ahead import AheadReader

FETCH_BYTES: Final = 8 * 1024 * 1024
"""At most so much is asked for at a time."""
RECORD_BYTES: Final = 64 * 1024 * 1024
"""A record of the flow's own topics has no more: packed, brokers take no more than a mebibyte."""


class MissingRecords(FerryError):
    """A log that keeps everything lacks offsets that it once had."""


def committed_batches(
    cluster: WireCluster,
    log: PartitionLog,
    start: int,
    *,
    max_bytes: int = FETCH_BYTES,
    keeps_all: bool = False,
) -> Iterator[Batch]:
    """The committed data batches of a log from ``start`` to its last stable offset.

    Args:
        cluster: the cluster.
        log: the log.
        start: the first offset to read, not before the log's start.
        max_bytes: about how much to ask for at a time.
        keeps_all: whether nothing is ever removed from the log, by compaction for example.

    Raises:
        CorruptBatch: on bytes that are not a valid batch.
        MissingRecords: on a gap between batches or in one, where the log keeps everything.
        FerryError: if the partition cannot be read.
    """
    every = ended_batches(cluster, log, start, max_bytes=max_bytes)
    for batch, is_aborted in _unbroken(log.partition, start, every) if keeps_all else every:
        if not (is_aborted or batch.header.is_control):
            yield batch


def _unbroken(
    partition: TopicPartition, start: int, batches: Iterable[tuple[Batch, bool]]
) -> Iterator[tuple[Batch, bool]]:
    """The batches as they are, which have to follow each other and to be whole.

    A broker that removes records keeps the offsets of the batch that they were in, or removes it too.
    """
    at = start
    for batch, is_aborted in batches:
        header = batch.header
        _require_up_to(partition, at, header.base_offset)
        if header.records < header.next_offset - header.base_offset:
            raise MissingRecords(f"{partition} lacks records from offset {header.base_offset} on")
        at = header.next_offset
        yield batch, is_aborted


def _require_up_to(partition: TopicPartition, at: int, following: int) -> None:
    if following > at:
        raise MissingRecords(f"{partition} lacks the offsets [{at}, {following})")


def committed_values(
    cluster: WireCluster, partition: TopicPartition, start: int
) -> Iterator[tuple[int, bytes | None]]:
    """The values of a partition's committed records from ``start`` on, with their offsets.

    Args and errors as of ``committed_records``.
    """
    for _, at, value in committed_records(cluster, partition, start):
        yield at, value


def committed_records(
    cluster: WireCluster, partition: TopicPartition, start: int, *, keeps_all: bool = False
) -> Iterator[tuple[BatchHeader, int, bytes | None]]:
    """A partition's committed records from ``start`` on: the header of the batch, offset and value.

    Goes on after what passes by itself. Where the log begins after ``start``, or ends before it, the log's
    start is where it begins.

    Args:
        cluster: the cluster, with no request on its way.
        partition: the partition.
        start: the first offset to read.
        keeps_all: whether nothing is ever removed from the log.

    Raises:
        CorruptBatch: on bytes that are no valid batch.
        MissingRecords: where the log keeps everything, if it begins after ``start``, or has a gap.
        FerryError: if the partition cannot be read for a minute.
    """
    log = retry(partial(partition_log, cluster, partition))
    at = start if log.start <= start <= log.end else log.start
    if keeps_all:
        _require_up_to(partition, start, log.start)
    if at == log.end:
        return

    def open_at(at: int) -> Iterator[Batch]:
        current_log = partition_log(cluster, partition)
        return committed_batches(cluster, current_log, at, keeps_all=keeps_all)

    first = committed_batches(cluster, log, at, keeps_all=keeps_all)
    for batch in retried_batches(open_at, at, first):
        with corrupt_in(partition, cluster.alias):
            for record in each_record(batch, RECORD_BYTES):
                if record[0] >= at:
                    yield batch.header, record[0], key_value_of(record[3])[1]


def retried_batches(
    open_at: Callable[[int], Iterator[Batch]], start: int, batches: Iterator[Batch] | None = None
) -> Iterator[Batch]:
    """Batches one after the other, from the next one on again after errors that pass by themselves.

    Args:
        open_at: reads from an offset on.
        start: the first offset to read.
        batches: those from there on, if they are opened already.

    Raises:
        FerryError: if the partition cannot be read for a minute.
    """
    at = start

    def next_batch() -> Batch | None:
        nonlocal batches
        try:
            if batches is None:
                batches = open_at(at)
            return next(batches, None)
        except FerryError:
            batches = None
            raise

    while batch := retry(next_batch):
        yield batch
        at = batch.header.next_offset


def ended_batches(
    cluster: WireCluster,
    log: PartitionLog,
    start: int,
    *,
    max_bytes: int = FETCH_BYTES,
    on_end: Callable[[int], None] = lambda _: None,
) -> Iterator[tuple[Batch, bool]]:
    """All batches of a log from ``start`` to its last stable offset, and which are data of aborted transactions.

    Args and errors as in ``committed_batches``; and ``on_end``, which is given that offset when all are read.
    """
    at, fates = start, TransactionFates()

    def look_ahead(after: int, undecided: Mapping[int, int]) -> Mapping[int, bool]:
        with reader.elsewhere():
            return fates_after(cluster, log.leader, log.partition, after, undecided)

    with (
        cluster.forget_on_error(),
        # A marker may be none.
        corrupt_in(log.partition, cluster.alias),
        _reader(cluster, log, max_bytes, committed=True) as reader,
    ):
        answers = LogAnswers(cluster, log.leader, log.partition, reader.fetch)
        while True:
            fetched, at = answers.at(at)
            batches = list(_check(cluster, log.partition, fetched))

            def judge(aborted: AbortFilter, batches: Sequence[Batch] = batches) -> list[bool]:
                return list(map(aborted.is_aborted, batches))

            for batch, is_aborted in zip(
                batches, fates.decide(fetched.aborted, judge, look_ahead), strict=True
            ):
                if batch.header.next_offset > at:
                    at = batch.header.next_offset
                    yield batch, is_aborted
            if fetched.is_at_end(at):
                on_end(fetched.end)
                return


def stored_batches(
    cluster: WireCluster, log: PartitionLog, start: int, end: int, *, max_bytes: int = FETCH_BYTES
) -> Iterator[Batch]:
    """All batches of a log with an offset of ``[start, end)``, including control and aborted batches.

    Args:
        cluster: the cluster.
        log: the log.
        start: the first offset to read, not before the log's start.
        end: the offset after the last one to read, not after the high watermark.
        max_bytes: about how much to ask for at a time.

    Raises:
        CorruptBatch: on bytes that are not a valid batch.
        FerryError: if the partition cannot be read.
    """
    at = start
    with cluster.forget_on_error(), _reader(cluster, log, max_bytes, committed=False) as reader:
        answers = LogAnswers(cluster, log.leader, log.partition, reader.fetch)
        while at < end:
            fetched, at = answers.at(at)
            if fetched.is_at_end(at):
                return
            for batch in _check(cluster, log.partition, fetched):
                if batch.header.base_offset >= end:
                    return
                if at < batch.header.next_offset:
                    at = batch.header.next_offset
                    yield batch


def _reader(
    cluster: WireCluster, log: PartitionLog, max_bytes: int, *, committed: bool
) -> AbstractContextManager[AheadReader]:
    return closing(
        AheadReader(cluster, log.leader, log.partition, max_bytes=max_bytes, committed=committed)
    )


def holds_records(cluster: WireCluster, partition: TopicPartition) -> bool:
    """Whether a partition holds a committed record; aborted ones do not count.

    Raises:
        AccessDenied: without READ on the topic.
        FerryError: if the partition cannot be read.
    """
    log = partition_log(cluster, partition)
    batches = committed_batches(cluster, log, log.start)
    return any(batch.header.records for batch in batches)


def holds_records_in(cluster: WireCluster, log: PartitionLog, start: int, end: int) -> bool:
    """Whether a log holds records at the offsets ``[start, end)`` that are committed, or may yet be.

    Raises:
        AccessDenied: without READ on the topic.
        FerryError: if the partition cannot be read.
    """
    stable_end = end

    def until(offset: int) -> None:
        nonlocal stable_end
        stable_end = offset

    for batch, is_aborted in ended_batches(cluster, log, start, on_end=until):
        if batch.header.base_offset >= end:
            return False
        if batch.header.records and not (is_aborted or batch.header.is_control):
            return True
    return stable_end < end


def _check(cluster: WireCluster, partition: TopicPartition, fetched: Fetched) -> Iterator[Batch]:
    with corrupt_in(partition, cluster.alias):
        for batch in split_batches(fetched.records):
            if not batch.crc_matches:
                at = batch.header.base_offset
                raise MalformedBatch(f"a batch at offset {at} with a wrong CRC")
            yield batch
