"""What becomes of each source batch: passed unopened, rebuilt, or dropped with a reason.

Promises, for every batch and every range:

(a) each source offset of the range is accounted for once: a record on the target or one reason;
(b) a batch that a broker would store wrongly is never passed as it is;
(c) nothing is decided from the bytes before their CRC was checked.

Not promised here: that the target accepts the batch. Its size and the topic's settings are the
broker's to judge, and its refusal names the partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kafka_ferry.batches.aborted import AbortFilter
from kafka_ferry.batches.header import Batch, MalformedBatch, split_batches
from kafka_ferry.batches.records import rebuild


class Reason(StrEnum):
    """Why a source offset has no record on the target."""

    ABORTED = "aborted"
    CONTROL = "control"
    COMPACTED = "compacted"
    LOST = "lost"
    DEAD_LETTERED = "dead-lettered"


class Rebuilt(StrEnum):
    """Why a batch could not pass unopened (broker's rule in ``LogValidator``)."""

    RANGE_EDGE = "range edge inside the batch"
    OFFSET_GAPS = "offset gaps"
    LOG_APPEND_TIME = "log append time"
    OLD_FORMAT = "old message format"
    OTHER_CODEC = "codec of the target"
    TOO_LARGE = "too large for the target"
    JOINED = "joined small batches"
    REJECTED = "records that the target rejects"


@dataclass(frozen=True, slots=True)
class Passage:
    """What a stretch of source offsets ``[start, end)`` became.

    ``end - start`` is always the sum of the runs' counts and of ``reasons``.

    Attributes:
        start: first source offset accounted for.
        end: source offset after the last one accounted for.
        batch: the dense batch to send, None where nothing is left to send.
        runs: the source offsets of its records, ``(first offset, count)``, ascending.
        reasons: offsets without a record on the target, by reason.
        rebuilt: why the batch was rebuilt, None where it passes unopened.
    """

    start: int
    end: int
    batch: Batch | None = None
    runs: tuple[tuple[int, int], ...] = ()
    reasons: Mapping[Reason, int] = field(default_factory=dict)
    rebuilt: Rebuilt | None = None


def passages(records: bytes, aborted: AbortFilter, start: int, end: int) -> Iterator[Passage]:
    """What becomes of the batches of one fetch response, for the offsets ``[start, end)``.

    Args:
        records: the partition's ``records`` field of the response.
        aborted: the filter made from the same response.
        start: the next source offset to account for.
        end: the end of the range.

    Yields:
        Passages that join without a gap, from ``start`` on.

    Raises:
        MalformedBatch: if bytes are no valid batch or a CRC does not match; what was yielded
            before stays right.
    """
    at = start
    for batch in split_batches(records):
        header = batch.header
        if at >= end:
            return
        if not batch.crc_matches:
            raise MalformedBatch(
                f"the CRC of the batch at offset {header.base_offset} does not match"
            )
        is_aborted = aborted.is_aborted(batch)
        if header.next_offset <= at:
            continue
        passage = _judge(batch, is_aborted, at, end)
        yield passage
        at = passage.end


def _judge(batch: Batch, is_aborted: bool, at: int, end: int) -> Passage:
    """The passage from ``at`` to the end of ``batch`` (or of the range), the gap before it included."""
    header = batch.header
    if header.base_offset >= end:
        return gap(at, end)
    begin, stop = max(at, header.base_offset), min(header.next_offset, end)
    reasons = Counter({Reason.COMPACTED: begin - at})
    dropped = Reason.CONTROL if header.is_control else Reason.ABORTED if is_aborted else None
    if dropped or header.records == 0:
        reasons[dropped or Reason.COMPACTED] += stop - begin
        return Passage(at, stop, reasons=+reasons)
    why = _why_rebuild(batch, begin, stop)
    if why is None:
        return Passage(at, stop, batch, ((begin, header.records),), +reasons)
    dense, runs = rebuild(batch, begin, stop)
    reasons[Reason.COMPACTED] += stop - begin - sum(count for _, count in runs)
    return Passage(at, stop, dense, runs, +reasons, why)


def _why_rebuild(batch: Batch, begin: int, stop: int) -> Rebuilt | None:
    header = batch.header
    if (begin, stop) != (header.base_offset, header.next_offset):
        return Rebuilt.RANGE_EDGE
    if header.records != header.last_offset_delta + 1:
        return Rebuilt.OFFSET_GAPS
    if header.is_log_append_time:
        # A CreateTime topic would fall back to the producer's time, which nobody saw.
        return Rebuilt.LOG_APPEND_TIME
    return None


def gap(start: int, end: int) -> Passage:
    """The passage for offsets that the source's log does not hold any more between others that it does."""
    return Passage(start, end, reasons={Reason.COMPACTED: end - start})
