"""Building a batch: anew for the few that a broker would refuse as they are, and from scratch for the ledger.

Records are decoded and encoded by kafka-python's record classes; key, value, headers and the
timestamp that consumers saw stay as they are, and so does the codec.
"""

from __future__ import annotations

from typing import Final

import google_crc32c
import zstandard
from kafka.record import default_records
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from kafka_ferry.batches.header import HEADER, PAYLOAD_FROM, Batch, BatchHeader, MalformedBatch

_GZIP: Final = 1
_ZSTD: Final = 4
_CODEC: Final = 0x07

# kafka-python finds only the package `crc32c` and otherwise computes at 6 MB/s in Python.
default_records.calc_crc32c = lambda view: google_crc32c.value(bytes(view))


def rebuild(batch: Batch, start: int, end: int) -> tuple[Batch | None, tuple[tuple[int, int], ...]]:
    """The records of ``batch`` with offsets in ``[start, end)``, as one dense batch.

    Args:
        batch: any v2 data batch.
        start: first source offset to keep.
        end: source offset after the last one to keep.

    Returns:
        The dense batch (None if no record lies in the interval), and the source offsets of its
        records as runs ``(first offset, count)``.

    Raises:
        MalformedBatch: if the records cannot be decoded.
    """
    try:
        records = [
            record
            for record in DefaultRecordBatch(_readable(batch))
            if start <= record.offset < end
        ]
    except Exception as error:  # codecs and the decoder raise a dozen unrelated types
        raise MalformedBatch(f"records that cannot be read: {error}") from error
    if not records:
        return None, ()
    builder = _builder(batch.header.codec)
    runs: list[tuple[int, int]] = []
    for delta, record in enumerate(records):
        builder.append(delta, record.timestamp, record.key, record.value, record.headers)
        if runs and sum(runs[-1]) == record.offset:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((record.offset, 1))
    return _built(builder), tuple(runs)


def single_record(key: bytes, value: bytes, timestamp_ms: int) -> Batch:
    """A batch of one gzipped record without headers."""
    builder = _builder(_GZIP)
    builder.append(0, timestamp_ms, key, value, [])
    return _built(builder)


def _builder(codec: int) -> DefaultRecordBatchBuilder:
    return DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=2**31 - 1,
    )


def _built(builder: DefaultRecordBatchBuilder) -> Batch:
    encoded = bytes(builder.build())
    return Batch(BatchHeader._make(HEADER.unpack_from(encoded)), encoded[PAYLOAD_FROM:])


def _readable(batch: Batch) -> bytes:
    if batch.header.codec != _ZSTD:
        return batch.encode()
    # kafka-python's zstd decoder stops at 1 MiB where the frame does not tell its size; Java's never does.
    plain = zstandard.ZstdDecompressor().decompressobj().decompress(batch.payload)
    header = batch.header._replace(
        attributes=batch.header.attributes & ~_CODEC,
        length=batch.header.length - len(batch.payload) + len(plain),
    )
    return Batch(header, plain).encode()
