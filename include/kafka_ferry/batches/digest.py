"""The digest by which a copied range is compared with what the target gives back.

It is computed over the bytes after each batch header (compressed or not), preceded by the codec with the
timestamp's type, the number of records and the base timestamp: all that a broker keeps when it stores a batch, and
all that gives these bytes their meaning. Producer, sequence, offsets and maximum timestamp are set by the broker or
the writer and are not included; the maximum is the time of all records only where the type says so.
"""

from __future__ import annotations

import struct
from typing import Final

import xxhash

from kafka_ferry.batches.record_format.header import Batch

_LEAD: Final = struct.Struct(">biqi")


class RangeDigest:
    """Digest (XXH3, 128 bits) of a sequence of batches; their order counts."""

    def __init__(self) -> None:
        self._state = xxhash.xxh3_128()

    def add(self, batch: Batch) -> None:
        """Append ``batch`` as it was sent, or as it was read back."""
        header = batch.header
        self._state.update(
            _LEAD.pack(header.encoding, header.records, header.base_timestamp, len(batch.payload))
        )
        self._state.update(batch.payload)

    def hexdigest(self) -> str:
        """32 hexadecimal digits."""
        return self._state.hexdigest()
