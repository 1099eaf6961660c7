"""What the copier needs of something that reads ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kafka_ferry.copy.source.cursor import Read
from kafka_ferry.model.ranges import TopicPartition


class Reader(Protocol):
    """Reads ranges from their given positions to their ends."""

    @property
    def round_trip_s(self) -> float:
        """The least time that an answer of a broker took, in seconds; 0 where that is not known."""

    def next(self, timeout_s: float) -> Sequence[Read] | None:
        """What was read next; empty if nothing came in time, None when every range has ended.

        Raises:
            FerryError: if the source as a whole cannot be read.
        """

    def drop(self, source: TopicPartition) -> None:
        """Read no more of the partition."""

    def close(self) -> None:
        """Stop reading."""
