"""Records inside a batch: read, and written as a dense batch.

Key, value and headers are copied as undecoded bytes, so that nothing about them can change (not even a
header's name that is not UTF-8); a record's offset and timestamp, which are relative to its batch's
header, are encoded again. Record layout: ``org.apache.kafka.common.record.DefaultRecord``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Final

from kafka_ferry.batches.record_format.codecs import (
    GZIP,
    MAX_PLAIN_BYTES,
    OPENED_AT_ONCE,
    TooLarge,
    compress,
    compress_tightly,
    decompress,
    decompress_chunks,
)
from kafka_ferry.batches.record_format.content import Content
from kafka_ferry.batches.record_format.header import HEADER, Batch, BatchHeader, MalformedBatch
from kafka_ferry.batches.record_format.varint import (
    SMALL,
    VARINT_BYTES,
    decode_varint,
    decode_varlong,
    encode_varint,
)

_MAGIC: Final = 2
_LENGTH_COUNTS_FROM: Final = 12
_SMALL: Final = len(SMALL)

# A record takes some 200 bytes of memory in addition to its content, and as few as 7 in a batch.
MAX_RECORDS: Final = 4_000_000

_PIECE_BYTES: Final = 1024 * 1024
# Text may be so many times as long as its compressed bytes.
_UNPACKED: Final = 8

Record = tuple[int, int, bytes, bytes]
"""Offset, timestamp (ms), attributes (a byte), content: key, value and headers. Plain, for speed."""

# A timestamp within these bounds stays within 64 bits where a small number is added to it.
_FAR: Final = 2**62
Runs = tuple[tuple[int, int], ...]
"""Consecutive record offsets as ``(first offset, count)``, ascending."""


def read_records(batch: Batch, limit: int = MAX_PLAIN_BYTES) -> list[Record]:
    """The records of a batch, with the timestamps that consumers see.

    Args:
        batch: the batch.
        limit: the maximum number of their encoded bytes.

    Raises:
        MalformedBatch: if they cannot be read, or are more than the batch has offsets; ``TooLarge`` if they are more
            than ``limit`` bytes.
    """
    header = batch.header
    with _name_batch(header):
        if header.records > MAX_RECORDS:
            raise TooLarge(f"{header.records} records, where {MAX_RECORDS} can be rebuilt")
        plain = decompress(batch.payload, header.codec, limit)
        records = _walk(plain, header, header.records, header.records)
        return _at_append_time(records, header) if header.is_log_append_time else records


def _longest(batch: Batch) -> int:
    """How many encoded bytes a record of a batch may have: some kilobytes may unpack to half a gibibyte of one."""
    return min(MAX_PLAIN_BYTES, max(2 * OPENED_AT_ONCE, _UNPACKED * len(batch.payload)))


def stream_records(batch: Batch, most: int | None = None) -> Iterator[list[Record]]:
    """The records, a mebibyte or so at a time: as many as are whole by then.

    Args:
        batch: the batch.
        most: the maximum number of a record's encoded bytes; by default twice ``OPENED_AT_ONCE``, or what text in so
            many compressed bytes may have.

    Raises:
        MalformedBatch: as of ``read_records``; the records before stay right.
    """
    header, left, expected = batch.header, batch.header.records, 0
    most = _longest(batch) if most is None else most
    rest: list[bytes] = []
    size = needed = 0
    with _name_batch(header):
        for chunk in _pieces(decompress_chunks(batch.payload, header.codec)):
            rest.append(chunk)
            size += len(chunk)
            if size < needed:
                continue
            plain = b"".join(rest)
            count, end, needed = _whole(plain, left)
            if max(size - end, needed) > most:
                raise TooLarge(f"a record of more than {most} bytes")
            rest, size = [plain[end:]], size - end
            if count:
                records = _walk(plain[:end], header, count, left, expected)
                left -= count
                expected = records[-1][0] - header.base_offset + 1
                # Only the records are in memory meanwhile: one may be half a gibibyte.
                del plain
                yield _at_append_time(records, header) if header.is_log_append_time else records
                del records
            if size and not left:
                raise MalformedBatch(f"{size} bytes after the last record")
        if left:
            raise IndexError


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Chunks of a mebibyte at most: the records of one take many times as much memory, and a codec divides none."""
    for chunk in chunks:
        if len(chunk) <= _PIECE_BYTES:
            yield chunk
            continue
        for at in range(0, len(chunk), _PIECE_BYTES):
            yield chunk[at : at + _PIECE_BYTES]


def each_record(batch: Batch, most: int | None = None) -> Iterator[Record]:
    """The records one after the other: of a batch that few kilobytes make large, few are in memory at a time.

    Args:
        batch: the batch.
        most: as of ``stream_records``.

    Raises:
        MalformedBatch: as of ``stream_records``.
    """
    return chain.from_iterable(stream_records(batch, most))


def _whole(plain: bytes, most: int) -> tuple[int, int, int]:
    """How many whole records ``plain`` begins with, where they end, and how much the next one needs from there."""
    at = count = 0
    while count < most and at < len(plain):
        try:
            length, begin = decode_varint(plain, at)
        except MalformedBatch:
            if len(plain) - at >= VARINT_BYTES:
                raise
            return count, at, 0
        if not 0 <= length <= len(plain) - begin:
            return count, at, begin - at + max(length, 0)
        at, count = begin + length, count + 1
    return count, at, 0


@contextmanager
def _name_batch(header: BatchHeader) -> Iterator[None]:
    """Name the batch whose records cannot be read."""
    prefix = f"a batch at offset {header.base_offset} that cannot be read"
    try:
        yield
    except IndexError as error:
        raise MalformedBatch(f"{prefix}: records are cut off") from error
    except MalformedBatch as error:
        raise type(error)(f"{prefix}: {error}") from error


def _at_append_time(records: list[Record], header: BatchHeader) -> list[Record]:
    append_time = header.max_timestamp
    return [
        (offset, append_time, attributes, content) for offset, _, attributes, content in records
    ]


def _walk(  # noqa: PLR0912
    plain: bytes, header: BatchHeader, count: int, left: int, expected: int = 0
) -> list[Record]:
    """``count`` of the ``left`` last records, from ``expected`` offsets after the batch's first one on.

    Of batches that are not compressed brokers never look at where a record says that it is: any producer may write
    any number there. Such a record is at the next offset that it may have, in the order of the batch.

    Numbers of one and two bytes are decoded in place, since a call for each costs more than all else.
    """
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    # Where the first one is at most, so that those after it have an offset each.
    most = header.last_offset_delta + 1 - left
    if most < expected:
        raise MalformedBatch(f"{left} records at {most + left - expected} offsets")
    records: list[Record] = []
    append = records.append
    at, size = 0, len(plain)
    for _ in range(count):
        number = plain[at]
        if number < 0x80:
            at += 1
        elif (second := plain[at + 1]) < 0x80:
            number = number & 0x7F | second << 7
            at += 2
        else:
            signed, at = decode_varint(plain, at)
            number = 2 * signed
        end = at + (number >> 1)
        number = plain[at + 1]
        if number < 0x80:
            after = at + 2
            delta_ms = number >> 1 ^ -(number & 1)
        elif (second := plain[at + 2]) < 0x80:
            number = number & 0x7F | second << 7
            after = at + 3
            delta_ms = number >> 1 ^ -(number & 1)
        else:
            delta_ms, after = decode_varlong(plain, at + 1)
            delta_ms = _wrap(base_timestamp + delta_ms) - base_timestamp
        number = plain[after]
        if number < 0x80:
            after += 1
            delta = number >> 1 ^ -(number & 1)
        elif (second := plain[after + 1]) < 0x80:
            after += 2
            number = number & 0x7F | second << 7
            delta = number >> 1 ^ -(number & 1)
        else:
            delta, after = decode_varint(plain, after)
        if not expected <= delta <= most:
            delta = min(max(delta, expected), most)
        if not after <= end <= size:
            raise MalformedBatch(f"a record of {end - at} bytes where there are fewer or more")
        append(
            (base_offset + delta, base_timestamp + delta_ms, plain[at : at + 1], plain[after:end])
        )
        expected = delta + 1
        most += 1
        at = end
    if at != size:
        raise MalformedBatch(f"{size - at} bytes after the last record")
    if not -_FAR <= base_timestamp < _FAR:
        return [(offset, _wrap(ms), kind, content) for offset, ms, kind, content in records]
    return records


def _wrap(number: int) -> int:
    """``number`` as it is in 64 bits: clients add and subtract timestamps so (``DefaultRecord``), and so do we."""
    return (number + 2**63) % 2**64 - 2**63


def runs_of(records: Sequence[Record]) -> Runs:
    """The offsets of ``records``, which ascend."""
    if not records:
        return ()
    first, last = records[0][0], records[-1][0]
    if last - first == len(records) - 1:
        return ((first, len(records)),)
    runs: list[tuple[int, int]] = []
    expected = first
    for record in records:
        offset = record[0]
        if offset != expected:
            runs.append((first, expected - first))
            first = offset
        expected = offset + 1
    return (*runs, (first, expected - first))


def split_at_gaps(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Ascending ``records`` in parts, each with consecutive offsets."""
    at = 0
    for _, count in runs_of(records):
        yield records[at : at + count]
        at += count


def dense_batch(
    records: Sequence[Record], codec: int, *, at: int = 0, deltas: Sequence[int] | None = None
) -> Batch:
    """A CreateTime batch of ``records``, one or more.

    Args:
        records: in their order; where they were does not matter.
        codec: to compress them with.
        at: the batch's base offset.
        deltas: where after ``at`` each record is; 0, 1, 2 ... by default, as producers must have it.

    Raises:
        MalformedBatch: on a timestamp that 64 bits do not hold.
    """
    if deltas is None:
        deltas = range(len(records))
    plain = _encode(records, deltas)
    timestamps = [record[1] for record in records]
    if not -(2**63) <= min(timestamps) <= max(timestamps) < 2**63:
        raise MalformedBatch("a timestamp that 64 bits do not hold")
    return packed_batch(
        plain,
        codec,
        records=len(records),
        at=at,
        last_offset_delta=deltas[-1],
        base_timestamp=timestamps[0],
        max_timestamp=max(timestamps),
    )


def packed_batch(
    plain: bytes | bytearray,
    codec: int,
    *,
    records: int,
    base_timestamp: int,
    max_timestamp: int,
    at: int = 0,
    last_offset_delta: int | None = None,
) -> Batch:
    """The CreateTime batch with ``plain`` as its records, one after the other as they are encoded.

    Args:
        plain: the records.
        codec: to compress them with.
        records: how many they are.
        base_timestamp: what their times are relative to.
        max_timestamp: the latest of their times.
        at: the batch's base offset.
        last_offset_delta: where after ``at`` the last one is; by default they are dense.
    """
    payload = compress(plain, codec)
    header = BatchHeader(
        base_offset=at,
        length=HEADER.size - _LENGTH_COUNTS_FROM + len(payload),
        leader_epoch=-1,
        magic=_MAGIC,
        crc=0,
        attributes=codec,
        last_offset_delta=records - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records=records,
    )
    return Batch(header, payload).with_crc()


def _encode(records: Sequence[Record], deltas: Sequence[int]) -> bytes:
    base_timestamp = records[0][1]
    parts: list[bytes] = []
    for delta, (_, timestamp, attributes, rest) in zip(deltas, records, strict=True):
        ago = timestamp - base_timestamp
        if not -_FAR <= ago < _FAR:
            ago = _wrap(ago)
        when = SMALL[ago] if 0 <= ago < _SMALL else encode_varint(ago)
        where = SMALL[delta] if delta < _SMALL else encode_varint(delta)
        size = 1 + len(when) + len(where) + len(rest)
        parts += (
            SMALL[size] if size < _SMALL else encode_varint(size),
            attributes,
            when,
            where,
            rest,
        )
    return b"".join(parts)


def fitting_batches(
    records: Sequence[Record], codec: int, max_bytes: int
) -> Iterator[tuple[Batch, Runs]]:
    """``records`` as dense batches of at most ``max_bytes`` each, unless a single record is larger, however packed.

    Yields:
        The batches, and the source offsets of their records.
    """
    if not records:
        return
    batch = dense_batch(records, codec)
    size = batch.header.size
    if size <= max_bytes or len(records) == 1:
        yield (batch if size <= max_bytes else _pack_tightly(batch)), runs_of(records)
        return
    for part in _divide(records, -(-size // max_bytes)):
        yield from fitting_batches(part, codec, max_bytes)


def _pack_tightly(batch: Batch) -> Batch:
    """The batch in the fewest bytes: its producer may have compressed it more, so that it was not too large."""
    codec = batch.header.codec
    payload = compress_tightly(decompress(batch.payload, codec), codec)
    saved = len(batch.payload) - len(payload)
    if saved <= 0:
        return batch
    header = batch.header._replace(length=batch.header.length - saved)
    return Batch(header, payload).with_crc()


def _divide(records: Sequence[Record], parts: int) -> Iterator[Sequence[Record]]:
    """``records`` in at least two parts, of about as many bytes each; there are two records or more."""
    share = sum(len(record[3]) for record in records) / parts
    begin, size = 0, 0
    for i, record in enumerate(records):
        size += len(record[3])
        if size > share and i > begin:
            yield records[begin:i]
            begin, size = i, len(record[3])
    yield records[begin:]


def single_record(key: bytes, value: bytes | None, timestamp_ms: int) -> Batch:
    """A batch of one gzipped record without headers; a tombstone where it has no value."""
    return dense_batch([(0, timestamp_ms, b"\0", Content(key, value).encode())], GZIP)
