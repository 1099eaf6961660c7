"""The writer of all protocols: a transaction, and a way to write the records that it commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager

from kafka_ferry.batches import ConvertedBatch
from kafka_ferry.copy.target.backfill_progress import Backfilled, BackfillProgress
from kafka_ferry.copy.target.preserved.records import PreservedRecords
from kafka_ferry.copy.target.progress import GroupProgress
from kafka_ferry.copy.target.record_writer import RecordWriter
from kafka_ferry.copy.target.transaction import Transaction
from kafka_ferry.copy.target.translated import TranslatedRecords
from kafka_ferry.copy.target.writer import StartOver, void_unless_known
from kafka_ferry.copy.target.writer_settings import WriterSettings
from kafka_ferry.errors import Fenced
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.model.results.failures import Failure
from kafka_ferry.model.waits import NO_WAITS, Waits


class TransactionalWriter:
    """A ``Writer`` whose ``commit`` is a Kafka transaction.

    Args:
        transaction: what ``commit`` commits; closed with the writer.
        records: writes the batches, for this transaction.
    """

    def __init__(self, transaction: Transaction, records: RecordWriter) -> None:
        self._transaction = transaction
        self._records = records

    @property
    def failures(self) -> Mapping[TopicPartition, Failure]:
        """See ``Writer``."""
        return self._transaction.verdicts.failures

    @property
    def waiting(self) -> AbstractSet[TopicPartition]:
        """See ``Writer``."""
        return self._transaction.verdicts.waiting

    @property
    def uncommitted_bytes(self) -> int:
        """See ``Writer``."""
        return self._transaction.uncommitted_bytes

    @property
    def round_trip_s(self) -> float:
        """See ``Writer``."""
        return self._transaction.coordination.round_trip_s

    @property
    def must_commit(self) -> bool:
        """See ``Writer``."""
        return self._transaction.is_full

    def take_over(self, ranges: Sequence[Range]) -> Mapping[TopicPartition, Position]:
        """See ``Writer``."""
        self._records.forget()
        positions = self._transaction.take_over(ranges, self._records.queue_of)
        by_target = {range_.target: range_ for range_ in ranges}
        resumed = self._records.resume(positions)
        return {by_target[tp].source: position for tp, position in resumed.items()}

    def write(self, range_: Range, converted: ConvertedBatch) -> None:
        """See ``Writer``."""
        self._records.write(range_, converted)

    def set_aside(self, range_: Range, epoch: int, errors: Mapping[int, str]) -> None:
        """See ``Writer``."""
        self._transaction.verdicts.set_aside(range_, epoch, errors)

    def send(self) -> None:
        """See ``Writer``."""
        with self._void_unless_known():
            self._records.send()

    def refresh(self, range_: Range, position: Position) -> None:
        """See ``Writer``."""
        self._transaction.refresh(range_, position)

    def commit(self, waits: Waits = NO_WAITS) -> Mapping[TopicPartition, int]:
        """See ``Writer``."""
        with self._void_unless_known():
            self._records.drain()
            reached = self._transaction.commit(waits)
            self._records.after_commit(reached)
        return reached

    def close(self) -> None:
        """See ``Writer``."""
        self._transaction.close()

    @contextmanager
    def _void_unless_known(self) -> Iterator[None]:
        """``void_unless_known``, where a transaction that has only timed out is void too."""
        try:
            with void_unless_known():
                yield
        except Fenced as error:
            self._transaction.start_after_timeout()
            raise StartOver(
                "The target's coordinator has aborted a transaction: another run has begun, or it was open for longer "
                f"than {self._transaction.producer.timeout_ms} ms, as where this process was stopped."
            ) from error


def translated_writer(settings: WriterSettings) -> TransactionalWriter:
    """A writer of ranges whose offsets are translated."""
    transaction = Transaction(settings, GroupProgress(settings))
    return TransactionalWriter(transaction, TranslatedRecords(transaction))


def backfill_writer(settings: WriterSettings, backfilled: Backfilled) -> TransactionalWriter:
    """A writer of a backfill's ranges; ``backfilled`` says what of them is settled."""
    transaction = Transaction(settings, BackfillProgress(settings, backfilled))
    return TransactionalWriter(transaction, TranslatedRecords(transaction))


def preserved_writer(settings: WriterSettings, *, fill: str) -> TransactionalWriter:
    """A writer of ranges whose offsets are preserved.

    Args:
        settings: what every writer is given.
        fill: ``transactions``, ``markers`` or ``auto``: how offsets without a record are filled.
    """
    transaction = Transaction(settings, GroupProgress(settings), preserved=True)
    return TransactionalWriter(transaction, PreservedRecords(transaction, fill=fill))
