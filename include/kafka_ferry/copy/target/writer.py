"""What a write protocol promises to the copier.

There are two protocols: *translated* (``copy.target.translated``: transactions,
offsets as the target gives them) and *offset-preserving* (the source's own offsets). The copier
reads ranges and hands over converted batches; everything about the target is the writer's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Protocol

from kafka_ferry.batches import ConvertedBatch
from kafka_ferry.errors import FerryError
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.model.results.failures import Failure
from kafka_ferry.model.waits import NO_WAITS, Waits


class StartOver(FerryError):
    """All that was written since the last ``commit`` is void; ``take_over`` says where to continue.

    Attributes:
        excludes: whether the same cannot happen again, because a partition was set aside.
    """

    transient = True

    def __init__(self, message: str, *, advice: str = "", excludes: bool = False) -> None:
        super().__init__(message, advice=advice)
        self.excludes = excludes


@contextmanager
def void_unless_known() -> Iterator[None]:
    """Turn errors after which it is unknown what was written into ``StartOver``."""
    try:
        yield
    except StartOver:
        raise
    except FerryError as error:
        if not error.transient:
            raise
        raise StartOver(error.message, advice=error.advice) from error


class Writer(Protocol):
    """Writes the ranges of one writer number.

    Promises:
    (a) what ``commit`` has confirmed is on the target, in order, once, together with its position
        and its ledger record; what it has not confirmed may or may not be there, and is never visible
        to a committed reader without its position;
    (b) a partition that the target refuses does not block the others: it appears in
        ``failures`` with the offset it kept.
    """

    @property
    def failures(self) -> Mapping[TopicPartition, Failure]:
        """Ranges that are no longer written, by *source* partition."""

    @property
    def waiting(self) -> AbstractSet[TopicPartition]:
        """Ranges whose partitions accepted nothing when last tried, and may later, by *source* partition."""

    @property
    def uncommitted_bytes(self) -> int:
        """Bytes written since the last ``commit``."""

    @property
    def round_trip_s(self) -> float:
        """The least time that an answer of the target took, in seconds; 0 where that is not known."""

    @property
    def must_commit(self) -> bool:
        """Whether a limit of the protocol itself requires a ``commit`` now."""

    def take_over(self, ranges: Sequence[Range]) -> Mapping[TopicPartition, Position]:
        """Fence earlier writers of these ranges, void what was not committed, and give the positions.

        Returns:
            The position of each *source* partition that has one.

        Raises:
            Fenced: if this writer itself was fenced since it last took over.
        """

    def write(self, range_: Range, converted: ConvertedBatch) -> None:
        """Accept a converted batch that joins the range's position or its last converted batch."""

    def set_aside(self, range_: Range, epoch: int, errors: Mapping[int, str]) -> None:
        """Write records to the dead letter topic instead.

        Args:
            range_: the range that they are of.
            epoch: the leader epoch of their batches.
            errors: why, by source offset; the converted batches with them are written after this.
        """

    def send(self) -> None:
        """Send what was accepted since the last call, many partitions at once.

        Raises:
            StartOver: if the outcome of a batch is unknown.
            Fenced: if another run took over.
        """

    def refresh(self, range_: Range, position: Position) -> None:
        """Commit an unchanged position again at the next ``commit``, so that it does not expire."""

    def commit(self, waits: Waits = NO_WAITS) -> Mapping[TopicPartition, int]:
        """Make everything written so far durable, atomically.

        Args:
            waits: what copying waited for since the last commit, for the ledger.

        Returns:
            The new position of each *source* partition that moved.

        Raises:
            StartOver: if the outcome is unknown.
            Fenced: if another run took over.
        """

    def close(self) -> None:
        """Close the connections; what was not committed is void."""
