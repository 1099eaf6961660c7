"""The age of records, by the headers of their batches: no batch is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kafka_ferry.batches.record_format.header import BatchHeader

_NO_TIMESTAMP: Final = -1


@dataclass(frozen=True, slots=True)
class Spread:
    """The ages of some records, in milliseconds; of records from the future they are negative.

    Attributes:
        count: how many records; 0 makes all the others meaningless.
        least: of the youngest.
        most: of the oldest.
        total: of all of them together.
        last: of the one that came last.
    """

    count: int = 0
    least: int = 0
    most: int = 0
    total: int = 0
    last: int = 0

    @property
    def average(self) -> float:
        """The mean age, 0 without records."""
        return self.total / self.count if self.count else 0.0

    def __add__(self, later: Spread) -> Spread:
        if not self.count or not later.count:
            return later if later.count else self
        return Spread(
            self.count + later.count,
            min(self.least, later.least),
            max(self.most, later.most),
            self.total + later.total,
            later.last,
        )


NO_AGES: Final = Spread()
"""The ages of no records."""


class Times:
    """The times of records in consecutive batches.

    A header has the time of the batch's newest record, and of its first one, which is treated as the
    oldest; the others count as in the middle. If a producer stamps its records as it sends them, all of
    that is exact except the middle.
    """

    __slots__ = ("_count", "_last", "_newest", "_oldest", "_total")

    def __init__(self) -> None:
        self._count = self._oldest = self._newest = self._total = self._last = 0

    def add(self, header: BatchHeader) -> None:
        """Take the records of a batch; one without times (message format 0) is left out."""
        newest = header.max_timestamp
        if newest <= _NO_TIMESTAMP or not header.records:
            return
        oldest = min(first_time(header), newest)
        self._oldest = min(self._oldest, oldest) if self._count else oldest
        self._newest = max(self._newest, newest) if self._count else newest
        self._count += header.records
        self._total += (oldest + newest) * header.records // 2
        self._last = newest

    def ages(self, now_ms: int) -> Spread:
        """How old they are all at ``now_ms``."""
        if not self._count:
            return NO_AGES
        return Spread(
            self._count,
            now_ms - self._newest,
            now_ms - self._oldest,
            now_ms * self._count - self._total,
            now_ms - self._last,
        )


def first_time(header: BatchHeader) -> int:
    """The time of a batch's first record, or of its newest one where the header does not have it."""
    # The cleaner keeps its own horizon in the field (KIP-534); a broker's time is that of all records.
    if header.has_delete_horizon or header.is_log_append_time or header.base_timestamp < 0:
        return header.max_timestamp
    return header.base_timestamp
