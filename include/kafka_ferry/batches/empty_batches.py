"""Batches of empty records, which move a log's end to where a mirror is to start.

Their records are deleted before any consumer reads them. Each has an empty key, since a compacted topic
refuses records without one, no value, no headers, and no timestamp (-1): a topic accepts that whatever
its timestamp limits, and it does not extend the retention of a segment with older records.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from kafka_ferry.batches.record_format.codecs import ZSTD
from kafka_ferry.batches.record_format.content import Content
from kafka_ferry.batches.record_format.header import Batch
from kafka_ferry.batches.record_format.records import each_record, packed_batch
from kafka_ferry.batches.record_format.varint import SMALL, encode_varint
from kafka_ferry.batches.topic_limits import TopicLimits

_MOST: Final = 1_000_000
_NO_TIMESTAMP: Final = -1
_BEFORE: Final = b"\0\0"  # attributes, and the time as it is in the batch's header
_CONTENT: Final = Content(b"", None).encode()
_SIZE: Final = len(_BEFORE) + len(_CONTENT)
# So many deltas in a row differ only in the two lowest bytes of their varint.
_BLOCK: Final = 2**13
_LOWEST: Final = tuple(encode_varint(_BLOCK + delta)[:2] for delta in range(_BLOCK))


@lru_cache(maxsize=4)
def empty_batch(records: int, codec: int = ZSTD) -> Batch:
    """A batch of ``records`` empty records, one or more; a million take 0.8 MB with zstd, 9 MB plain."""
    return packed_batch(
        _payload(records),
        codec,
        records=records,
        base_timestamp=_NO_TIMESTAMP,
        max_timestamp=_NO_TIMESTAMP,
    )


def empty_batches(records: int, topic_limits: TopicLimits) -> Iterator[Batch]:
    """Batches of empty records, ``records`` in total, that a topic accepts.

    They have the topic's own codec, if it sets one, and otherwise zstd, which compresses them best.
    """
    codec = ZSTD if topic_limits.codec is None else topic_limits.codec
    most = _most(codec, topic_limits.max_batch_bytes)
    for first in range(0, records, most):
        yield empty_batch(min(most, records - first), codec)


def is_empty_batch(batch: Batch) -> bool:
    """Whether a stored batch looks like one of ``empty_batches``, by its time and first record."""
    if batch.header.base_timestamp != _NO_TIMESTAMP:
        return False
    first = next(each_record(batch), None)
    return first is not None and first[3] == _CONTENT


@lru_cache
def _most(codec: int, max_bytes: int) -> int:
    """About how many fit in a batch of ``max_bytes``."""
    most = _MOST
    while most > 1 and empty_batch(most, codec).header.size > max_bytes:
        most //= 2
    return most


def _payload(records: int) -> bytes:
    """The records one after the other: they differ in the delta of their offset, and so in length."""
    parts: list[bytes] = []
    for where in SMALL[: min(records, _BLOCK)]:
        parts += (SMALL[_SIZE + len(where)], _BEFORE, where, _CONTENT)
    for first in range(_BLOCK, records, _BLOCK):
        highest = encode_varint(first)[2:]
        before = SMALL[_SIZE + 2 + len(highest)] + _BEFORE
        after = highest + _CONTENT
        parts += (before, (after + before).join(_LOWEST[: records - first]), after)
    return b"".join(parts)
