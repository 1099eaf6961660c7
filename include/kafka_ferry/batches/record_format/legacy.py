"""Message formats v0 and v1, which brokers before 0.11 wrote and which may stay in a log for ever.

Layout: kafka-python's ``legacy_records``; rules: ``AbstractLegacyRecordBatch`` of Kafka. A message
is a record, or it wraps a compressed set of messages. In a v1 set, offsets count from 0 and the
wrapper has the last one's offset and, with LogAppendTime, the time of all; in a v0 set they are
absolute. Neither has headers, transactions or leader epochs.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import xxhash
from kafka.record.legacy_records import LegacyRecordBatch

from kafka_ferry.batches.record_format.codecs import LZ4, OPENED_AT_ONCE, decompress
from kafka_ferry.batches.record_format.content import Content
from kafka_ferry.batches.record_format.header import Batch, MalformedBatch
from kafka_ferry.batches.record_format.records import Record, dense_batch

_LOG_OVERHEAD: Final = 12
_CHECKED_FROM: Final = 16
_ATTRIBUTES_AT: Final = 17
_CODEC: Final = 0x07
_LENGTHS: Final = 8  # of key and value
_HEADER_BYTES: Final = {0: 18, 1: 26}
_MAX_STRETCH_BYTES: Final = 512 * 1024
_MAX_DELTA: Final = 2**31 - 1
# A set is rebuilt as a whole. Ten megabytes of it may hold millions of messages, of which each takes some 600 bytes.
_MAX_SET_BYTES: Final = 2 * OPENED_AT_ONCE


def legacy_batch(records: bytes, at: int) -> tuple[Batch, int]:
    """The whole message at byte ``at`` as a v2 batch, its CRC checked.

    Uncompressed messages in a row become one batch, as far as they are whole.

    Returns:
        The batch, of the message's codec, and where the next one is.

    Raises:
        MalformedBatch: if the bytes are not a message of v0 or v1.
    """
    message = _message_at(records, at)
    stop = at + len(message)
    magic, codec = message[_CHECKED_FROM], message[_ATTRIBUTES_AT] & _CODEC
    if codec:
        parsed = _unwrap(message, magic, codec)
    else:
        parsed = [_record(message)]
        while following := _next_of_stretch(records, stop, magic):
            record = _record(following)
            if not parsed[-1][0] < record[0] <= parsed[0][0] + _MAX_DELTA:
                break
            parsed.append(record)
            stop += len(following)
            if stop - at > _MAX_STRETCH_BYTES:
                break
    return _as_batch(parsed, codec, magic), stop


def _as_batch(records: Sequence[Record], codec: int, magic: int) -> Batch:
    base = records[0][0]
    deltas = [record[0] - base for record in records]
    ascending = all(one < other for one, other in pairwise(deltas))
    if base < 0 or deltas[-1] > _MAX_DELTA or not ascending:
        raise MalformedBatch(f"messages whose offsets from {base} on do not ascend")
    return replace(dense_batch(records, codec, at=base, deltas=deltas), stored_format=magic)


def _next_of_stretch(records: bytes, at: int, magic: int) -> bytes:
    """The next message if it is a whole and uncompressed one of the same format, else nothing."""
    size = int.from_bytes(records[at + 8 : at + _LOG_OVERHEAD], "big", signed=True) + _LOG_OVERHEAD
    if size < _HEADER_BYTES[magic] or at + size > len(records):
        return b""
    if records[at + _CHECKED_FROM] != magic or records[at + _ATTRIBUTES_AT] & _CODEC:
        return b""
    return _message_at(records, at)


def _message_at(plain: bytes, at: int) -> bytes:
    """The message at byte ``at``, its CRC checked."""
    size = int.from_bytes(plain[at + 8 : at + _LOG_OVERHEAD], "big", signed=True) + _LOG_OVERHEAD
    message = plain[at : at + size] if size > _CHECKED_FROM else b""
    magic = message[_CHECKED_FROM] if len(message) > _CHECKED_FROM else 0
    if magic not in _HEADER_BYTES:
        raise MalformedBatch(f"message format v{magic} at byte {at}; Kafka has v0, v1 and v2")
    if len(message) < max(size, _HEADER_BYTES[magic] + _LENGTHS):
        raise MalformedBatch(f"a message of {len(message)} bytes at byte {at}")
    if zlib.crc32(message[_CHECKED_FROM:]) != int.from_bytes(message[_LOG_OVERHEAD:_CHECKED_FROM]):
        offset = int.from_bytes(message[:8], "big", signed=True)
        raise MalformedBatch(f"the CRC of the message at offset {offset} does not match")
    return message


def _record(message: bytes) -> Record:
    decoded = _decode(message)
    timestamp = -1 if decoded.timestamp is None else decoded.timestamp
    return decoded.offset, timestamp, b"\0", Content(decoded.key, decoded.value).encode()


def _unwrap(wrapper: bytes, magic: int, codec: int) -> list[Record]:
    """The records in a compressed message."""
    if codec > LZ4:
        raise MalformedBatch(f"the codec {codec}, which format v{magic} does not have")
    # Without its codec, the wrapper is a message that kafka-python does not decompress.
    attributes = wrapper[_ATTRIBUTES_AT]
    plain_one = (
        wrapper[:_ATTRIBUTES_AT] + bytes([attributes & ~_CODEC]) + wrapper[_ATTRIBUTES_AT + 1 :]
    )
    decoded = _decode(plain_one)
    packed = decoded.value or b""
    if codec == LZ4 and magic == 0:
        packed = _with_checksum(packed)
    plain = decompress(packed, codec, _MAX_SET_BYTES)
    records = [_record(message) for message in _messages(plain, magic)]
    if not records:
        raise MalformedBatch(f"a compressed message at offset {decoded.offset} that holds none")
    if magic == 0:
        return records
    shift = decoded.offset - records[-1][0]
    append_time = (
        decoded.timestamp if decoded.timestamp_type == LegacyRecordBatch.LOG_APPEND_TIME else None
    )
    return [
        (offset + shift, timestamp if append_time is None else append_time, attributes, rest)
        for offset, timestamp, attributes, rest in records
    ]


def _messages(plain: bytes, magic: int) -> Iterator[bytes]:
    at = 0
    while at < len(plain):
        message = _message_at(plain, at)
        if message[_CHECKED_FROM] != magic or message[_ATTRIBUTES_AT] & _CODEC:
            raise MalformedBatch("a message in a compressed one that is of another kind")
        yield message
        at += len(message)


def _decode(message: bytes) -> Any:
    magic = message[_CHECKED_FROM]
    try:
        [record] = LegacyRecordBatch(message, magic)
    except Exception as error:  # struct's errors and assertions
        raise MalformedBatch(f"a message that cannot be read: {error}") from error
    size = _HEADER_BYTES[magic] + _LENGTHS + len(record.key or b"") + len(record.value or b"")
    if size != len(message):
        raise MalformedBatch(f"a message of {len(message)} bytes that says {size} of itself")
    return record


def _with_checksum(frame: bytes) -> bytes:
    """An lz4 frame as old clients wrote it, with the header checksum that it should have (KAFKA-3160)."""
    if len(frame) < 7:
        raise MalformedBatch("an lz4 frame that is cut off")
    at = 14 if frame[4] & 0x08 else 6
    checksum = xxhash.xxh32(frame[4:at]).intdigest() >> 8 & 0xFF
    return frame[:at] + bytes([checksum]) + frame[at + 1 :]
