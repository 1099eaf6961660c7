"""Reads a partition's records as digests, to be compared with those of another cluster."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import xxhash

from kafka_ferry.batches import Batch, MalformedBatch, Record
from kafka_ferry.batches.record_format.records import stream_records
from kafka_ferry.batches.record_format.varint import decode_varint
from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.groups.alignment.align import LogRecords
from kafka_ferry.model.cluster_state import HANGING
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.retry import retry
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.error_codes import fault
from kafka_ferry.wire.partitions.fetch import corrupt_in
from kafka_ferry.wire.partitions.list_offsets import LATEST, READ_COMMITTED, offsets_question
from kafka_ferry.wire.partitions.partition_log import PartitionLog, partition_log
from kafka_ferry.wire.partitions.scan import ended_batches

_64_BITS: Final = 2**64 - 1


def read_log(
    cluster: WireCluster,
    partition: TopicPartition,
    *,
    since: int = 0,
    with_keys: bool = False,
    is_whole: bool = False,
) -> LogRecords:
    """All records of a partition up to its proved last stable offset, including those of aborted transactions.

    A broker that answers without records does not say that there are none: only the end of the log does.

    Takes some 30 bytes of memory per record.

    Args:
        cluster: the cluster.
        partition: the partition.
        since: the first offset to read, if the log reaches that far back.
        with_keys: whether to read keys and tombstones too.
        is_whole: whether nothing may lie after that offset.

    Raises:
        CorruptBatch: on bytes that are not a valid batch.
        FerryError: if the log ends before ``since``, or cannot be read to its end for a minute; or an open transaction
            hides records of one that is to be whole.
    """

    def read() -> LogRecords:
        log = partition_log(cluster, partition)
        if log.end < since:
            raise FerryError(
                f"{partition} on {cluster.alias} ends at {log.end}, and the ledger has records of it up to "
                f"{since}: the target has lost them.",
                advice="`ferry verify --all` names them.",
            )
        end = _last_stable_offset(cluster, log)
        if is_whole and end < log.end:
            raise FerryError(
                f"An open transaction hides what {partition} on {cluster.alias} has from offset {end} on: whether "
                "these records stay is not decided.",
                advice=HANGING,
            )
        batches = ended_batches(cluster, log, max(log.start, since))
        with corrupt_in(partition, cluster.alias):
            records = _digest(batches, log.start, since, with_keys=with_keys)
        if records.end < end:
            raise ClusterUnreachable(
                f"{cluster.alias} gives nothing of {partition} from {records.end} on, although its log ends at "
                f"{end}."
            )
        return records

    return retry(read)


def _last_stable_offset(cluster: WireCluster, log: PartitionLog) -> int:
    with cluster.forget_on_error():
        question = offsets_question(cluster, log.leader, {log.partition: LATEST}, READ_COMMITTED)
        entry = question.ask()[log.partition]
    if entry.error_code:
        doing = f"Asking where {log.partition} on {cluster.alias} ends"
        raise fault(entry.error_code, doing, Right.topic("READ", log.partition.topic))
    return int(entry.offset)


def _digest(
    batches: Iterable[tuple[Batch, bool]], start: int, since: int, *, with_keys: bool
) -> LogRecords:
    first = end = max(start, since)
    columns = _Columns()
    for batch, is_aborted in batches:
        end = batch.header.next_offset
        columns.add(batch, first, is_aborted=is_aborted, with_keys=with_keys)
    return LogRecords(
        start,
        end,
        np.array(columns.offsets, np.int64),
        np.array(columns.digests, np.uint64),
        np.array(columns.aborted, np.bool_),
        np.array(columns.epochs, np.int64),
        np.array(columns.keys, np.uint64),
        np.array(columns.tombstones, np.bool_),
        np.array(columns.markers, np.int64),
        first,
        columns.bytes,
    )


class _Columns:
    """Builds ``LogRecords`` batch by batch, in numeric arrays, which take less memory than lists."""

    def __init__(self) -> None:
        self.offsets, self.digests = array("q"), array("Q")
        self.aborted, self.epochs = array("b"), array("q")
        self.keys, self.tombstones = array("Q"), array("b")
        self.markers = array("q")
        self.bytes = 0

    def add(self, batch: Batch, first: int, *, is_aborted: bool, with_keys: bool) -> None:
        """Add a batch's records from the offset ``first`` on."""
        header = batch.header
        if header.is_control:
            # What a broker says of a few bytes could be two billion offsets, all of them in memory.
            if header.last_offset_delta:
                raise MalformedBatch(
                    f"a marker at offset {header.base_offset} that stands for {header.last_offset_delta + 1:,} offsets"
                )
            if header.base_offset >= first:
                self.markers.append(header.base_offset)
            return
        self.bytes += header.size
        for part in stream_records(batch):
            records = [record for record in part if record[0] >= first]
            self._add(records, header.leader_epoch, is_aborted=is_aborted, with_keys=with_keys)

    def _add(
        self, records: Sequence[Record], leader_epoch: int, *, is_aborted: bool, with_keys: bool
    ) -> None:
        digest = xxhash.xxh3_64_intdigest
        self.offsets.extend([record[0] for record in records])
        # The timestamp is the digest's seed: two records are equal if content and timestamp are.
        self.digests.extend([digest(content, at & _64_BITS) for _, at, _, content in records])
        self.aborted.extend([is_aborted] * len(records))
        self.epochs.extend([leader_epoch] * len(records))
        if with_keys:
            keys = [_key_of(record[3]) for record in records]
            self.keys.extend([digest(key) for key, _ in keys])
            self.tombstones.extend([is_tombstone for _, is_tombstone in keys])


def _key_of(content: bytes) -> tuple[bytes, bool]:
    """A record's key after its length, which tells null from empty; and whether the value is null."""
    length, at = decode_varint(content, 0)
    at += max(0, length)
    return content[:at], decode_varint(content, at)[0] < 0
