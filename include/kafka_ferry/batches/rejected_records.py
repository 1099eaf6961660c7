"""Records that a target does not take: found, taken out of their batch, and kept as they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from kafka_ferry.batches.passage import Absent, Passage, Reason, Rebuilt, assembled, within
from kafka_ferry.batches.record_format.codecs import NONE, ZSTD
from kafka_ferry.batches.record_format.header import Batch, MalformedBatch
from kafka_ferry.batches.record_format.records import (
    Record,
    Runs,
    dense_batch,
    read_records,
    runs_of,
    split_at_gaps,
)
from kafka_ferry.batches.record_format.varint import decode_varint, encode_varint
from kafka_ferry.batches.topic_limits import TopicLimits


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


def offsets_at(passage: Passage, indices: Iterable[int]) -> tuple[int, ...]:
    """The source offsets of the records with these indices in the passage's batch (KIP-467).

    Indices that the batch does not have are left out.
    """
    offsets = _offsets(passage)
    return tuple(offsets[index] for index in sorted(set(indices)) if 0 <= index < len(offsets))


def unfit(passage: Passage, topic_limits: TopicLimits, now_ms: int) -> frozenset[int]:
    """The source offsets of the records that ``topic_limits`` refuses for their key or their time.

    Raises:
        MalformedBatch: if the passage's batch cannot be read.
    """
    return frozenset(
        offset
        for offset, timestamp, _, content in records_of(passage)
        if (topic_limits.keys_required and _is_negative(content))
        or not topic_limits.takes(timestamp, now_ms)
    )


def set_aside(passage: Passage, offsets: Collection[int]) -> tuple[Passage, tuple[Rejected, ...]]:
    """The passage without the records at ``offsets``, and those records.

    The taken ones count as dead-lettered, and the batch as rebuilt. Where it was rebuilt before, it
    keeps that reason.

    Raises:
        MalformedBatch: if the passage's batch cannot be read.
    """
    records = records_of(passage)
    taken = [record for record in records if record[0] in offsets]
    if not taken:
        return passage, ()
    kept = [record for record in records if record[0] not in offsets]
    letters = (
        Absent(first, first + count, Reason.DEAD_LETTERED) for first, count in runs_of(taken)
    )
    rest = replace(
        passage,
        batch=_dense(passage, kept),
        runs=runs_of(kept),
        absent=tuple(sorted((*passage.absent, *letters))),
        rebuilt=passage.rebuilt or {Rebuilt.REJECTED: 1},
    )
    return rest, tuple(Rejected(offset, at, content) for offset, at, _, content in taken)


def restored(passage: Passage, records: Iterable[Record]) -> Passage:
    """The passage with ``records`` too, one or more, which the source had at offsets that are absent by now.

    Raises:
        MalformedBatch: if the passage's batch cannot be read.
    """
    merged = sorted((*records_of(passage), *records))
    codec = passage.batch.header.codec if passage.batch else NONE
    runs = runs_of(merged)
    absent = tuple(_outside(passage.absent, runs))
    return replace(passage, batch=dense_batch(merged, codec), runs=runs, absent=absent)


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


def halves(passage: Passage) -> tuple[Passage, Passage]:
    """The passage, of two records or more, cut in the middle of its records."""
    offsets = _offsets(passage)
    return cut_at(passage, offsets[len(offsets) // 2])


def cut_at(passage: Passage, offset: int) -> tuple[Passage, Passage]:
    """The passage up to ``offset``, and from it on; ``passage.start < offset < passage.end``.

    Where records lie on both sides both batches are new, and the first half counts it.

    Raises:
        MalformedBatch: if the passage's batch cannot be read.
    """
    offsets = _offsets(passage)
    if not offsets or offset <= offsets[0] or offset > offsets[-1]:
        whole = (passage.batch, passage.runs)
        before, after = (
            ((None, ()), whole) if offsets and offset <= offsets[0] else (whole, (None, ()))
        )
        rebuilt = passage.rebuilt
    else:
        records = records_of(passage)
        sides = (
            [record for record in records if record[0] < offset],
            [record for record in records if record[0] >= offset],
        )
        before, after = ((_dense(passage, side), runs_of(side)) for side in sides)
        rebuilt = passage.rebuilt or {Rebuilt.REJECTED: 1}
    return (
        replace(
            passage,
            end=offset,
            batch=before[0],
            runs=before[1],
            absent=tuple(within(passage.absent, passage.start, offset)),
            rebuilt=rebuilt,
        ),
        replace(
            passage,
            start=offset,
            batch=after[0],
            runs=after[1],
            absent=tuple(within(passage.absent, offset, passage.end)),
            rebuilt={},
        ),
    )


def by_runs(passage: Passage) -> Iterator[Passage]:
    """The passage in pieces with at most one run each, for a topic that keeps the source's offsets.

    One without a gap between its records comes as it is, unopened.

    Raises:
        MalformedBatch: if the passage's batch cannot be read.
    """
    if passage.batch is None or len(passage.runs) < 2:
        yield passage
        return
    codec = passage.batch.header.codec
    pieces = [
        (dense_batch(records, codec), runs_of(records))
        for records in split_at_gaps(records_of(passage))
    ]
    yield from assembled(
        passage.start,
        passage.end,
        pieces,
        known=passage.absent,
        rebuilt=passage.rebuilt,
        leader_epoch=passage.leader_epoch,
    )


def dead_letter(rejected: Rejected, headers: Sequence[tuple[str, bytes]]) -> Batch:
    """A batch of that one record, with ``headers`` after its own.

    It is compressed, so that what came compressed has room in a request again.

    Raises:
        MalformedBatch: if the record does not tell where its headers begin.
    """
    content = rejected.content
    at = 0
    for _ in ("key", "value"):
        length, at = decode_varint(content, at)
        at += max(length, 0)
    own, after = decode_varint(content, at)
    if own < 0:
        raise MalformedBatch(f"a record with {own} headers")
    parts = [content[:at], encode_varint(own + len(headers)), content[after:]]
    for name, value in headers:
        for part in (name.encode(), value):
            parts += (encode_varint(len(part)), part)
    record = (rejected.offset, rejected.timestamp, b"\0", b"".join(parts))
    return dense_batch([record], ZSTD)


def _offsets(passage: Passage) -> Sequence[int]:
    """The source offsets of the batch's records."""
    return list(chain.from_iterable(range(first, first + n) for first, n in passage.runs))


def records_of(passage: Passage) -> list[Record]:
    """The records of the passage's batch, at their source offsets.

    Raises:
        MalformedBatch: if the batch cannot be read.
    """
    if passage.batch is None:
        return []
    return [
        (offset, *record[1:])
        for offset, record in zip(_offsets(passage), read_records(passage.batch), strict=True)
    ]


def _dense(passage: Passage, records: Sequence[Record]) -> Batch | None:
    if not records or passage.batch is None:
        return None
    return dense_batch(records, passage.batch.header.codec)


def _is_negative(content: bytes) -> bool:
    """Whether the number in front is negative, which is the lowest bit of a zigzag."""
    return bool(content[:1] and content[0] & 1)
