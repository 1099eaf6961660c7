"""What a partition shows to a read_committed consumer, batch by batch, without opening any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
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
from kafka_ferry.batches.record_format.content import Content, read_content
from kafka_ferry.batches.record_format.header import NEWEST_FORMAT
from kafka_ferry.errors import CorruptBatch, FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.partitions.absence import LogAnswers
from kafka_ferry.wire.partitions.by_leader import by_node
from kafka_ferry.wire.partitions.fetch import Fetched, batch_past, corrupt_in, fetch_each
from kafka_ferry.wire.partitions.lookahead import fates_after
from kafka_ferry.wire.partitions.partition_log import PartitionLog, partition_log
from kafka_ferry.wire.partitions.read_ahead import AheadReader

FETCH_BYTES: Final = 8 * 1024 * 1024
"""At most so much is asked for at a time."""
_ONE_BATCH_BYTES: Final = 64 * 1024
_MARKER: Final = (0, Content(None, None).encode())
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

    def following() -> Batch | None:
        nonlocal batches
        try:
            if batches is None:
                batches = open_at(at)
            return next(batches, None)
        except FerryError:
            batches = None
            raise

    while batch := retry(following):
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
        cluster.forgetting(),
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
    with cluster.forgetting(), _reader(cluster, log, max_bytes, committed=False) as reader:
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


def batch_at(cluster: WireCluster, log: PartitionLog, offset: int) -> Batch | None:
    """The batch that holds an offset of a log, also a control or an aborted batch; None where none does.

    Raises:
        CorruptBatch: on bytes that are not a valid batch.
        FerryError: if the partition cannot be read.
    """
    if not log.start <= offset < log.end:
        return None
    if log.batch and log.batch.header.base_offset <= offset < log.batch.header.next_offset:
        return log.batch
    return next(stored_batches(cluster, log, offset, offset + 1, max_bytes=_ONE_BATCH_BYTES), None)


def with_batches(
    cluster: WireCluster,
    logs: Mapping[TopicPartition, PartitionLog],
    offsets: Mapping[TopicPartition, int],
) -> dict[TopicPartition, PartitionLog]:
    """The logs of ``offsets``, with the batches that hold those, as far as brokers give them together with others'.

    ``batch_at`` asks for any other one by itself: without this it takes a round trip for each partition.

    Args:
        cluster: the cluster, with no request on its way.
        logs: the logs.
        offsets: by partition, an offset; of some hundred partitions at most.
    """
    read = {tp: logs[tp] for tp in offsets if tp in logs}
    inside = {tp: log.leader for tp, log in read.items() if log.start <= offsets[tp] < log.end}
    nodes = by_node(inside)
    asked = {node: {tp: offsets[tp] for tp in some} for node, some in nodes.items()}
    with suppress(FerryError), cluster.forgetting():
        cluster.open(nodes)
        for fetched in fetch_each(cluster, asked, _ONE_BATCH_BYTES):
            tp = fetched.partition
            with suppress(CorruptBatch):
                batch = batch_past(cluster, fetched, offsets[tp])
                if batch and batch.crc_matches:
                    read[tp] = read[tp]._replace(batch=batch)
    return read


def has_copied(
    cluster: WireCluster,
    log: PartitionLog,
    offset: int,
    copy: tuple[WireCluster, PartitionLog, int],
    *,
    is_changed: bool = False,
) -> bool | None:
    """Whether a log still has the record that was copied from an offset; None where nothing tells.

    Args:
        cluster: the cluster.
        log: the log.
        offset: the offset.
        copy: the cluster that it was copied to, with the log and the offset there.
        is_changed: whether the copy is another record, of the same time.

    Raises:
        CorruptBatch: on bytes that are not a valid batch.
        FerryError: if one of the partitions cannot be read.
    """
    other, copy_log, copy_offset = copy
    if offset >= log.end:
        return False
    if offset < log.start or copy_offset < copy_log.start:
        # What retention has taken was not lost with a branch of the log.
        return True
    record = _record_at(cluster, log, offset)
    there = record and _record_at(other, copy_log, copy_offset)
    if not record or not there:
        return None
    if is_changed or record == there or record[0] != there[0]:
        return record[0] == there[0]
    with corrupt_in(log.partition, cluster.alias):
        # Another client may have written its numbers otherwise.
        return read_content(record[1]) == read_content(there[1])


def has_same_batch(cluster: WireCluster, log: PartitionLog, offset: int, crc: int) -> bool | None:
    """Whether a log still has the batch with that CRC at an offset; None where nothing tells.

    The cleaner writes a batch anew of which it takes records, or whose time of deletion it notes; and a service that
    is no broker of Apache Kafka's may make batches for each answer: they overlap then.
    Errors as of ``has_copied``.
    """
    if offset < log.start:
        return True
    batch = batch_at(cluster, log, offset)
    if batch is None or batch.stored_format != NEWEST_FORMAT:
        return None
    header = batch.header
    if header.crc == crc:
        return True
    before = batch_at(cluster, log, header.base_offset - 1)
    overlaps = before is not None and before.header.next_offset > header.base_offset
    is_cleaned = header.has_delete_horizon or header.records <= header.last_offset_delta
    return None if overlaps or is_cleaned else False


def newest_record_between(
    cluster: WireCluster, log: PartitionLog, start: int, end: int
) -> int | None:
    """The last of the offsets ``[start, end)`` at which a log has a committed record, as far as no transaction is open.

    Errors as of ``has_copied``.
    """
    newest, first = None, max(start, log.start)
    for batch, is_aborted in ended_batches(cluster, log, first, max_bytes=_ONE_BATCH_BYTES):
        header = batch.header
        if header.base_offset >= end:
            break
        if not (is_aborted or header.is_control):
            with corrupt_in(log.partition, cluster.alias):
                offsets = [offset for offset, *_ in each_record(batch) if first <= offset < end]
            newest = max(offsets, default=newest)
        if header.next_offset >= end:
            break
    return newest


def _record_at(cluster: WireCluster, log: PartitionLog, offset: int) -> tuple[int, bytes] | None:
    """A record's timestamp and content; a marker's if that is what lies there, None without either."""
    batch = batch_at(cluster, log, offset)
    if batch is None:
        return None
    if batch.header.is_control:
        return _MARKER
    with corrupt_in(log.partition, cluster.alias):
        record = next((record for record in each_record(batch) if record[0] == offset), None)
        return record and (record[1], record[3])


def batch_and_fate_at(
    cluster: WireCluster, log: PartitionLog, offset: int
) -> tuple[Batch | None, bool]:
    """As ``batch_at``, and whether the batch is known to be of an aborted transaction."""
    if not log.start <= offset < log.end:
        return None, False
    ended = ended_batches(cluster, log, offset, max_bytes=_ONE_BATCH_BYTES)
    batch, is_aborted = next(ended, (None, False))
    if batch and batch.header.base_offset <= offset:
        return batch, is_aborted
    # An open transaction may hide it.
    return batch_at(cluster, log, offset), False


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


def _check(cluster: WireCluster, partition: TopicPartition, fetched: Fetched) -> Iterator[Batch]:
    with corrupt_in(partition, cluster.alias):
        for batch in split_batches(fetched.records):
            if not batch.crc_matches:
                at = batch.header.base_offset
                raise MalformedBatch(f"a batch at offset {at} with a wrong CRC")
            yield batch
