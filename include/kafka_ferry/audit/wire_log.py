"""A partition's log on a cluster, read as digests."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import xxhash

from kafka_ferry.audit.comparison.entries import Entries, Integers, RecordParts
from kafka_ferry.audit.terms import AuditTerms, LogExtent
from kafka_ferry.batches import Batch, Record, read_records
from kafka_ferry.batches.record_format.codecs import TooLarge
from kafka_ferry.batches.record_format.records import stream_records
from kafka_ferry.batches.record_format.varint import decode_varint
from kafka_ferry.copy.rate_limit import RateLimit
from kafka_ferry.errors import FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.partitions.fetch import corrupt_in
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import committed_batches, retried_batches, stored_batches

_64_BITS: Final = 2**64 - 1
# Batches that become larger are read in pieces of about a mebibyte.
_OPENED_AT_ONCE: Final = 16 * 1024 * 1024
# Records this close to each other are read on, instead of asked for again.
_NEAR: Final = 5_000


class RecordsDeleted(FerryError):
    """The log's start has passed records while they were compared."""


class WireLog:
    """One side of a comparison.

    Args:
        cluster: the cluster, used by nothing else meanwhile.
        partition: the partition.
        extent: what is compared of its log.
        terms: the audit's terms.
        times: whether timestamps are compared.
        rate: limits what is read of both sides.
    """

    def __init__(
        self,
        cluster: WireCluster,
        partition: TopicPartition,
        extent: LogExtent,
        terms: AuditTerms,
        *,
        times: bool,
        rate: RateLimit,
    ) -> None:
        self.partition = partition
        self.since, self.end, self.lost_head = extent.since, extent.end, extent.lost_head
        self.alias = cluster.alias
        self.times = times
        self._cluster, self._terms, self._rate = cluster, terms, rate
        self._has_window = terms.since_ms is not None or terms.until_ms is not None

    def cursor(self, at: int, *, keys: bool = False) -> WireCursor:
        """Reads from the offset ``at`` to the end.

        Its methods raise ``CorruptBatch`` on bytes that are not a valid batch, ``RecordsDeleted`` if the log's
        start has passed what is to be read, and ``FerryError`` if the partition cannot be read for a minute.
        """
        return WireCursor(self, at, keys=keys)

    def parts(self, offsets: Integers) -> RecordParts:
        """The parts of the records at ``offsets``, which ascend.

        Raises:
            FerryError: as a cursor's methods; ``RecordsDeleted`` also if one of them is no longer there.
        """
        columns = _PartColumns()
        wanted = set(offsets.tolist())
        breaks = np.flatnonzero(np.diff(offsets) > _NEAR) + 1
        for group in np.split(offsets, breaks) if len(offsets) else ():
            for batch in self.batches(int(group[0])):
                for records in self.open(batch):
                    with corrupt_in(self.partition, self.alias):
                        columns.add([record for record in records if record[0] in wanted])
                if batch.header.next_offset > group[-1]:
                    break
        if len(columns.offsets) != len(offsets):
            raise RecordsDeleted(f"Records of {self.partition} on {self.alias} were deleted.")
        return columns.result()

    def batches(self, start: int) -> Iterator[Batch]:
        """The data batches from ``start`` to the end; the first one may begin before."""
        if start >= self.end:
            return
        for batch in retried_batches(self._open_at, start):
            if batch.header.base_offset >= self.end:
                return
            self._rate.spend(batch.header)
            if (wait_s := self._rate.wait_s) > 0:
                time.sleep(wait_s)
            yield batch

    def open(self, batch: Batch) -> Iterator[list[Record]]:
        """The records of a batch that are compared, a mebibyte or so at a time if it is large."""
        with corrupt_in(self.partition, self.alias):
            try:
                parts: Iterator[list[Record]] = iter([read_records(batch, _OPENED_AT_ONCE)])
            except TooLarge:
                parts = stream_records(batch)
            for records in parts:
                yield self._records_to_compare(batch, records)

    def counts_whole(self, batch: Batch, since: int) -> bool:
        """Whether all offsets of a batch have records that are compared: its header is enough to count them."""
        header = batch.header
        is_dense = header.records == header.last_offset_delta + 1
        is_inside = since <= header.base_offset and header.next_offset <= self.end
        return is_dense and is_inside and not self._has_window

    def _records_to_compare(self, batch: Batch, records: list[Record]) -> list[Record]:
        if batch.header.next_offset > self.end or batch.header.base_offset < self.since:
            records = [record for record in records if self.since <= record[0] < self.end]
        if self._has_window:
            since, until = self._terms.since_ms, self._terms.until_ms
            records = [
                record
                for record in records
                if (since is None or record[1] >= since) and (until is None or record[1] < until)
            ]
        return records

    def _open_at(self, at: int) -> Iterator[Batch]:
        log = partition_log(self._cluster, self.partition)
        if log.start > at:
            raise RecordsDeleted(
                f"{self.partition} on {self.alias} now starts at offset {log.start}: records from offset "
                f"{at} on were deleted while they were compared.",
                advice="Audit it again.",
            )
        if self._terms.isolation == "read_committed":
            return committed_batches(self._cluster, log, at)
        stored = stored_batches(self._cluster, log, at, min(log.end, self.end))
        return (batch for batch in stored if not batch.header.is_control)


class WireCursor:
    """Reads a log forwards; see ``WireLog.cursor``."""

    def __init__(self, log: WireLog, at: int, *, keys: bool) -> None:
        self._log, self._keys, self._at = log, keys, at
        self._batches = log.batches(at)
        self._lists: Iterator[list[Record]] = iter(())
        self._ready = Entries.of()

    def take(self, records: int) -> Entries:
        """The next records, as many as asked for; fewer only at the end."""
        columns = _DigestColumns(times=self._log.times, keys=self._keys)
        while len(self._ready) + len(columns.offsets) < records:
            more = self._more()
            if more is None:
                break
            with corrupt_in(self._log.partition, self._log.alias):
                columns.add(more)
        entries = Entries.concat([self._ready, columns.result()])
        self._ready = entries.at(slice(records, None))
        return entries.at(slice(0, records))

    def skip(self, records: int) -> int:
        """Pass over a number of records; batches that are passed as a whole are not opened."""
        left = records - min(records, len(self._ready))
        self._ready = self._ready.at(slice(records, None))
        while left:
            if (opened := next(self._lists, None)) is not None:
                left = self._pass(opened, left)
                continue
            batch = next(self._batches, None)
            if batch is None:
                break
            if self._log.counts_whole(batch, self._at) and batch.header.records <= left:
                left -= batch.header.records
            else:
                self._lists = self._log.open(batch)
        return records - left

    def _pass(self, opened: list[Record], left: int) -> int:
        """Pass over opened records; returns how many are left to be passed."""
        remaining = [record for record in opened if record[0] >= self._at]
        if len(remaining) > left:
            columns = _DigestColumns(times=self._log.times, keys=self._keys)
            columns.add(remaining[left:])
            self._ready = columns.result()
        return max(0, left - len(remaining))

    def _more(self) -> list[Record] | None:
        while (opened := next(self._lists, None)) is None:
            batch = next(self._batches, None)
            if batch is None:
                return None
            self._lists = self._log.open(batch)
        if opened and opened[0][0] < self._at:
            return [record for record in opened if record[0] >= self._at]
        return opened


class _DigestColumns:
    """Builds ``Entries`` from records, in numeric arrays, which take less memory than lists."""

    def __init__(self, *, times: bool, keys: bool) -> None:
        self.offsets, self._digests, self._at = array("q"), array("Q"), array("q")
        self._keys, self._tombstones = array("Q"), array("b")
        self._times, self._with_keys = times, keys

    def add(self, records: Sequence[Record]) -> None:
        """Add records after the others."""
        digest = xxhash.xxh3_64_intdigest
        self.offsets.extend([record[0] for record in records])
        self._at.extend([record[1] for record in records])
        if self._times:
            # The timestamp is the digest's seed: two records are equal if content and timestamp are.
            digests = [digest(content, at & _64_BITS) for _, at, _, content in records]
        else:
            digests = [digest(content) for _, _, _, content in records]
        self._digests.extend(digests)
        if self._with_keys:
            bounds = [_bounds(record[3]) for record in records]
            self._keys.extend(
                [digest(record[3][:end]) for record, (end, _) in zip(records, bounds, strict=True)]
            )
            self._tombstones.extend([length < 0 for _, length in bounds])

    def result(self) -> Entries:
        """All of them."""
        tombstones = np.array(self._tombstones, np.bool_)
        return Entries.of(self.offsets, self._digests, self._at, self._keys, tombstones)


class _PartColumns:
    """Builds ``RecordParts`` from records."""

    def __init__(self) -> None:
        self.offsets, self._times = array("q"), array("q")
        self._parts = array("Q"), array("Q"), array("Q")
        self._nulls = array("b"), array("b")

    def add(self, records: Sequence[Record]) -> None:
        """Add records after the others."""
        digest = xxhash.xxh3_64_intdigest
        for offset, at, _, content in records:
            key_end, value_length = _bounds(content)
            value_end = decode_varint(content, key_end)[1] + max(0, value_length)
            spans = content[:key_end], content[key_end:value_end], content[value_end:]
            self.offsets.append(offset)
            self._times.append(at)
            for column, span in zip(self._parts, spans, strict=True):
                column.append(digest(span))
            self._nulls[0].append(decode_varint(content, 0)[0] < 0)
            self._nulls[1].append(value_length < 0)

    def result(self) -> RecordParts:
        """All of them."""
        keys, values, headers = (np.array(column, np.uint64) for column in self._parts)
        no_key, no_value = (np.array(column, np.bool_) for column in self._nulls)
        offsets, times = np.array(self.offsets, np.int64), np.array(self._times, np.int64)
        return RecordParts(offsets, keys, values, headers, times, no_key, no_value)


def _bounds(content: bytes) -> tuple[int, int]:
    """Where a record's key ends, its length included, which tells null from empty; and its value's length."""
    length, at = decode_varint(content, 0)
    at += max(0, length)
    return at, decode_varint(content, at)[0]
