"""The header of a record batch, format v2: reading it, and giving a batch to another producer.

Layout and CRC coverage: ``org.apache.kafka.common.record.DefaultRecordBatch``. The CRC-32C covers
everything from the attributes (byte 21) to the end, so the base offset, the length, the leader
epoch and the magic byte may change without a new one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

import google_crc32c

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CHECKED_HEADER: Final = struct.Struct(">hiqqqhii")
_LOG_OVERHEAD: Final = 12
PAYLOAD_FROM: Final = HEADER.size

_CODEC: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_DELETE_HORIZON: Final = 0x40

NEWEST_FORMAT: Final = 2
"""The message format of batches; older ones are of single messages."""
MAX_SEQUENCE: Final = 2**31 - 1


class BatchHeader(NamedTuple):
    """The fields of a batch header in their order on the wire; times are milliseconds since 1970."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + _LOG_OVERHEAD

    @property
    def next_offset(self) -> int:
        """The offset after the last one that the batch stands for, compacted records included."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & _CODEC

    @property
    def encoding(self) -> int:
        """``codec``, plus 8 where the broker's clock gave the records their time (``is_log_append_time``)."""
        return self.attributes & (_CODEC | _LOG_APPEND_TIME)

    @property
    def is_log_append_time(self) -> bool:
        """Whether consumers see ``max_timestamp`` for every record."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the log cleaner has rewritten it, with the time until which it keeps tombstones."""
        return bool(self.attributes & _DELETE_HORIZON)

    @property
    def is_control(self) -> bool:
        """Whether the batch is a marker that no consumer sees."""
        return bool(self.attributes & _CONTROL)


@dataclass(frozen=True, slots=True)
class Batch:
    """One record batch.

    Attributes:
        header: its header.
        payload: the bytes after the header as they came (compressed or not).
        stored_format: the message format from which it was made, 2 if it is as it was stored.
    """

    header: BatchHeader
    payload: bytes
    stored_format: int = NEWEST_FORMAT

    @property
    def crc_matches(self) -> bool:
        """Whether the CRC in the header is that of the bytes."""
        return crc_of(self.header, self.payload) == self.header.crc

    def with_crc(self) -> Batch:
        """The batch with the CRC of its bytes."""
        return Batch(self.header._replace(crc=crc_of(self.header, self.payload)), self.payload)

    def encode(self) -> bytes:
        """The whole batch, header as it is."""
        return HEADER.pack(*self.header) + self.payload


class MalformedBatch(ValueError):
    """Bytes that cannot be a record batch; the message says why."""


def crc_of(header: BatchHeader, payload: bytes) -> int:
    """The CRC-32C that ``header`` should carry."""
    checked = _CHECKED_HEADER.pack(*header[5:])
    return int(google_crc32c.extend(google_crc32c.value(checked), payload))


def for_producer(
    batch: Batch, *, producer_id: int, epoch: int, sequence: int, transactional: bool = True
) -> bytes:
    """``batch`` as our own producer sends it, with unchanged records.

    The base offset becomes 0 (brokers refuse anything else from a client), the leader epoch -1, the
    delete horizon is cleared (the target's cleaner would use the source's), and the CRC is recomputed.

    Args:
        batch: a dense batch: ``count == last_offset_delta + 1``, CreateTime, not a control batch.
        producer_id: of our producer.
        epoch: of our producer.
        sequence: of the batch's first record, 0 to 2^31 - 1.
        transactional: whether it is part of a transaction of ours, regardless of the source.

    Returns:
        The whole batch for the ``records`` field of a produce request.
    """
    attributes = batch.header.attributes & ~(_DELETE_HORIZON | _TRANSACTIONAL)
    if transactional:
        attributes |= _TRANSACTIONAL
    header = batch.header._replace(
        base_offset=0,
        leader_epoch=-1,
        attributes=attributes,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return Batch(header, batch.payload).with_crc().encode()


def next_sequence(sequence: int, count: int) -> int:
    """The sequence number after ``count`` records from ``sequence`` on (``DefaultRecordBatch.incrementSequence``)."""
    following = sequence + count
    return following if following <= MAX_SEQUENCE else following - MAX_SEQUENCE - 1
