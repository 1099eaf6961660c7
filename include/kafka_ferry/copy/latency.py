"""The age of a range's records when they are read, and when the target has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafka_ferry.batches import NO_AGES, ConvertedBatch, Spread, Times
from kafka_ferry.clock import now_ms


@dataclass(slots=True)
class RangeAges:
    """The ages of one range's records.

    Attributes:
        read: when they came from the source; a record that is read again counts again.
        stored: when the transaction that has them, or their position, was committed on the target.
    """

    read: Spread = NO_AGES
    stored: Spread = NO_AGES
    _uncommitted: Times = field(default_factory=Times)

    def came(self, converted_batches: Iterable[ConvertedBatch]) -> None:
        """Record that converted batches were read just now."""
        times = Times()
        for converted in converted_batches:
            if converted.batch:
                times.add(converted.batch.header)
        self.read += times.ages(now_ms())

    def note_write(self, converted: ConvertedBatch) -> None:
        """Record that a converted batch was handed to the writer."""
        if converted.batch:
            self._uncommitted.add(converted.batch.header)

    def note_commit(self) -> None:
        """Record that all that was handed to the writer is on the target now."""
        self.stored += self._uncommitted.ages(now_ms())
        self._uncommitted = Times()

    def void(self) -> None:
        """Record that uncommitted batches are written again."""
        self._uncommitted = Times()
