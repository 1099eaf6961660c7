"""The batches in the ``records`` field of a fetch response, of every message format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_ferry.batches.epochs import UNKNOWN_EPOCH
from kafka_ferry.batches.record_format.header import (
    HEADER,
    PAYLOAD_FROM,
    Batch,
    BatchHeader,
    MalformedBatch,
)
from kafka_ferry.batches.record_format.legacy import legacy_batch

_LOG_OVERHEAD: Final = 12
_MAGIC_AT: Final = 16


def split_batches(records: bytes) -> Iterator[Batch]:
    """The whole batches in the ``records`` field of a fetch response, in order.

    The last batch may be cut off, since brokers fill a response to the byte: it is left out.
    Messages of the formats v0 and v1 come as v2 batches with the same records, uncompressed ones
    in a row as one; their ``stored_format`` tells, and their CRCs have been checked.

    Raises:
        MalformedBatch: on a length, a magic byte, a count or an order that no broker writes.
    """
    at, expected = 0, 0
    while stop := _end_of_batch(records, at):
        if records[at + _MAGIC_AT] == 2:
            batch = _batch(records, at, stop)
        else:
            batch, stop = legacy_batch(records, at)
        if batch.header.base_offset < expected:
            raise MalformedBatch(
                f"a batch at offset {batch.header.base_offset} after offset {expected - 1}"
            )
        yield batch
        at, expected = stop, batch.header.next_offset


def first_past(records: bytes, offset: int) -> Batch | None:
    """The first whole batch that reaches past ``offset``; None where there is none.

    Raises:
        MalformedBatch: as ``split_batches``.
    """
    return next((it for it in split_batches(records) if it.header.next_offset > offset), None)


def _end_of_batch(records: bytes, at: int) -> int:
    """Where the batch at ``at`` ends, 0 if it is not whole."""
    if at + _LOG_OVERHEAD >= len(records):
        return 0
    size = int.from_bytes(records[at + 8 : at + _LOG_OVERHEAD], "big", signed=True) + _LOG_OVERHEAD
    if size <= _MAGIC_AT:
        raise MalformedBatch(f"a batch of {size} bytes at byte {at}")
    return at + size if at + size <= len(records) else 0


def _batch(records: bytes, at: int, stop: int) -> Batch:
    if stop - at < HEADER.size:
        raise MalformedBatch(f"a batch of {stop - at} bytes at byte {at}, shorter than its header")
    header = BatchHeader._make(HEADER.unpack_from(records, at))
    if header.records < 0 or header.last_offset_delta < 0 or header.base_offset < 0:
        raise MalformedBatch(f"a negative count or offset at byte {at}")
    if header.leader_epoch < UNKNOWN_EPOCH:
        # No checksum covers it.
        header = header._replace(leader_epoch=UNKNOWN_EPOCH)
    return Batch(header, records[at + PAYLOAD_FROM : stop])
