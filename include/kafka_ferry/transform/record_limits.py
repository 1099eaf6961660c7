"""The largest records to which rules are applied."""

from __future__ import annotations

from typing import Final

from kafka_ferry.batches import Record
from kafka_ferry.batches.record_format.content import header_count

MOST_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of a record that expressions see: a JVM needs several times as much, and Spark's reader of JSON takes
few more. A producer's compressed batch of some kilobytes may have hundreds of mebibytes in one record."""
_TOO_LONG: Final = f"it has more than {MOST_BYTES // 2**20} MiB"
_MOST_HEADERS: Final = 100_000


def too_large(record: Record) -> str:
    """Why expressions see nothing of a record, so that no rule is applied to it; "" if they do."""
    return _TOO_LONG if len(record[3]) > MOST_BYTES else too_many_headers(record)


def too_many_headers(record: Record) -> str:
    """Why no rule is applied to a record of many headers; "" if one is.

    A header may have two bytes, and takes several hundred in memory.
    """
    if len(record[3]) > 2 * _MOST_HEADERS and header_count(record[3]) > _MOST_HEADERS:
        return f"it has more than {_MOST_HEADERS:,} headers"
    return ""
