"""Record batches as they lie in a partition's log, built by kafka-python and read back by it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import google_crc32c
from hypothesis import strategies as st
from kafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder
from kafka.record.util import encode_varint
from zstandard import ZstdCompressor

NOW: Final = 1_700_000_000_000
CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

_COMPRESS: Final[dict[int, Callable[[bytes], bytes]]] = {
    0: bytes,
    1: gzip_encode,
    2: snappy_encode,
    3: lz4_encode,
    4: zstd_encode,
}
_HEADER: Final = DefaultRecordBatchBuilder.HEADER_STRUCT
_FIELDS: Final = (
    "base_offset",
    "length",
    "leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
)

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record as its producer wrote it; the timestamp is in milliseconds since 1970."""

    timestamp: int = NOW
    key: bytes | None = b"key"
    value: bytes | None = b"value"
    headers: Headers = ()


class Consumed(NamedTuple):
    """A record as a consumer sees it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def a_batch(
    records: int | Sequence[Record] = 1,
    *,
    at: int = 0,
    deltas: Sequence[int] | None = None,
    codec: int = 0,
    base_timestamp: int | None = None,
    producer_id: int = -1,
    transactional: bool = False,
    append_time: int | None = None,
    **header: int,
) -> bytes:
    """A data batch.

    Args:
        records: the records, or how many of a plain sort.
        at: the base offset.
        deltas: the offset of each record after ``at``; 0, 1, 2 ... by default.
        codec: compresses even where that does not pay.
        base_timestamp: what the records' timestamps are stored relative to.
        producer_id: of the producer; its epoch and sequence can be given as ``header``.
        transactional: whether it is part of a transaction.
        append_time: makes it a LogAppendTime batch that was appended then.
        header: other header fields, as they shall be.
    """
    if isinstance(records, int):
        records = [Record(NOW + i, b"key %d" % i, b"value %d" % i) for i in range(records)]
    deltas = range(len(records)) if deltas is None else deltas
    builder = DefaultRecordBatchBuilder(2, 0, transactional, producer_id, -1, -1, 2**31 - 1)
    if base_timestamp is not None:
        # As after the log cleaner: the first record is not the one that the base was taken from.
        builder._first_timestamp = builder._max_timestamp = base_timestamp
    for delta, record in zip(deltas, records, strict=True):
        builder.append(delta, *record)
    encoded = bytes(builder.build())
    attributes = codec | TRANSACTIONAL * transactional
    if append_time is not None:
        attributes |= LOG_APPEND_TIME
        header = {"max_timestamp": append_time, **header}
    payload = _COMPRESS[codec](encoded[_HEADER.size :])
    return with_payload(
        encoded,
        payload,
        **{"base_offset": at, "leader_epoch": 3, "attributes": attributes, **header},
    )


def a_bomb(mebibytes: int, *, at: int = 0, cut: int = 0) -> bytes:
    """A zstd batch of so many records of a mebibyte of zeros, in a few hundred bytes for each.

    Args:
        mebibytes: how many.
        at: the base offset.
        cut: how many bytes are missing at the end of what was compressed.
    """
    packer = ZstdCompressor().compressobj()
    parts = []
    for delta in range(mebibytes):
        value = bytes(1024 * 1024)
        inside = b"\0\0" + _varint(delta) + _varint(-1) + _varint(len(value)) + value + b"\0"
        parts.append(packer.compress(_varint(len(inside)) + inside))
    payload = b"".join((*parts, packer.flush()))
    header = {"base_offset": at, "attributes": CODECS["zstd"]}
    return with_payload(a_batch(mebibytes), payload[: len(payload) - cut], **header)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    encode_varint(number, encoded.append)
    return bytes(encoded)


def an_empty_batch(*, at: int, last_offset_delta: int, **more: Any) -> bytes:
    """What the log cleaner keeps of a producer's last batch when all its records are gone."""
    return a_batch((), at=at, last_offset_delta=last_offset_delta, **more)


def a_marker(*, at: int, producer_id: int, commit: bool, epoch: int = 0) -> bytes:
    """The control batch that ends a transaction."""
    record = Record(NOW, struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0))
    return a_batch(
        [record],
        at=at,
        producer_id=producer_id,
        attributes=TRANSACTIONAL | CONTROL,
        producer_epoch=epoch,
    )


def a_message_set(
    records: Sequence[Record],
    *,
    at: int = 0,
    magic: int = 1,
    codec: int = 0,
    deltas: Sequence[int] | None = None,
    append_time: int | None = None,
) -> bytes:
    """Messages of the formats v0 or v1, wrapped in one message if there is a codec.

    Args:
        records: the records, without headers.
        at: the offset of the first one.
        magic: the message format.
        codec: 0 to 3.
        deltas: the offset of each record after ``at``; 0, 1, 2 ... by default.
        append_time: makes them LogAppendTime messages that were appended then.
    """
    deltas = range(len(records)) if deltas is None else deltas
    relative = magic == 1 and codec
    builder = LegacyRecordBatchBuilder(magic, codec, 2**31 - 1)
    for delta, record in zip(deltas, records, strict=True):
        offset = delta - deltas[0] if relative else at + delta
        builder.append(offset, record.timestamp, record.key, record.value)
    built = bytes(builder.build())
    if codec:
        built = _with_message_header(built, offset=at + deltas[-1], timestamp=records[-1].timestamp)
    if append_time is None or magic == 0:
        return built
    return b"".join(
        _with_message_header(message, timestamp=append_time, flags=LOG_APPEND_TIME)
        for message in messages_of(built)
    )


def messages_of(message_set: bytes) -> list[bytes]:
    """The messages one by one; a wrapper is one."""
    found, at = [], 0
    while at < len(message_set):
        size = 12 + int.from_bytes(message_set[at + 8 : at + 12])
        found.append(message_set[at : at + size])
        at += size
    return found


def _with_message_header(
    message: bytes, *, offset: int | None = None, timestamp: int | None = None, flags: int = 0
) -> bytes:
    changed = bytearray(message)
    if offset is not None:
        struct.pack_into(">q", changed, 0, offset)
    changed[17] |= flags
    if timestamp is not None and changed[16] == 1:
        struct.pack_into(">q", changed, 18, timestamp)
    return with_message_crc(bytes(changed))


def with_message_crc(message: bytes) -> bytes:
    """A message of the formats v0 or v1 with the CRC that is right."""
    return message[:12] + zlib.crc32(message[16:]).to_bytes(4) + message[16:]


def consumed_of_messages(message_set: bytes) -> list[Consumed]:
    """The records of messages of the formats v0 or v1, as kafka-python decodes them."""
    return [
        Consumed(r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value, ())
        for message in messages_of(message_set)
        for r in LegacyRecordBatch(message, message[16])
    ]


def with_payload(batch: bytes, payload: bytes, **header: int) -> bytes:
    """``batch`` with other bytes after its header, and with a length and a CRC that are right."""
    length = _HEADER.size - 12 + len(payload)
    return with_header(batch[: _HEADER.size] + payload, **{"length": length, **header})


def with_header(batch: bytes, **header: int) -> bytes:
    """``batch`` with other header fields, and with a CRC that is right."""
    fields = header_of(batch) | header
    changed = bytearray(_HEADER.pack(*(fields[name] for name in _FIELDS)) + batch[_HEADER.size :])
    if "crc" not in header:
        struct.pack_into(">I", changed, 17, google_crc32c.value(bytes(changed[21:])))
    return bytes(changed)


def header_of(batch: bytes) -> dict[str, int]:
    """The header's fields by name."""
    return dict(zip(_FIELDS, _HEADER.unpack_from(batch), strict=True))


def consumed(batch: bytes) -> list[Consumed]:
    """The records of one batch, as kafka-python decodes them."""
    return [
        Consumed(r.offset, r.timestamp, r.key, r.value, tuple(r.headers))
        for r in DefaultRecordBatch(batch)
    ]


def as_consumed(records: Iterable[Record], offsets: Iterable[int]) -> list[Consumed]:
    """What a consumer sees of ``records`` at ``offsets``."""
    return [Consumed(offset, *record) for offset, record in zip(offsets, records, strict=True)]


_texts = st.text(max_size=4)
_bytes = st.binary(max_size=12) | st.binary(min_size=1, max_size=3).map(lambda some: some * 50)

codecs = st.sampled_from(list(CODECS.values()))
records = st.builds(
    Record,
    timestamp=st.integers(-(2**41), 2**45),
    key=st.none() | _bytes,
    value=st.none() | _bytes,
    # The sampled name is there to be repeated.
    headers=st.lists(
        st.tuples(st.sampled_from(["name"]) | _texts, st.none() | _bytes), max_size=3
    ).map(tuple),
)
