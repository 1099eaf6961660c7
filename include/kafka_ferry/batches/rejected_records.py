"""Records that a target rejects: found, taken out of their batch, and kept unchanged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from kafka_ferry.batched import batched
from kafka_ferry.batches.converted_batch import (
    Absent,
    ConvertedBatch,
    Reason,
    Rebuilt,
    assemble,
    within,
)
from kafka_ferry.batches.record_format.codecs import (
    MAX_PLAIN_BYTES,
    NONE,
    OPENED_AT_ONCE,
    ZSTD,
)
from kafka_ferry.batches.record_format.content import with_headers
from kafka_ferry.batches.record_format.header import Batch
from kafka_ferry.batches.record_format.records import (
    Record,
    Runs,
    dense_batch,
    read_records,
    runs_of,
    split_at_gaps,
    stream_records,
)
from kafka_ferry.batches.topic_limits import TopicLimits

_PIECE_RECORDS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record that was taken out of its batch.

    Attributes:
        offset: its source offset.
        timestamp: what consumers of the source see, in ms since 1970.
        content: its key, value and headers, as the bytes that they were.
    """

    offset: int
    timestamp: int
    content: bytes


def offsets_at(converted: ConvertedBatch, indices: Iterable[int]) -> tuple[int, ...]:
    """The source offsets of the records with these indices in its batch (KIP-467).

    Indices that the batch does not have are left out.
    """
    offsets = _offsets(converted)
    return tuple(offsets[index] for index in sorted(set(indices)) if 0 <= index < len(offsets))


def unfit(converted: ConvertedBatch, topic_limits: TopicLimits, now_ms: int) -> frozenset[int]:
    """The source offsets of the records that ``topic_limits`` refuses for their key or their time.

    Raises:
        MalformedBatch: if its batch cannot be read.
    """
    return frozenset(
        offset
        for offset, timestamp, _, content in records_of(converted)
        if (topic_limits.keys_required and _is_negative(content))
        or not topic_limits.takes(timestamp, now_ms)
    )


def is_too_large(converted: ConvertedBatch, topic_limits: TopicLimits) -> bool:
    """Whether a batch has a single record, and is larger than ``topic_limits`` allows.

    Never where the topic's broker compresses it again: the size is not the one that it judges.
    """
    batch = converted.batch
    if batch is None or topic_limits.codec is not None or batch.header.records > 1:
        return False
    return batch.header.size > topic_limits.max_batch_bytes


def set_aside(
    converted: ConvertedBatch, offsets: Collection[int]
) -> tuple[ConvertedBatch, tuple[Rejected, ...]]:
    """The converted batch without the records at ``offsets``, and those records.

    The taken ones count as dead-lettered, and the batch as rebuilt. Where it was rebuilt before, it
    keeps that reason.

    Raises:
        MalformedBatch: if its batch cannot be read.
    """
    records = records_of(converted)
    taken = [record for record in records if record[0] in offsets]
    if not taken:
        return converted, ()
    kept = [record for record in records if record[0] not in offsets]
    letters = (
        Absent(first, first + count, Reason.DEAD_LETTERED) for first, count in runs_of(taken)
    )
    rest = replace(
        converted,
        batch=_dense(converted, kept),
        runs=runs_of(kept),
        absent=tuple(sorted((*converted.absent, *letters))),
        rebuilt=converted.rebuilt or {Rebuilt.REJECTED: 1},
    )
    return rest, tuple(Rejected(offset, at, content) for offset, at, _, content in taken)


def restore(converted: ConvertedBatch, records: Iterable[Record]) -> ConvertedBatch:
    """The converted batch with ``records`` too, one or more, which the source had at offsets that are absent by now.

    Raises:
        MalformedBatch: if its batch cannot be read.
    """
    merged = sorted((*records_of(converted), *records))
    codec = converted.batch.header.codec if converted.batch else NONE
    runs = runs_of(merged)
    absent = tuple(_outside(converted.absent, runs))
    return replace(converted, batch=dense_batch(merged, codec), runs=runs, absent=absent)


def _outside(absent: Iterable[Absent], runs: Runs) -> Iterator[Absent]:
    """What is left of ``absent`` outside of ``runs``."""
    for first, end, reason in absent:
        at = first
        for begin, count in runs:
            if begin + count <= at or begin >= end:
                continue
            if begin > at:
                yield Absent(at, begin, reason)
            at = begin + count
        if at < end:
            yield Absent(at, end, reason)


def halves(converted: ConvertedBatch) -> tuple[ConvertedBatch, ConvertedBatch]:
    """The converted batch, of two records or more, split in the middle of its records."""
    offsets = _offsets(converted)
    return cut_at(converted, offsets[len(offsets) // 2])


def cut_at(converted: ConvertedBatch, offset: int) -> tuple[ConvertedBatch, ConvertedBatch]:
    """The converted batch up to ``offset``, and from it on; ``converted.start < offset < converted.end``.

    Where records lie on both sides both batches are new, and the first half counts it.

    Raises:
        MalformedBatch: if its batch cannot be read.
    """
    offsets = _offsets(converted)
    if not offsets or offset <= offsets[0] or offset > offsets[-1]:
        whole = (converted.batch, converted.runs)
        before, after = (
            ((None, ()), whole) if offsets and offset <= offsets[0] else (whole, (None, ()))
        )
        rebuilt = converted.rebuilt
    else:
        records = records_of(converted)
        sides = (
            [record for record in records if record[0] < offset],
            [record for record in records if record[0] >= offset],
        )
        before, after = ((_dense(converted, side), runs_of(side)) for side in sides)
        rebuilt = converted.rebuilt or {Rebuilt.REJECTED: 1}
    return (
        replace(
            converted,
            end=offset,
            batch=before[0],
            runs=before[1],
            absent=tuple(within(converted.absent, converted.start, offset)),
            rebuilt=rebuilt,
        ),
        replace(
            converted,
            start=offset,
            batch=after[0],
            runs=after[1],
            absent=tuple(within(converted.absent, offset, converted.end)),
            rebuilt={},
            rule_counts={},
        ),
    )


def by_runs(converted: ConvertedBatch) -> Iterator[ConvertedBatch]:
    """The converted batch in pieces with at most one run each, for a topic that keeps the source's offsets.

    One without a gap between its records comes as it is, unopened.

    Raises:
        MalformedBatch: if its batch cannot be read.
    """
    if converted.batch is None or len(converted.runs) < 2:
        yield converted
        return
    codec = converted.batch.header.codec
    pieces = [
        (dense_batch(records, codec), runs_of(records))
        for records in split_at_gaps(records_of(converted))
    ]
    yield from assemble(
        converted.start,
        converted.end,
        pieces,
        known=converted.absent,
        rebuilt=converted.rebuilt,
        leader_epoch=converted.leader_epoch,
        rule_counts=converted.rule_counts,
        last_crc=converted.last_crc,
    )


def dead_letter(rejected: Rejected, headers: Sequence[tuple[str, bytes]]) -> Batch:
    """A batch of that one record, with ``headers`` after its own.

    It is compressed, so that a record from a compressed batch fits into a request again.

    Raises:
        MalformedBatch: if the record does not tell where its headers begin.
    """
    content = with_headers(rejected.content, headers)
    record = (rejected.offset, rejected.timestamp, b"\0", content)
    return dense_batch([record], ZSTD)


def _offsets(converted: ConvertedBatch) -> Sequence[int]:
    """The source offsets of the batch's records."""
    return list(chain.from_iterable(range(first, first + n) for first, n in converted.runs))


def in_parts(converted: ConvertedBatch) -> Iterator[ConvertedBatch]:
    """The converted batch, which has a batch, in parts of few mebibytes and some thousand records, or of one record.

    Raises:
        MalformedBatch: if its batch cannot be read; ``TooLarge`` if a record has more than twice ``OPENED_AT_ONCE``.
    """
    yield from assemble(
        converted.start,
        converted.end,
        _small_pieces(converted),
        known=converted.absent,
        rebuilt=converted.rebuilt or {Rebuilt.DIVIDED: 1},
        leader_epoch=converted.leader_epoch,
        rule_counts=converted.rule_counts,
        last_crc=converted.last_crc,
    )


def _small_pieces(converted: ConvertedBatch) -> Iterator[tuple[Batch, Runs]]:
    assert converted.batch is not None
    codec = converted.batch.header.codec
    offsets = chain.from_iterable(range(first, first + n) for first, n in converted.runs)
    for chunk in stream_records(converted.batch, 2 * OPENED_AT_ONCE):
        for records in batched(chunk, _PIECE_RECORDS):
            placed = [(next(offsets), *record[1:]) for record in records]
            yield dense_batch(placed, codec), runs_of(placed)


def records_of(converted: ConvertedBatch, limit: int = MAX_PLAIN_BYTES) -> list[Record]:
    """The records of its batch, at their source offsets.

    Raises:
        MalformedBatch: if the batch cannot be read; ``TooLarge`` if they are more than ``limit`` bytes.
    """
    if converted.batch is None:
        return []
    records = read_records(converted.batch, limit)
    if runs_of(records) == converted.runs:
        return records
    return [
        (offset, *record[1:]) for offset, record in zip(_offsets(converted), records, strict=True)
    ]


def _dense(converted: ConvertedBatch, records: Sequence[Record]) -> Batch | None:
    if not records or converted.batch is None:
        return None
    return dense_batch(records, converted.batch.header.codec)


def _is_negative(content: bytes) -> bool:
    """Whether the number in front is negative, which is the lowest bit of a zigzag."""
    return bool(content[:1] and content[0] & 1)
