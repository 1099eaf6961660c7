"""Records inside a batch: renumbered where a broker would refuse the batch as it is.

Key, value and headers are moved as the bytes that they are, undecoded, so that nothing about them
can change; a record's offset and, where the broker's time counts, its timestamp are written anew.
Record layout: ``org.apache.kafka.common.record.DefaultRecord``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from kafka import codec
from kafka.record.util import decode_varint, encode_varint

from kafka_ferry.batches.header import HEADER, Batch, BatchHeader, MalformedBatch

_GZIP: Final = 1
_MAGIC: Final = 2
_LENGTH_COUNTS_FROM: Final = 12


_DECODE: Final[dict[int, Callable[[bytes], bytes]]] = {
    0: bytes,
    1: codec.gzip_decode,
    2: codec.snappy_decode,
    3: codec.lz4_decode,
    4: codec.zstd_decode,
}
_ENCODE: Final[dict[int, Callable[[bytes], bytes]]] = {
    0: bytes,
    1: codec.gzip_encode,
    2: codec.snappy_encode,
    3: codec.lz4_encode,
    4: codec.zstd_encode,
}


class _Record(NamedTuple):
    """A record: ``rest`` is everything behind its offset, key, value and headers."""

    offset: int
    timestamp: int
    attributes: int
    rest: bytes


def rebuild(batch: Batch, start: int, end: int) -> tuple[Batch | None, tuple[tuple[int, int], ...]]:
    """The records of ``batch`` with offsets in ``[start, end)``, as one dense CreateTime batch.

    Args:
        batch: any v2 data batch.
        start: first source offset to keep.
        end: source offset after the last one to keep.

    Returns:
        The dense batch, of the same codec (None if no record lies in the interval), and the source
        offsets of its records as runs ``(first offset, count)``.

    Raises:
        MalformedBatch: if the records cannot be read.
    """
    try:
        records = [record for record in _records(batch) if start <= record.offset < end]
        dense = _dense(records, batch.header.codec) if records else None
    except Exception as error:  # codecs raise a dozen unrelated types
        raise MalformedBatch(f"records that cannot be read: {error}") from error
    runs: list[tuple[int, int]] = []
    for record in records:
        if runs and sum(runs[-1]) == record.offset:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((record.offset, 1))
    return dense, tuple(runs)


def single_record(key: bytes, value: bytes, timestamp_ms: int) -> Batch:
    """A batch of one gzipped record without headers."""
    rest = bytearray()
    for part in (key, value):
        encode_varint(len(part), rest.append)
        rest += part
    encode_varint(0, rest.append)
    return _dense([_Record(0, timestamp_ms, 0, bytes(rest))], _GZIP)


def _records(batch: Batch) -> Iterator[_Record]:
    """The records in order; each offset lies in the batch and behind the one before."""
    header = batch.header
    if header.codec not in _DECODE:
        raise MalformedBatch(f"the codec {header.codec}, which Kafka does not have")
    plain = _DECODE[header.codec](batch.payload)
    at, expected = 0, header.base_offset
    for _ in range(header.records):
        length, begin = decode_varint(plain, at)
        at = begin + length
        delta_ms, behind = decode_varint(plain, begin + 1)
        delta, behind = decode_varint(plain, behind)
        offset = header.base_offset + delta
        if not behind <= at <= len(plain):
            raise MalformedBatch(f"a record of {length} bytes where there are fewer or more")
        if not expected <= offset < header.next_offset:
            raise MalformedBatch(f"a record at offset {offset} where {expected} or more must be")
        seen = (
            header.max_timestamp if header.is_log_append_time else header.base_timestamp + delta_ms
        )
        yield _Record(offset, seen, plain[begin], plain[behind:at])
        expected = offset + 1
    if at != len(plain):
        raise MalformedBatch(f"{len(plain) - at} bytes behind the last record")


def _dense(records: Sequence[_Record], codec_number: int) -> Batch:
    base_timestamp = records[0].timestamp
    plain = bytearray()
    for delta, record in enumerate(records):
        body = bytearray([record.attributes])
        encode_varint(record.timestamp - base_timestamp, body.append)
        encode_varint(delta, body.append)
        body += record.rest
        encode_varint(len(body), plain.append)
        plain += body
    payload = _ENCODE[codec_number](bytes(plain))
    header = BatchHeader(
        base_offset=0,
        length=HEADER.size - _LENGTH_COUNTS_FROM + len(payload),
        leader_epoch=-1,
        magic=_MAGIC,
        crc=0,
        attributes=codec_number,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records=len(records),
    )
    return Batch(header, payload).with_crc()
