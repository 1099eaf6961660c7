"""Which records of a source partition a backfill copies: those of its window that the target lacks.

A batch is decided as a whole where its header is enough. The header has only the time of the newest
record for certain; the first record need not be the oldest. So a batch is opened unless it is too old,
the broker has stamped all of its records with one time, or all of its offsets are settled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafka_ferry.batches.batch_filter import BatchFilter
from kafka_ferry.batches.converted_batch import Absent, Reason
from kafka_ferry.batches.record_format.header import NEWEST_FORMAT, Batch
from kafka_ferry.batches.record_format.records import Record


class SettledSpan(NamedTuple):
    """Offsets ``[start, end)`` whose records with timestamps in ``[since, until)`` are settled."""

    start: int
    end: int
    since: int
    until: int


class TimeWindow(BatchFilter):
    """What a backfill copies of one partition.

    Args:
        since: the first timestamp of the window, in milliseconds since 1970.
        until: the first one after it.
        settled: what is not to be copied again, in any order; spans may overlap.
    """

    def __init__(self, since: int, until: int, settled: Iterable[SettledSpan] = ()) -> None:
        self._since, self._until = since, until
        self._settled = sorted(settled)
        self._starts = [span.start for span in self._settled]
        # Spans may overlap in offsets: the furthest end of all spans so far.
        self._reach: list[int] = []
        for span in self._settled:
            self._reach.append(max(span.end, self._reach[-1] if self._reach else span.end))
        self._whole_starts, self._whole_ends = self._whole()

    def settled_end(self, offset: int) -> int:
        """The end of the offsets from ``offset`` on that are settled for the whole window."""
        at = bisect_right(self._whole_starts, offset) - 1
        return max(offset, self._whole_ends[at]) if at >= 0 else offset

    def left_out_from(self, offset: int) -> Absent | None:
        """See ``BatchFilter``."""
        end = self.settled_end(offset)
        return Absent(offset, end, Reason.COPIED_BEFORE) if end > offset else None

    def reason(self, batch: Batch, start: int, end: int) -> Reason | None:
        """See ``BatchFilter``."""
        header = batch.header
        if self.settled_end(start) >= end:
            return Reason.COPIED_BEFORE
        is_too_old = header.max_timestamp < self._since
        has_one_time = self._has_one_time(batch)
        if is_too_old or (has_one_time and header.max_timestamp >= self._until):
            return Reason.OUTSIDE_WINDOW
        return None

    def takes_whole(self, batch: Batch, start: int, end: int) -> bool:
        """See ``BatchFilter``."""
        inside = self._since <= batch.header.max_timestamp < self._until
        touched = next(self._spans_in(start, end), None)
        return inside and self._has_one_time(batch) and touched is None

    def leave_out(self, records: list[Record]) -> tuple[list[Record], list[Absent]]:
        """See ``BatchFilter``."""
        kept: list[Record] = []
        absent: list[Absent] = []
        since, until = self._since, self._until
        ends = (records[0][0], records[-1][0] + 1) if records else (0, 0)
        touching = list(self._spans_in(*ends))
        for record in records:
            offset, time = record[0], record[1]
            if not since <= time < until:
                reason = Reason.OUTSIDE_WINDOW
            elif touching and any(
                span.start <= offset < span.end and span.since <= time < span.until
                for span in touching
            ):
                reason = Reason.COPIED_BEFORE
            else:
                kept.append(record)
                continue
            if absent and absent[-1].end == offset and absent[-1].reason == reason:
                absent[-1] = absent[-1]._replace(end=offset + 1)
            else:
                absent.append(Absent(offset, offset + 1, reason))
        return kept, absent

    def _has_one_time(self, batch: Batch) -> bool:
        """Whether all records have the newest record's time, which the header has."""
        return batch.stored_format >= NEWEST_FORMAT and batch.header.is_log_append_time

    def _spans_in(self, start: int, end: int) -> Iterator[SettledSpan]:
        at = bisect_right(self._reach, start)
        while at < len(self._settled) and self._starts[at] < end:
            if self._settled[at].end > start:
                yield self._settled[at]
            at += 1

    def _whole(self) -> tuple[list[int], list[int]]:
        starts: list[int] = []
        ends: list[int] = []
        for span in self._settled:
            if span.since > self._since or span.until < self._until:
                continue
            if ends and span.start <= ends[-1]:
                ends[-1] = max(ends[-1], span.end)
            else:
                starts.append(span.start)
                ends.append(span.end)
        return starts, ends
