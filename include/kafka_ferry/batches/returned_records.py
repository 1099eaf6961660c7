"""Which offsets of a source partition hold records that came from the target itself."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable

from kafka_ferry.batches.batch_filter import BatchFilter
from kafka_ferry.batches.converted_batch import Absent, Reason
from kafka_ferry.batches.record_format.header import Batch, MalformedBatch


class Returned(BatchFilter):
    """Offsets that another flow, the opposite one, has written by its ledger.

    Args:
        spans: offsets ``[start, end)``, in any order; where they touch they become one.
    """

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        self._starts, self._ends = array("q"), array("q")
        for start, end in sorted(spans):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            elif start < end:
                self._starts.append(start)
                self._ends.append(end)

    def __len__(self) -> int:
        """The number of spans."""
        return len(self._starts)

    def end_at(self, offset: int) -> int:
        """The end of the span that holds ``offset``; ``offset`` itself where none does."""
        at = bisect_right(self._starts, offset) - 1
        return max(offset, self._ends[at]) if at >= 0 else offset

    def left_out_from(self, offset: int) -> Absent | None:
        """See ``BatchFilter``."""
        end = self.end_at(offset)
        return Absent(offset, end, Reason.RETURNED) if end > offset else None

    def reason(self, batch: Batch, start: int, end: int) -> Reason | None:  # noqa: ARG002
        """See ``BatchFilter``: all of a batch or nothing of it, since brokers never mix batches.

        Raises:
            MalformedBatch: if only a part of it is, so that the ledger is of another log.
        """
        first, end = batch.header.base_offset, batch.header.next_offset
        if end <= self.end_at(first):
            return Reason.RETURNED
        at = bisect_right(self._starts, end - 1) - 1
        if at >= 0 and self._ends[at] > first:
            raise MalformedBatch(
                f"a batch at offset {first} of which a part alone has come from the target, by the "
                "opposite flow's ledger"
            )
        return None
