"""What both write protocols share: the writer's own transactions with positions and ledger records.

Promises:

(a) a transaction holds, for each of its partitions, the next source offset (committed in the
    flow's group under the *target* partition), its part of one ledger record, and the records that
    went to the dead letter topic instead; they appear together or not at all;
(b) a writer that takes over a writer number first fences its last holder, and waits until that one's
    transactions have ended.

Not covered here: how the batches themselves are written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import ClassVar, Final

from kafka_ferry.batches import (
    Batch,
    ConvertedBatch,
    Rejected,
    TopicLimits,
    for_producer,
    single_record,
)
from kafka_ferry.clock import now_ms
from kafka_ferry.copy.outcome import Failure
from kafka_ferry.copy.target.dead_letters import letter_for
from kafka_ferry.copy.target.fencing import committed_position, transactional_id
from kafka_ferry.copy.target.partition_queue import Outgoing, PartitionQueue
from kafka_ferry.copy.target.produce_errors import Verdicts
from kafka_ferry.copy.target.produce_pipeline import Answer, Pipeline
from kafka_ferry.copy.target.writer import StartOver, void_unless_known
from kafka_ferry.copy.target.writer_settings import WriterSettings
from kafka_ferry.errors import BrokerError, FerryError
from kafka_ferry.ledger import (
    BackfillEntry,
    CopiedRange,
    TransactionEntry,
    encode,
    ledger_topic,
)
from kafka_ferry.model.positions import Position, is_of_topics, position_group, position_of
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.wire import PartitionLeader, WireCluster
from kafka_ferry.wire.error_codes import NOT_ENOUGH_REPLICAS, error_name, fault, is_transient
from kafka_ferry.wire.transactions.endings import Ending, TransactionOutcome, last_ending
from kafka_ferry.wire.transactions.producer import TransactionalProducer, committed_offsets
from kafka_ferry.wire.transactions.settlement import Settlement

# About 400 KB of JSON: a ledger record must stay below the default max.message.bytes.
_MAX_SEGMENTS: Final = 10_000


class TransactionalWriter(ABC):
    """A writer whose ``commit`` is a Kafka transaction.

    Args:
        settings: what every writer is given.
    """

    _preserves: ClassVar[bool]

    def __init__(self, settings: WriterSettings) -> None:
        self._settings = settings
        self._group = position_group(settings.flow)
        self._ledger = TopicPartition(ledger_topic(settings.source_alias), 0)
        letters = settings.dead_letters
        self._dead_letters = TopicPartition(letters, 0) if letters else None
        self._limits_by_topic: Mapping[str, TopicLimits] = {}
        self._data = WireCluster(settings.alias, settings.client)
        self._coordination = WireCluster(settings.alias, settings.client)
        name = transactional_id(settings.flow, settings.number, preserved=self._preserves)
        self._producer = TransactionalProducer(
            self._coordination, name, timeout_ms=settings.timeout_ms
        )
        self._verdicts = Verdicts(self._dead_letters, settings.wait_s)
        self._pipeline = Pipeline(
            self._data, self._encode, self._verdicts.judge, transactional_id=name
        )
        self._settlement = Settlement(self._data, self._coordination, self._producer, self._group)
        # How the transaction before the last take-over ended, until all its partitions show it.
        self._ending: Ending | None = None
        self._unsettled: set[TopicPartition] = set()
        self._knows_endings = False
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._refreshed: dict[TopicPartition, tuple[Range, Position]] = {}
        self._uncommitted_bytes = self._uncommitted_runs = 0

    @property
    def failures(self) -> dict[TopicPartition, Failure]:
        """See ``Writer``."""
        return self._verdicts.failures

    @property
    def waiting(self) -> AbstractSet[TopicPartition]:
        """See ``Writer``."""
        return self._verdicts.waiting

    @property
    def uncommitted_bytes(self) -> int:
        """Bytes written since the last ``commit``."""
        return self._uncommitted_bytes

    @property
    def must_commit(self) -> bool:
        """Whether the transaction's ledger record is getting long."""
        return self._uncommitted_runs > _MAX_SEGMENTS

    @abstractmethod
    def _queue(self, leader: PartitionLeader, range_: Range | None) -> PartitionQueue:
        """A new queue for a partition of the target."""

    @abstractmethod
    def _transactional(self) -> Mapping[TopicPartition, PartitionQueue]:
        """The queues whose batches belong to the transaction."""

    @abstractmethod
    def _resume(
        self, positions: Mapping[TopicPartition, Position]
    ) -> Mapping[TopicPartition, Position]:
        """Prepare to write after ``positions``, by *target* partition; returns the resulting positions."""

    @abstractmethod
    def _make_sure(self) -> None:
        """Check once more what is about to be committed."""

    @abstractmethod
    def _position(self, queue: PartitionQueue) -> Position:
        """What to commit for a queue with progress."""

    def take_over(self, ranges: Sequence[Range]) -> Mapping[TopicPartition, Position]:
        """See ``Writer.take_over``."""
        void = self._verdicts.void
        self._unsettled |= {tp for tp, queue in self._queues.items() if queue.in_transaction}
        self._forget_transaction()
        self._verdicts.write_again(ranges)
        self._pipeline.forget()
        if self._ending is None:
            name = self._producer.transactional_id
            self._ending = retry(lambda: last_ending(self._coordination, name))
        self._start_producer(void)
        by_target = {range_.target: range_ for range_ in ranges}
        self._open_queues(by_target)
        self._unsettled |= self._transactional().keys()
        recovery = None if self._knows_endings else self._settings.recovery
        evidence = recovery.outcomes if recovery else None
        self._settlement.settle(self._ending, self._unsettled, by_target, evidence)
        # From now on this process knows how its own transactions ended.
        self._ending, self._unsettled, self._knows_endings = None, set(), True
        positions = {
            tp: position
            for tp, position in self._committed_positions(by_target).items()
            if self._counts(by_target[tp], position)
            and self._is_of_this_topic(by_target[tp], position)
        }
        return {by_target[tp].source: found for tp, found in self._resume(positions).items()}

    def _committed_positions(
        self, by_target: Mapping[TopicPartition, Range]
    ) -> dict[TopicPartition, Position]:
        positions = self._group_positions(by_target)
        # The group may have been deleted since the run began.
        forgotten = {
            tp: self._queues[tp].remote_topic_id
            for tp in (by_target.keys() & self._queues.keys()) - positions.keys()
        }
        recovery = self._settings.recovery
        return positions | (recovery.positions(forgotten) if recovery else {})

    def _group_positions(
        self, targets: Collection[TopicPartition]
    ) -> dict[TopicPartition, Position]:
        committed = committed_offsets(self._coordination, self._group, targets)
        return {
            tp: position_of(found.offset, found.metadata, found.leader_epoch)
            for tp, found in committed.items()
        }

    def _start_producer(self, void: StartOver | None) -> None:
        try:
            if self._producer.producer_id < 0:
                self._producer.start()
            else:
                self._producer.start_over()
        except BrokerError as error:
            # A partition that accepts no records accepts no transaction marker either.
            error.message += f" It began with: {void.message}" if void else ""
            raise

    def _open_queues(self, by_target: Mapping[TopicPartition, Range]) -> None:
        own = [self._ledger, *([self._dead_letters] if self._dead_letters else [])]

        def ask() -> Mapping[TopicPartition, PartitionLeader]:
            leaders = self._data.leaders([*by_target, *own])
            for tp in own:
                if leaders[tp].node < 0:
                    raise fault(leaders[tp].error, f"Looking for the topic {tp.topic}")
            return leaders

        leaders = retry(ask)
        self._limits_by_topic = self._settings.limits_by_topic({tp.topic for tp in by_target})
        self._queues = {
            tp: self._queue(leader, by_target.get(tp))
            for tp, leader in leaders.items()
            if leader.node >= 0
        }
        for tp, range_ in by_target.items():
            if range_.source not in self.failures:
                self._check(range_, leaders[tp])
        self._raise_if_void()

    def _check(self, range_: Range, leader: PartitionLeader) -> None:
        """Whether the partition can be written to now, and is of the topic that was planned for."""
        needed = min(
            self._limits_by_topic[range_.remote_topic].min_insync_replicas, leader.replicas
        )
        if leader.node < 0:
            self._verdicts.failed_transiently(range_, range_.start, leader.error)
        elif range_.remote_topic_id not in ("", leader.topic_id):
            self._verdicts.fail(
                range_,
                range_.start,
                "the target's topic was deleted and recreated since it was planned; "
                "the next run handles it.",
            )
        elif leader.in_sync < needed:
            # Not even an abort marker could be written: the partition would block all the others.
            self._verdicts.failed_transiently(range_, range_.start, NOT_ENOUGH_REPLICAS)

    def _counts(self, range_: Range, position: Position) -> bool:
        """Whether the position is of the current topics."""
        queue = self._queues.get(range_.target)
        remote_id = queue.remote_topic_id if queue else position.remote_topic_id
        return position.offset > 0 or is_of_topics(position, range_.topic_id, remote_id)

    def _is_of_this_topic(self, range_: Range, position: Position) -> bool:
        """Whether the records before the position are in the current remote topic."""
        queue = self._queues.get(range_.target)
        if queue is None or position.remote_topic_id in ("", queue.remote_topic_id):
            return True
        if not self._settings.recopy:
            message = "the target's topic was deleted and recreated since; its history is gone."
            self._verdicts.fail(range_, position.offset, message)
        return not self._settings.recopy

    def _put(self, queue: PartitionQueue, out: Outgoing) -> None:
        queue.waiting.append(out)
        self._uncommitted_bytes += out.size
        self._uncommitted_runs += len(out.converted.runs)

    def refresh(self, range_: Range, position: Position) -> None:
        """See ``Writer.refresh``."""
        if range_.target in self._queues:
            self._refreshed[range_.target] = (range_, position)

    def commit(self) -> Mapping[TopicPartition, int]:
        """See ``Writer.commit``."""
        with void_unless_known():
            self._drain()
            self._make_sure()
            moved = {tp: queue for tp, queue in self._queues.items() if queue.tally}
            if moved:
                self._write_ledger(tuple(queue.copied() for queue in moved.values()))
            self._commit_positions(moved)
            new_positions = {
                queue.range.source: queue.tally.end
                for queue in moved.values()
                if queue.range and queue.tally
            }
            if moved or self._refreshed:
                self._end(moved)
        self._verdicts.committed(new_positions)
        self._forget_transaction()
        return new_positions

    def _end(self, moved: Iterable[TopicPartition]) -> None:
        """Commit the transaction, and wait until all partitions show it."""
        written = {tp for tp, queue in self._queues.items() if queue.in_transaction}
        self._producer.end(commit=True)
        try:
            self._settlement.settle(
                Ending(TransactionOutcome.COMMITTED), written, {*moved, *self._refreshed}
            )
        except FerryError as error:
            # Starting over would abort on some partitions what is committed on others.
            raise FerryError(
                f"A committed transaction could not be confirmed on all partitions: {error.message}",
                advice=error.advice,
            ) from error

    def close(self) -> None:
        """See ``Writer.close``."""
        self._data.close()
        self._coordination.close()

    def _forget_transaction(self) -> None:
        self._refreshed.clear()
        self._verdicts.void = None
        self._uncommitted_bytes = self._uncommitted_runs = 0
        for queue in self._queues.values():
            queue.forget()

    def _encode(self, queue: PartitionQueue, batch: Batch) -> bytes:
        """``batch`` as one of the transaction."""
        producer = self._producer
        return for_producer(
            batch,
            producer_id=producer.producer_id,
            epoch=producer.epoch,
            sequence=queue.sequence,
        )

    def _put_letters(self, range_: Range, letters: Iterable[tuple[Rejected, str]]) -> None:
        """Queue rejected records for the dead letter topic, in the transaction."""
        for record, error in letters:
            assert self._dead_letters is not None
            letter = _alone(letter_for(range_, record, error, self._settings.run), record.offset)
            self._put(self._queues[self._dead_letters], Outgoing(letter, range_))

    def _pump(self) -> None:
        """Send all that waits in the transaction's queues."""
        while waiting := {
            tp: queue for tp, queue in self._transactional().items() if queue.waiting
        }:
            self._join_transaction(waiting)
            self._pipeline.send_round(waiting)
            self._raise_if_void()

    def _drain(self) -> None:
        self._pump()
        self._pipeline.receive_all()
        self._raise_if_void()
        for queue in self._queues.values():
            queue.settle()

    def _join_transaction(self, waiting: Mapping[TopicPartition, PartitionQueue]) -> None:
        new = [
            tp
            for tp, queue in waiting.items()
            if not queue.in_transaction and any(out.size for out in queue.waiting)
        ]
        if not new:
            return
        if not self._queues[self._ledger].in_transaction and self._ledger not in new:
            # Its record ends each transaction: one request adds it too.
            new.append(self._ledger)
        refused = self._producer.add_partitions(new)
        for tp, code in refused.items():
            queue = self._queues[tp]
            if queue.range is None:
                raise fault(code, f"Writing to {tp.topic}")
            if is_transient(code):
                # The coordinator does not know the topic yet.
                self._verdicts.failed_transiently(
                    queue.range, queue.waiting[0].converted.start, code
                )
            else:
                self._verdicts.refuse(queue, queue.waiting[0], Answer(code, -1, "", ()))
        if refused:
            # The broker adds all partitions of a request or none.
            raise StartOver(
                f"{len(refused)} partition(s) could not be added to the transaction.", excludes=True
            )
        for queue in (self._queues[tp] for tp in new):
            queue.in_transaction = True

    def _raise_if_void(self) -> None:
        if self._verdicts.void:
            # Other transient failures are counted too, or a few bad partitions would use up all retries.
            self._pipeline.receive_all()
            raise self._verdicts.void

    def _write_ledger(self, ranges: tuple[CopiedRange, ...]) -> None:
        entry = self._entry(ranges)
        record = single_record(*encode(entry), entry.at)
        self._queues[self._ledger].waiting.append(Outgoing(_alone(record)))
        self._drain()

    def _entry(self, ranges: tuple[CopiedRange, ...]) -> TransactionEntry | BackfillEntry:
        """The ledger's record of the transaction."""
        return TransactionEntry(
            flow=self._settings.flow,
            run=self._settings.run,
            at=now_ms(),
            writer=self._settings.number,
            ranges=ranges,
        )

    def _commit_positions(self, moved: Mapping[TopicPartition, PartitionQueue]) -> None:
        positions = dict(self._refreshed)
        for tp, queue in moved.items():
            if queue.range and queue.tally:
                positions[tp] = queue.range, self._position(queue)
        if not positions:
            return
        offsets = {}
        for tp, (range_, position) in positions.items():
            ours = replace(
                position,
                topic_id=range_.topic_id,
                remote_topic_id=self._queues[tp].remote_topic_id,
                origins=range_.origins,
            )
            offsets[tp] = committed_position(ours, self._settings.run)
        self._producer.add_group(self._group)
        for tp, code in self._producer.commit_offsets(self._group, offsets).items():
            range_, position = positions[tp]
            message = f"its position could not be committed: {error_name(code)}."
            if is_transient(code):
                self._verdicts.failed_transiently(range_, position.offset, code)
            else:
                self._verdicts.fail(range_, position.offset, message)
            raise StartOver(f"{range_.target}: {message}", excludes=True)


def _alone(record: Batch, offset: int = 0) -> ConvertedBatch:
    return ConvertedBatch(offset, offset + 1, record, ((offset, 1),))
