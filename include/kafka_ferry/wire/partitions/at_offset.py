"""What lies at offsets of logs, and whether it is what was copied from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from kafka_ferry.batched import batched
from kafka_ferry.batches import Batch, MalformedBatch, each_record, is_abort_marker, split_batches
from kafka_ferry.batches.record_format.content import Content, read_content
from kafka_ferry.batches.record_format.header import NEWEST_FORMAT
from kafka_ferry.errors import CorruptBatch, FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.error_codes import NONE, THROTTLED, is_transient_read, read_fault
from kafka_ferry.wire.partitions.fetch import Fetched, batch_past, corrupt_in, fetch_each
from kafka_ferry.wire.partitions.partition_log import PartitionLog
from kafka_ferry.wire.partitions.scan import ended_batches, stored_batches

_ONE_BATCH_BYTES: Final = 64 * 1024
LOGS_AT_ONCE: Final = 100
"""Of so many logs batches are held in memory together, of 64 KiB each."""
_MARKER: Final = (0, Content(None, None).encode())
# A marker has 78 bytes.
_MARKER_BYTES: Final = 256
_NO_MARKER: Final = -1
# A transaction lasts minutes at most, and what lies before an unclean leader election is read once.
MOST_OPEN: Final = 100_000
"""So many offsets before a place are searched for the records of transactions that are open there."""


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
        offsets: by partition, an offset; of at most ``LOGS_AT_ONCE`` partitions.
    """
    read = {tp: logs[tp] for tp in offsets if tp in logs}
    inside = {tp: log.leader for tp, log in read.items() if log.start <= offsets[tp] < log.end}
    with suppress(FerryError), cluster.forget_on_error():
        for fetched in fetch_each(cluster, inside, offsets, _ONE_BATCH_BYTES):
            tp = fetched.partition
            with suppress(CorruptBatch):
                batch = batch_past(cluster, fetched, offsets[tp])
                if batch and batch.crc_matches:
                    read[tp] = read[tp]._replace(batch=batch)
    return read


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


def open_at(cluster: WireCluster, log: PartitionLog, offset: int) -> dict[int, tuple[int, int]]:
    """The first and the last records before an offset of transactions that have no marker before it, by producer.

    Of one whose last record is more than 100,000 offsets before, nothing is known.

    Args:
        cluster: the cluster.
        log: the log.
        offset: the offset.

    Raises:
        CorruptBatch: on bytes that are not a valid batch.
        FerryError: if the partition cannot be read.
    """
    begun: dict[int, tuple[Batch, Batch]] = {}
    end = min(offset, log.end)
    # The first batch may begin before that.
    first = max(log.start, end - MOST_OPEN)
    for batch in stored_batches(cluster, log, first, end):
        header = batch.header
        if header.is_control:
            begun.pop(header.producer_id, None)
        elif header.is_transactional and header.records:
            begun[header.producer_id] = begun.get(header.producer_id, (batch,))[0], batch
    with corrupt_in(log.partition, cluster.alias):
        records = {
            producer: [at for one in dict.fromkeys(both) for at in _offsets_from(one, first)]
            for producer, both in begun.items()
        }
    return {producer: (offsets[0], offsets[-1]) for producer, offsets in records.items() if offsets}


def _offsets_from(batch: Batch, start: int) -> list[int]:
    return [offset for offset, *_ in each_record(batch) if offset >= start]


def aborted_across(
    cluster: WireCluster,
    logs: Mapping[TopicPartition, PartitionLog],
    offsets: Mapping[TopicPartition, int],
) -> set[TopicPartition]:
    """The partitions that may have a transaction with records before an offset, and the marker that aborts it after.

    By the brokers' lists of aborted transactions; where one gives nothing, it may be so.

    Args:
        cluster: the cluster, with no request on its way.
        logs: the logs.
        offsets: by partition, the offset; nothing is said of those that are not within their logs.

    Raises:
        FerryError: if a broker does not answer.
    """
    inside = [tp for tp, at in offsets.items() if tp in logs and logs[tp].start < at < logs[tp].end]
    spanned: set[TopicPartition] = set()
    for some in batched(inside, LOGS_AT_ONCE):
        nodes = {tp: logs[tp].leader for tp in some}
        with cluster.forget_on_error():
            fetched = fetch_each(cluster, nodes, offsets, _ONE_BATCH_BYTES, committed=True)
        spanned |= {it.partition for it in fetched if _lists_abort(it, offsets[it.partition])}
    return spanned


def _lists_abort(fetched: Fetched, offset: int) -> bool:
    if fetched.error == NONE and fetched.is_at_end(offset):
        return False
    is_before = any(it.first_offset < offset for it in fetched.aborted)
    return is_before or fetched.error != NONE or not fetched.records


def ended_otherwise(
    cluster: WireCluster,
    log: PartitionLog,
    offset: int,
    was_aborted: Callable[[int], bool | None],
) -> Iterator[int]:
    """The first records, ascending, of transactions that span an offset and have ended otherwise than copied.

    Args and errors as of ``open_at``, and:
        was_aborted: whether a record was left out as aborted; None where that is not known, as where copying began
            within the transaction: then its last record before the offset tells.
    """
    for first, last in sorted(retry(partial(open_at, cluster, log, offset)).values()):
        was = was_aborted(first)
        if was is None:
            was = was_aborted(last)
        if was is None:
            continue
        is_aborted = retry(partial(_is_aborted_at, cluster, log, first))
        # Below one that is open still nothing is copied.
        if is_aborted is not None and is_aborted is not was:
            yield first


def _is_aborted_at(cluster: WireCluster, log: PartitionLog, offset: int) -> bool | None:
    """Whether the transaction of a record is aborted; None where it has not ended."""
    batch, is_aborted = next(ended_batches(cluster, log, offset), (None, False))
    return is_aborted if batch and batch.header.base_offset <= offset else None


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
    copied_record = record and _record_at(other, copy_log, copy_offset)
    if not record or not copied_record:
        return None
    if is_changed or record == copied_record or record[0] != copied_record[0]:
        return record[0] == copied_record[0]
    with corrupt_in(log.partition, cluster.alias):
        # Another client may have written its numbers otherwise.
        return read_content(record[1]) == read_content(copied_record[1])


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


def markers_at(
    cluster: WireCluster, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The producers whose transactions were committed by the markers at offsets.

    Args:
        cluster: the cluster, with no request on its way.
        offsets: by partition, an offset within its log.

    Returns:
        The producer's id by partition, -1 where another batch lies there, such as the marker of an aborted
        transaction, or none came. Partitions without a leader, and those that the broker does not let be read, are
        absent.

    Raises:
        ClusterUnreachable: if a broker does not answer, or not for every partition.
        BrokerError: transient while a leader cannot say.
    """
    with cluster.forget_on_error():
        leaders = cluster.recent_leaders(offsets)
        nodes = {tp: answer.node for tp, answer in leaders.items() if answer.node >= 0}
        answers = fetch_each(cluster, nodes, offsets, _MARKER_BYTES)
        answered = {answer.partition for answer in answers}
        for tp in nodes.keys() - answered:
            raise read_fault(THROTTLED, f"Reading {tp} on {cluster.alias}", tp.topic)
        for answer in answers:
            if is_transient_read(answer.error):
                doing = f"Reading {answer.partition} on {cluster.alias}"
                raise read_fault(answer.error, doing, answer.partition.topic)
    return {
        answer.partition: _marker_of(answer, offsets[answer.partition])
        for answer in answers
        if answer.error == NONE
    }


def _marker_of(fetched: Fetched, offset: int) -> int:
    try:
        first = next(split_batches(fetched.records), None)
        if first is None or first.header.base_offset != offset or not first.header.is_control:
            return _NO_MARKER
        return _NO_MARKER if is_abort_marker(first) else first.header.producer_id
    except MalformedBatch:
        return _NO_MARKER
