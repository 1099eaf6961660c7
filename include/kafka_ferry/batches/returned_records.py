"""Which offsets of a source partition hold records that came from the target itself."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kafka_ferry.batches.batch_filter import BatchFilter
from kafka_ferry.batches.converted_batch import Absent, Reason
from kafka_ferry.batches.record_format.header import Batch, MalformedBatch
from kafka_ferry.batches.record_format.records import Record

ANY_PRODUCER: Final = -2
"""Of a span that another mirror has written, before the opposite flow took over."""


class ReturnedSpan(NamedTuple):
    """Offsets ``[start, end)`` that the opposite flow has written by its ledger, and the id of its producer."""

    start: int
    end: int
    producer_id: int


class LogSeen(NamedTuple):
    """A log as it was before the ledger was read, which therefore names all that was committed there until then.

    Attributes:
        end: its last stable offset.
        leader_epoch: its leader's epoch; -1 where that is not known.
    """

    end: int
    leader_epoch: int

    def has(self, batch: Batch) -> bool:
        """Whether a batch below ``end`` was there then; one of a later epoch has taken a lost one's place."""
        epoch = batch.header.leader_epoch
        return batch.header.next_offset <= self.end and not 0 <= self.leader_epoch < epoch


class _Offsets:
    """Offsets of one producer."""

    def __init__(self) -> None:
        self.starts, self._ends = array("q"), array("q")

    def add(self, start: int, end: int) -> None:
        """Add ``[start, end)``, which begins no earlier than all before; where they touch they become one."""
        if self._ends and start <= self._ends[-1]:
            self._ends[-1] = max(self._ends[-1], end)
        elif start < end:
            self.starts.append(start)
            self._ends.append(end)

    def end_at(self, offset: int) -> int:
        """The end of the stretch that holds ``offset``; ``offset`` itself where none does."""
        at = bisect_right(self.starts, offset) - 1
        return max(offset, self._ends[at]) if at >= 0 else offset

    def first_in(self, start: int, end: int) -> int:
        """The first offset of ``[start, end)`` that it holds, ``end`` where it holds none."""
        if self.end_at(start) > start:
            return start
        at = bisect_right(self.starts, start)
        return min(end, self.starts[at]) if at < len(self.starts) else end

    def has_part_of(self, start: int, end: int) -> bool:
        """Whether it holds any of ``[start, end)``."""
        return self.first_in(start, end) < end


class Returned(BatchFilter):
    """Offsets that another flow, the opposite one, has written by its ledger, as far as its producers have.

    A log that was truncated below what the ledger has may hold other records at these offsets since: those of the
    source's own producers, which are copied. So are the records that the target has lost since they came from it.

    Args:
        spans: the offsets, in any order.
        is_by: whether the batch at an offset is by a producer; asks the source.
        adopted_epoch: the leader epoch in which the last record of ``ANY_PRODUCER`` was written; -1 where that is not
            known. Batches of later ones were written after the log was truncated.
        lost: the offsets ``[start, end)`` of records that the target has no longer, in any order; None where it has
            lost some, and which ones is unknown: then none is left out, and none copied.
        seen: the source's log, of which the ledger names all that has come; None for any log.
        is_writers: whether a producer is a writer of the opposite flow, whose batches the ledger has to name; asked for
            each batch of a transaction that is in no span.
    """

    def __init__(
        self,
        spans: Iterable[ReturnedSpan] = (),
        is_by: Callable[[int, int], bool] = lambda _, __: True,
        adopted_epoch: int = -1,
        lost: Iterable[tuple[int, int]] | None = (),
        seen: LogSeen | None = None,
        is_writers: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._by_producer: dict[int, _Offsets] = defaultdict(_Offsets)
        self._is_by, self._adopted_epoch, self._seen = is_by, adopted_epoch, seen
        self._is_writers = is_writers
        self._doubted: set[int] = set()
        for start, end, producer_id in sorted(spans):
            self._by_producer[producer_id].add(start, end)
        self._lost = _Offsets()
        self._is_known = lost is not None
        for start, end in sorted(lost or ()):
            self._lost.add(start, end)

    def __len__(self) -> int:
        """The number of stretches."""
        return sum(len(offsets.starts) for offsets in self._by_producer.values())

    def _longest(self, offset: int) -> tuple[int, int]:
        """The end of the longest stretch from ``offset`` on that nothing speaks against, and its producer."""
        stretches = [(it.end_at(offset), producer) for producer, it in self._by_producer.items()]
        sound = (it for it in stretches if it[0] not in self._doubted)
        return max(sound, default=(offset, ANY_PRODUCER))

    def left_out_from(self, offset: int) -> Absent | None:
        """See ``BatchFilter``."""
        end = self._lost.first_in(offset, self._longest(offset)[0]) if self._is_known else offset
        return Absent(offset, end, Reason.RETURNED) if end > offset else None

    def is_sure(self, absent: Absent) -> bool:
        """See ``BatchFilter``: a log that holds the last record of a transaction has lost none before it."""
        end, producer_id = self._longest(absent.first)
        is_unknown = producer_id == ANY_PRODUCER and self._adopted_epoch < 0
        if is_unknown or self._is_by(end - 1, producer_id):
            return True
        self._doubted.add(end)
        return False

    def reason(self, batch: Batch, start: int, end: int) -> Reason | None:
        """See ``BatchFilter``: all of a batch or nothing of it, since brokers never mix batches.

        Raises:
            MalformedBatch: if only a part of it is, so that the ledger is of another log; or whether it has come, or
                whether the target still has it, is unknown.
        """
        if not self._has_come(batch) or self._lost.has_part_of(start, end):
            return None
        return Reason.RETURNED

    def takes_whole(self, batch: Batch, start: int, end: int) -> bool:
        """See ``BatchFilter``: if the target has lost only a part of a batch, that part is copied."""
        return not self._has_come(batch) or self._lost.end_at(start) >= end

    def leave_out(self, records: list[Record]) -> tuple[list[Record], list[Absent]]:
        """See ``BatchFilter``."""
        kept, absent = list[Record](), list[Absent]()
        for record in records:
            offset = record[0]
            if self._lost.end_at(offset) > offset:
                kept.append(record)
            else:
                absent.append(Absent(offset, offset + 1, Reason.RETURNED))
        return kept, absent

    def _has_come(self, batch: Batch) -> bool:
        """Whether a batch has come from the target; raises as ``reason``."""
        first, end = batch.header.base_offset, batch.header.next_offset
        if self._seen and not self._seen.has(batch):
            raise MalformedBatch(
                f"a batch at offset {first} that has come since the run began to copy, in the place of a lost one (an "
                "unclean leader election?): the next run asks whether it has come from the target"
            )
        is_later = 0 <= self._adopted_epoch < batch.header.leader_epoch
        for producer_id in (batch.header.producer_id, *(() if is_later else (ANY_PRODUCER,))):
            offsets = self._by_producer.get(producer_id)
            if offsets and end <= offsets.end_at(first):
                if self._is_known:
                    return True
                raise MalformedBatch(
                    f"a batch at offset {first} that came from the target, whose log was truncated since, and from "
                    "where on is unknown"
                )
            if offsets and offsets.has_part_of(first, end):
                raise MalformedBatch(
                    f"a batch at offset {first} of which a part alone has come from the target, by the "
                    "opposite flow's ledger"
                )
        if batch.header.is_transactional and self._is_writers(batch.header.producer_id):
            raise MalformedBatch(
                f"a batch at offset {first} by a writer of the opposite flow, whose ledger does not have it: that has "
                "lost records (an unclean leader election?)"
            )
        return False
