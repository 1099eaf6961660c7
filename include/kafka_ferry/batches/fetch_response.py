"""Converts the batches of one fetch response.

Promises, for every batch and every range:

(a) each source offset of the range is accounted for once: a record on the target or one reason;
(b) a batch that a broker would store wrongly is never passed as it is;
(c) nothing is decided from the bytes before their CRC was checked;
(d) what a filter leaves out is not copied, record by record where a batch has others too;
(e) where the target keeps the source's offsets, the records of a batch are at offsets in a row,
    however many batches that takes.

Not promised here: that the target accepts the batch. A record may exceed its limits, and its refusal
names the partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from kafka_ferry.batches.aborted_transactions import AbortFilter
from kafka_ferry.batches.batch_filter import BatchFilter
from kafka_ferry.batches.converted_batch import (
    Absent,
    ConvertedBatch,
    Reason,
    Rebuilt,
    assemble,
    gap,
)
from kafka_ferry.batches.record_format.codecs import NONE, OPENED_AT_ONCE, TooLarge
from kafka_ferry.batches.record_format.header import Batch, MalformedBatch
from kafka_ferry.batches.record_format.records import (
    Record,
    Runs,
    fitting_batches,
    read_records,
    split_at_gaps,
    stream_records,
)
from kafka_ferry.batches.record_format.split import split_batches
from kafka_ferry.batches.rules import Case, judge
from kafka_ferry.batches.topic_limits import TopicLimits

_ANY = TopicLimits()
# A few kilobytes may decompress to half a gibibyte: at most so much is rebuilt in memory at a time.
_STRETCH_BYTES: Final = 8 * 1024 * 1024
_STRETCH_RECORDS: Final = 100_000


def converted_batches(
    records: bytes,
    aborted: AbortFilter,
    start: int,
    end: int,
    topic_limits: TopicLimits = _ANY,
    filters: Sequence[BatchFilter] = (),
) -> Iterator[ConvertedBatch]:
    """Convert the batches of one fetch response, for the offsets ``[start, end)``.

    Args:
        records: the partition's ``records`` field of the response.
        aborted: the filter made from the same response.
        start: the next source offset to account for.
        end: the end of the range.
        topic_limits: what the target topic takes.
        filters: what leaves records of the partition out.

    Yields:
        Converted batches that join without a gap, from ``start`` on.

    Raises:
        MalformedBatch: if bytes are not a valid batch or a CRC does not match; what was yielded
            before stays correct.
    """
    passing = _Passing(start, end, topic_limits, filters)
    try:
        for batch in split_batches(records):
            yield from passing.add(batch, aborted)
            if passing.at >= end:
                break
    except MalformedBatch:
        yield from passing.flush()
        raise
    yield from passing.flush()


class _Passing:
    """Converts batch after batch; small ones wait for their neighbours.

    Attributes:
        at: the next source offset to account for.
    """

    def __init__(
        self,
        start: int,
        end: int,
        topic_limits: TopicLimits,
        filters: Sequence[BatchFilter],
    ) -> None:
        self.at = start
        self._start = start
        self._end = end
        self._topic_limits = topic_limits
        self._filters = filters
        self._waiting: list[_Wanted] = []
        self._absent: list[Absent] = []
        self._bytes = 0
        self._codec = NONE
        self._leader_epoch = self._last_crc = -1

    def add(self, batch: Batch, aborted: AbortFilter) -> Iterator[ConvertedBatch]:
        """What is certain once ``batch`` is known."""
        header = batch.header
        if not batch.crc_matches:
            raise MalformedBatch(
                f"the CRC of the batch at offset {header.base_offset} does not match"
            )
        is_aborted = aborted.is_aborted(batch)
        if header.next_offset <= self.at:
            return
        if header.base_offset >= self._end:
            yield from self.flush()
            # A rebuilt batch may have ended just there.
            if self._start < self._end:
                yield gap(self._start, self._end, header.leader_epoch)
            self._start = self.at = self._end
            return
        begin, stop = max(self.at, header.base_offset), min(header.next_offset, self._end)
        wanted = _Wanted(Case(batch, begin, stop, self._topic_limits, is_aborted))
        verdict = judge(wanted.case)
        for batch_filter in self._filters:
            if isinstance(verdict, Reason):
                break
            wanted = wanted.filter(batch_filter)
            verdict = judge(wanted.case)
        if header.leader_epoch != self._leader_epoch:
            yield from self.flush()
            self._leader_epoch = header.leader_epoch
        if isinstance(verdict, Reason):
            yield from self._drop(wanted, verdict)
        elif wanted.case.is_small:
            yield from self._join(wanted)
        else:
            yield from self.flush()
            self._last_crc = wanted.case.stored_crc
            yield from self._pass([wanted], stop)

    def flush(self) -> Iterator[ConvertedBatch]:
        """What has waited for more."""
        if self._waiting:
            yield from self._pass(self._waiting, self.at)

    def _drop(self, dropped: _Wanted, reason: Reason) -> Iterator[ConvertedBatch]:
        case = dropped.case
        self._last_crc = case.stored_crc
        self._absent += dropped.absent or [Absent(case.start, case.end, reason)]
        self.at = case.end
        if not self._waiting:
            yield from self._pass([], self.at)

    def _join(self, wanted: _Wanted) -> Iterator[ConvertedBatch]:
        if self._waiting and not self._goes_along(wanted):
            yield from self.flush()
        self._waiting.append(wanted)
        self._last_crc = wanted.case.stored_crc
        self._codec = self._codec or wanted.case.codec
        self.at = wanted.case.end

    def _goes_along(self, wanted: _Wanted) -> bool:
        """Whether it is joined with the waiting batches, and then counted among them.

        A batch is opened only if all other criteria are met.
        """
        # Producers leave a batch uncompressed if compression does not shrink it.
        if NONE not in (self._codec, wanted.case.codec) and self._codec != wanted.case.codec:
            return False
        limit = self._topic_limits.join_limit
        if self._topic_limits.offsets_kept and not self._waiting[-1].joins(wanted, limit):
            return False
        if len(self._waiting) == 1:
            self._bytes = self._waiting[0].size(limit)
        if self._bytes <= limit:
            self._bytes += wanted.size(limit)
        return self._bytes <= limit

    def _pass(self, all_wanted: list[_Wanted], stop: int) -> Iterator[ConvertedBatch]:
        """The converted batches up to ``stop``; ``all_wanted``: what to take from each batch that still has records."""
        have_neighbours = len(all_wanted) > 1
        verdicts = [
            judge(replace(wanted.case, has_neighbours=have_neighbours)) for wanted in all_wanted
        ]
        rebuilt = Counter(verdict for verdict in verdicts if isinstance(verdict, Rebuilt))
        pieces: Iterable[tuple[Batch, Runs]] = self._rebuilt(all_wanted)
        if all_wanted and not rebuilt:
            batch = all_wanted[0].case.batch
            pieces = [(batch, ((batch.header.base_offset, batch.header.records),))]
        more_absent = (absent for wanted in all_wanted for absent in wanted.absent)
        start, known = self._start, tuple(sorted((*self._absent, *more_absent)))
        self._start = self.at = stop
        self._waiting, self._absent, self._bytes = [], [], 0
        self._codec = NONE
        yield from assemble(
            start,
            stop,
            pieces,
            known=known,
            rebuilt=rebuilt,
            leader_epoch=self._leader_epoch,
            last_crc=self._last_crc,
        )

    def _rebuilt(self, all_wanted: Sequence[_Wanted]) -> Iterator[tuple[Batch, Runs]]:
        codec = max((wanted.case.codec for wanted in all_wanted), default=NONE)
        for records in _stretches(all_wanted):
            for part in split_at_gaps(records) if self._topic_limits.offsets_kept else [records]:
                yield from fitting_batches(part, codec, self._topic_limits.max_batch_bytes)


def _stretches(all_wanted: Sequence[_Wanted]) -> Iterator[list[Record]]:
    """The wanted records; those of one batch in parts, each as much as a rebuilt batch may hold."""
    if len(all_wanted) > 1:
        yield [record for wanted in all_wanted for record in wanted.records]
        return
    stretch, size = list[Record](), 0
    for records in all_wanted[0].parts() if all_wanted else ():
        stretch += records
        size += sum(len(record[3]) for record in records)
        if size > _STRETCH_BYTES or len(stretch) > _STRETCH_RECORDS:
            yield stretch
            stretch, size = [], 0
    if stretch:
        yield stretch


class _Wanted:
    """The wanted part of a batch, which is opened at most once, when its records are needed.

    Attributes:
        case: the batch and its context.
        absent: the offsets of those of its records that filters leave out.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.absent: list[Absent] = []
        self._filters: tuple[BatchFilter, ...] = ()
        self._records: list[Record] | None = None
        self._is_large = False

    def filter(self, batch_filter: BatchFilter) -> _Wanted:
        """What a filter leaves of it."""
        case = self.case
        batch, start, end = case.batch, case.start, case.end
        if reason := batch_filter.reason(batch, start, end):
            return _Wanted(replace(case, left_out=reason))
        if batch_filter.takes_whole(batch, start, end):
            return self
        # Of one that few kilobytes make large, few records are in memory at a time: it is opened once more.
        parts = (
            iter([self.records]) if self.size(OPENED_AT_ONCE) <= OPENED_AT_ONCE else self.parts()
        )
        kept, absent, is_any_kept = list[Record](), list[Absent](), False
        for records in parts:
            kept, more_absent = batch_filter.leave_out(records)
            absent += more_absent
            is_any_kept |= bool(kept)
        if not absent:
            return self
        # Some reason, where there are several: each offset has its own.
        reason = None if is_any_kept else absent[0].reason
        filtered = _Wanted(replace(case, left_out=reason, is_thinned=True))
        filtered.absent, filtered._filters = [*self.absent, *absent], (*self._filters, batch_filter)
        if self._records is not None:
            filtered._records = kept
        return filtered

    @property
    def records(self) -> list[Record]:
        """The records that are wanted."""
        if self._records is None:
            self._records = self._inside(read_records(self.case.batch))
        return self._records

    def parts(self) -> Iterator[list[Record]]:
        """What is wanted, part by part."""
        if self._records is not None:
            yield self._records
            return
        yield from map(self._inside, stream_records(self.case.batch))

    def size(self, limit: int) -> int:
        """Plain bytes, with what a record's offset and time take at most between neighbours.

        Any number above ``limit`` if there are more, and for compressed ones that cannot be read: a
        broker opens and judges these itself.

        Raises:
            MalformedBatch: if they cannot be read, though nothing is compressed.
        """
        if self._records is None and not self._is_large:
            try:
                self._records = self._inside(read_records(self.case.batch, limit))
            except MalformedBatch as error:
                if not (self.case.batch.header.codec or isinstance(error, TooLarge)):
                    raise
                self._is_large = True
        if self._records is None:
            return limit + 1
        return sum(len(record[3]) for record in self._records) + 12 * len(self._records)

    def _inside(self, records: list[Record]) -> list[Record]:
        case = self.case
        if not case.is_whole:
            records = [record for record in records if case.start <= record[0] < case.end]
        for batch_filter in self._filters:
            records, _ = batch_filter.leave_out(records)
        return records

    def joins(self, following: _Wanted, limit: int) -> bool:
        """Whether the first record of ``following`` is at the offset after the last one here.

        No where there are more plain bytes than ``limit``.
        """
        if self.case.end != following.case.start:
            return False
        if not self._reaches(self.case.end - 1, -1, limit):
            return False
        return following._reaches(following.case.start, 0, limit)

    def _reaches(self, offset: int, place: int, limit: int) -> bool:
        """Whether the record at ``place`` is the one at ``offset``, which dense batches need not show."""
        if self.case.is_dense:
            return True
        if self.size(limit) > limit:
            return False
        return bool(self.records) and self.records[place][0] == offset
