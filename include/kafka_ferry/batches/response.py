"""What becomes of the batches of one fetch response.

Promises, for every batch and every range:

(a) each source offset of the range is accounted for once: a record on the target or one reason;
(b) a batch that a broker would store wrongly is never passed as it is;
(c) nothing is decided from the bytes before their CRC was checked.

Not promised here: that the target accepts the batch. A record may be larger than all that it takes,
and its refusal names the partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from kafka_ferry.batches.aborted import AbortFilter
from kafka_ferry.batches.codecs import NONE
from kafka_ferry.batches.header import Batch, MalformedBatch
from kafka_ferry.batches.intake import Intake
from kafka_ferry.batches.passage import Absent, Passage, Reason, Rebuilt, assembled, gap
from kafka_ferry.batches.records import Record, Runs, fitting_batches, read_records
from kafka_ferry.batches.rules import Case, judge
from kafka_ferry.batches.split import split_batches

_ANY = Intake()


def passages(
    records: bytes, aborted: AbortFilter, start: int, end: int, intake: Intake = _ANY
) -> Iterator[Passage]:
    """What becomes of the batches of one fetch response, for the offsets ``[start, end)``.

    Args:
        records: the partition's ``records`` field of the response.
        aborted: the filter made from the same response.
        start: the next source offset to account for.
        end: the end of the range.
        intake: what the target topic takes.

    Yields:
        Passages that join without a gap, from ``start`` on.

    Raises:
        MalformedBatch: if bytes are no valid batch or a CRC does not match; what was yielded
            before stays right.
    """
    passing = _Passing(start, end, intake)
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
    """Judges batch after batch; small ones wait for their neighbours.

    Attributes:
        at: the next source offset to account for.
    """

    def __init__(self, start: int, end: int, intake: Intake) -> None:
        self.at = start
        self._start = start
        self._end = end
        self._intake = intake
        self._waiting: list[Case] = []
        self._absent: list[Absent] = []
        self._records: list[Record] = []
        self._bytes = 0
        self._codec = NONE
        self._leader_epoch = -1

    def add(self, batch: Batch, aborted: AbortFilter) -> Iterator[Passage]:
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
            yield gap(self.at, self._end)
            self._start = self.at = self._end
            return
        begin, stop = max(self.at, header.base_offset), min(header.next_offset, self._end)
        case = Case(batch, begin, stop, self._intake, is_aborted)
        verdict = judge(case)
        if header.leader_epoch != self._leader_epoch:
            yield from self.flush()
            self._leader_epoch = header.leader_epoch
        if isinstance(verdict, Reason):
            yield from self._drop(case, verdict)
        elif case.is_small:
            yield from self._join(case)
        else:
            yield from self.flush()
            yield from self._pass([case], stop)

    def flush(self) -> Iterator[Passage]:
        """What has waited for more."""
        if self._waiting:
            yield from self._pass(self._waiting, self.at)

    def _drop(self, case: Case, reason: Reason) -> Iterator[Passage]:
        self._absent.append(Absent(case.start, case.end, reason))
        self.at = case.end
        if not self._waiting:
            yield from self._pass([], self.at)

    def _join(self, case: Case) -> Iterator[Passage]:
        # Producers leave a batch uncompressed that compressing does not shrink.
        if NONE not in (self._codec, case.codec) and self._codec != case.codec:
            yield from self.flush()
        self._codec = self._codec or case.codec
        if not self._waiting:
            self._waiting, self.at = [case], case.end
            return
        if len(self._waiting) == 1:
            self._records = _wanted(self._waiting[0])
            self._bytes = _size(self._records)
        records = _wanted(case)
        size = _size(records)
        if self._bytes + size > self._intake.join_limit:
            yield from self.flush()
            self._codec = case.codec
        self._waiting.append(case)
        self._records += records
        self._bytes += size
        self.at = case.end

    def _pass(self, cases: list[Case], stop: int) -> Iterator[Passage]:
        """The passages up to ``stop``; ``cases`` are the batches of which records are left."""
        if len(cases) > 1:
            cases = [replace(case, has_neighbours=True) for case in cases]
        verdicts = [judge(case) for case in cases]
        rebuilt = Counter(verdict for verdict in verdicts if isinstance(verdict, Rebuilt))
        if cases and not rebuilt:
            header = cases[0].batch.header
            pieces: list[tuple[Batch, Runs]] = [
                (cases[0].batch, ((header.base_offset, header.records),))
            ]
        else:
            records = self._records if len(cases) > 1 else _wanted(cases[0]) if cases else []
            codec = self._codec if len(cases) > 1 else cases[0].codec if cases else NONE
            pieces = list(fitting_batches(records, codec, self._intake.max_batch_bytes))
        start, known = self._start, tuple(self._absent)
        self._start = self.at = stop
        self._waiting, self._absent, self._records, self._bytes = [], [], [], 0
        self._codec = NONE
        yield from assembled(
            start,
            stop,
            pieces,
            known=known,
            rebuilt=rebuilt,
            leader_epoch=self._leader_epoch,
        )


def _wanted(case: Case) -> list[Record]:
    records = read_records(case.batch)
    header = case.batch.header
    if (case.start, case.end) == (header.base_offset, header.next_offset):
        return records
    return [record for record in records if case.start <= record[0] < case.end]


def _size(records: list[Record]) -> int:
    """Plain bytes, with what a record's offset and time take at most between neighbours."""
    return sum(len(record[3]) for record in records) + 12 * len(records)
