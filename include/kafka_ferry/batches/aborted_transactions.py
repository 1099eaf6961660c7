"""Which batches of a fetch response belong to aborted transactions.

The algorithm is the Java consumer's (``org.apache.kafka.clients.consumer.internals.CompletedFetch``):
a broker lists, for the offsets it returned, each aborted transaction's producer and first offset;
the transaction ends at that producer's abort marker.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from kafka_ferry.batches.record_format.header import Batch, MalformedBatch
from kafka_ferry.batches.record_format.records import read_records
from kafka_ferry.batches.record_format.varint import decode_varint

_MARKER_KEY: Final = struct.Struct(">hh")
# org.apache.kafka.common.record.ControlRecordType
_ABORT: Final = 0
_COMMIT: Final = 1


class AbortedTransaction(NamedTuple):
    """An entry of a fetch response's list of aborted transactions."""

    producer_id: int
    first_offset: int


class AbortFilter:
    """Tells, batch by batch in log order, what a ``read_committed`` consumer would not see.

    One filter serves one fetch response: the broker's list is complete for what it returned.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._ahead = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._open: set[int] = set()

    def is_aborted(self, batch: Batch) -> bool:
        """Whether ``batch`` is data of an aborted transaction; control batches never are.

        Every batch of the response must be shown, the control batches too: markers end transactions.
        """
        header = batch.header
        while self._ahead and self._ahead[-1].first_offset < header.next_offset:
            self._open.add(self._ahead.pop().producer_id)
        if header.is_control:
            if header.producer_id in self._open and _is_abort_marker(batch):
                self._open.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._open


def _is_abort_marker(batch: Batch) -> bool:
    """Whether the first record's key says so: two numbers of 16 bits, version and type."""
    if not batch.header.records:
        return False  # the cleaner may have emptied it
    content = read_records(batch)[0][3]
    length, at = decode_varint(content, 0)
    key = content[at : at + _MARKER_KEY.size]
    if length < _MARKER_KEY.size or len(key) < _MARKER_KEY.size:
        raise MalformedBatch("a control batch without a type")
    _, kind = _MARKER_KEY.unpack(key)
    if kind not in (_ABORT, _COMMIT):
        raise MalformedBatch(f"a control batch of type {kind} in a transaction")
    return bool(kind == _ABORT)
