"""How old the records of a range are on their way: when they are read, and when the target has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafka_ferry.batches import NO_AGES, Passage, Spread, Times
from kafka_ferry.clock import now_ms


@dataclass(slots=True)
class RangeAges:
    """The ages of one range's records.

    Attributes:
        read: when they came from the source; what is read again counts again.
        stored: when the transaction that has them, or their position, was committed on the target.
    """

    read: Spread = NO_AGES
    stored: Spread = NO_AGES
    _uncommitted: Times = field(default_factory=Times)

    def came(self, passages: Iterable[Passage]) -> None:
        """Passages were read just now."""
        times = Times()
        for passage in passages:
            if passage.batch:
                times.add(passage.batch.header)
        self.read += times.ages(now_ms())

    def written(self, passage: Passage) -> None:
        """A passage was handed to the writer."""
        if passage.batch:
            self._uncommitted.add(passage.batch.header)

    def committed(self) -> None:
        """What was handed to the writer is on the target, as of now."""
        self.stored += self._uncommitted.ages(now_ms())
        self._uncommitted = Times()

    def void(self) -> None:
        """What was handed to the writer and not committed is written again."""
        self._uncommitted = Times()
