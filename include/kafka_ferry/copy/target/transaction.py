"""A writer's own transactions: batches, positions and ledger record, together or not at all.

Promises:

(a) a transaction holds, for each of its partitions, its part of one ledger record, what ``Progress``
    commits besides, and the records that went to the dead letter topic instead; they appear together
    or not at all;
(b) a writer that takes over a writer number first fences its last holder, and waits until that one's
    transactions have ended;
(c) after that, and before it writes anything, it sees that no newer run has other writers, and that its
    topics were not given back to another mirror: who changes that says so in the ledger and then fences
    the old writers, so that of a late task either its transactional id is fenced or it finds the record.

Not covered here: how the batches of ranges are written (``copy.target.record_writer``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from typing import Final

from kafka_ferry.batches import (
    Batch,
    Rejected,
    TopicLimits,
    for_producer,
    single_record,
)
from kafka_ferry.control.positions import positions_of
from kafka_ferry.copy.target.claims import require_claims
from kafka_ferry.copy.target.dead_letters import SentLetters, alone
from kafka_ferry.copy.target.position_commit import PositionCommit
from kafka_ferry.copy.target.produce.partition_leaders import (
    ask_for_topics,
    check_leaders,
    check_topics,
    leaders_of,
)
from kafka_ferry.copy.target.produce.partition_queue import Outgoing, PartitionQueue
from kafka_ferry.copy.target.produce.pipeline import Pipeline
from kafka_ferry.copy.target.produce.verdicts import Verdicts
from kafka_ferry.copy.target.progress import Progress, of_current_topics
from kafka_ferry.copy.target.transaction_members import TransactionMembers
from kafka_ferry.copy.target.writer import StartOver
from kafka_ferry.copy.target.writer_settings import WriterSettings
from kafka_ferry.errors import BrokerError, Fenced, FerryError
from kafka_ferry.ledger import CopiedRange, encode, ledger_topic
from kafka_ferry.model.positions import Position, position_group, transactional_id
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.model.rights import Right, advice_on
from kafka_ferry.model.waits import NO_WAITS, Waits
from kafka_ferry.retry import retry
from kafka_ferry.wire import PartitionLeader, borrow
from kafka_ferry.wire.error_codes import (
    LEADER_NOT_AVAILABLE,
    error_name,
    is_transient,
)
from kafka_ferry.wire.transactions.endings import has_lost_epoch
from kafka_ferry.wire.transactions.open_transactions import OpenTransactions
from kafka_ferry.wire.transactions.producer import TransactionalProducer
from kafka_ferry.wire.transactions.settlement import Settlement

log = logging.getLogger(__name__)

# About 400 KB of JSON: a ledger record must stay below the default max.message.bytes.
_MAX_SEGMENTS: Final = 10_000

QueueOf = Callable[[PartitionLeader, Range], PartitionQueue]
"""Makes the queue of a partition that ranges are written to."""


class Transaction:
    """The transactions of one writer, one after the other.

    Args:
        settings: what every writer is given.
        progress: where the ranges have come to.
        preserved: whether the writer is of the kind that preserves offsets.

    Attributes:
        settings: as given.
        data: connections for batches.
        coordination: connections for everything else.
        producer: the transactions' producer.
        verdicts: what became of each range.
        queues: by *target* partition, since the last take-over; also of the ledger and the dead letters.
        limits_by_topic: what the remote topics take, since the last take-over.
        uncommitted_bytes: bytes that were queued since the last commit.
        uncommitted_segments: about how many segments the next ledger record will hold.
    """

    def __init__(
        self, settings: WriterSettings, progress: Progress, *, preserved: bool = False
    ) -> None:
        self.settings = settings
        self._connections = ExitStack()
        # A process that has copied another writer's ranges has connections already.
        self.data, self.coordination = (
            self._connections.enter_context(borrow(settings.alias, settings.client))
            for _ in range(2)
        )
        name = transactional_id(settings.flow, settings.number, preserved=preserved)
        self.producer = TransactionalProducer(
            self.coordination,
            name,
            timeout_ms=settings.timeout_ms,
            least_ms=settings.least_timeout_ms,
        )
        self._ledger = TopicPartition(ledger_topic(settings.source_alias), 0)
        letters = settings.dead_letters
        self._dead_letters = TopicPartition(letters, 0) if letters else None
        self._own = {self._ledger, *([self._dead_letters] if self._dead_letters else [])}
        self.verdicts = Verdicts(
            self._dead_letters, settings.wait_s, takes_rejected=settings.takes_rejected
        )
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.limits_by_topic: Mapping[str, TopicLimits] = {}
        self.uncommitted_bytes = self.uncommitted_segments = 0
        self._progress = progress
        self._pipeline = Pipeline(
            self.data, self._encode, self.verdicts.judge, transactional_id=name
        )
        self._group = position_group(settings.flow)
        settlement = Settlement(self.data, self.coordination, self.producer, self._group)
        evidence = settings.recovery.outcomes if settings.recovery else None
        self._open = OpenTransactions(
            settlement, self.coordination, self.producer, evidence, self._own
        )
        self._refreshed: dict[TopicPartition, tuple[Range, Position]] = {}
        self._letters = SentLetters()
        self._members = TransactionMembers(
            self.producer, self.verdicts, self._ledger, progress.group
        )
        self._position_commit = PositionCommit(
            self.data, self.producer, self._pipeline, self._group, self.raise_if_void
        )

    @property
    def takes_letters(self) -> bool:
        """Whether records that the target rejects go to the dead letter topic."""
        return self._dead_letters is not None and self.settings.takes_rejected

    @property
    def is_full(self) -> bool:
        """Whether its ledger record is getting long."""
        return self.uncommitted_segments > _MAX_SEGMENTS

    @property
    def is_begun(self) -> bool:
        """Whether the coordinator knows of partitions in it."""
        return bool(self._joined)

    @property
    def _joined(self) -> set[TopicPartition]:
        """The partitions in it that the coordinator knows of."""
        return {tp for tp, queue in self.queues.items() if queue.in_transaction}

    # --- take-over

    def take_over(
        self, ranges: Sequence[Range], queue_of: QueueOf
    ) -> dict[TopicPartition, Position]:
        """See ``Writer.take_over``; the positions are by *target* partition."""
        void = self.verdicts.void
        joined = self._joined
        self._forget()
        self.verdicts.write_again(ranges)
        self._pipeline.forget()
        by_target = {range_.target: range_ for range_ in ranges}
        with ThreadPoolExecutor(1) as pool:
            # Over a long link it counts that neither needs the other's answers.
            looked_up = pool.submit(copy_context().run, self._look_up, by_target)
            self.producer.find_coordinators(self._group)
            self._open.take_over(joined)
            self._start_producer(void)
        leaders = looked_up.result()
        require_claims(self.data, self.settings, {tp.topic for tp in by_target})
        self.queues = {
            tp: queue_of(leaders[tp], range_)
            for tp, range_ in by_target.items()
            if leaders[tp].node >= 0
        }
        for tp in self._own:
            self.queues[tp] = PartitionQueue(leaders[tp].node, None, leaders[tp].topic_id)
        check_leaders(by_target, leaders, self.limits_by_topic, self.verdicts)
        self.raise_if_void()
        left, group = self._open.settle(self._transactional(), by_target)
        self._set_aside({tp: by_target[tp] for tp in left & by_target.keys()}, {})
        self.raise_if_void()
        assert group is not None
        group.require_all(self.settings.alias, self._group)
        self._position_commit.asked = group.node
        positions = self._positions(by_target, positions_of(group.offsets))
        if self._open.has_lost:
            # The ledger still has those that were committed.
            positions |= self._positions(by_target, {})
        return of_current_topics(
            positions, by_target, self._topic_ids(), self.verdicts, recopy=self.settings.recopy
        )

    def _positions(
        self,
        by_target: Mapping[TopicPartition, Range],
        committed: Mapping[TopicPartition, Position],
    ) -> dict[TopicPartition, Position]:
        return self._progress.positions(
            self.data, by_target, committed, self._topic_ids(), self.verdicts
        )

    def _look_up(
        self, by_target: Mapping[TopicPartition, Range]
    ) -> Mapping[TopicPartition, PartitionLeader]:
        """Ask for the topics' limits, and for the leaders."""
        topics = {tp.topic for tp in by_target}
        self.limits_by_topic = self.settings.limits_by_topic(self.data, topics)
        return leaders_of(self.data, by_target, self._own)

    def _set_aside(
        self, ranges: Mapping[TopicPartition, Range], reached: Mapping[TopicPartition, int]
    ) -> None:
        """Retry ranges later whose partitions have lost their leaders before a transaction ended there."""
        for range_ in ranges.values():
            if range_.source not in self.verdicts.failures:
                offset = reached.get(range_.source, range_.start)
                self.verdicts.fail_for_now(range_, offset, LEADER_NOT_AVAILABLE)

    def _start_producer(self, void: StartOver | None) -> None:
        """Fence the last holder of the writer number."""
        try:
            if self.producer.producer_id < 0:
                self.producer.start()
            else:
                self._start_over()
        except BrokerError as error:
            # A partition that accepts no records accepts no transaction marker either.
            error.message += f" It began with: {void.message}" if void else ""
            raise

    def _topic_ids(self) -> dict[TopicPartition, str]:
        return {tp: queue.remote_topic_id for tp, queue in self.queues.items()}

    # --- content

    def put(self, queue: PartitionQueue, out: Outgoing) -> None:
        """Queue a converted batch."""
        queue.waiting.append(out)
        self.uncommitted_bytes += out.size
        self.uncommitted_segments += len(out.converted.runs)

    def put_letters(self, range_: Range, letters: Iterable[tuple[Rejected, str]]) -> None:
        """Queue rejected records for the dead letter topic."""
        for record, error in letters:
            assert self._dead_letters is not None
            letter = self._letters.add(range_, record, error, self.settings.run)
            self.put(self.queues[self._dead_letters], letter)

    def refresh(self, range_: Range, position: Position) -> None:
        """See ``Writer.refresh``."""
        if range_.target in self.queues:
            self._refreshed[range_.target] = (range_, position)

    def pump(self) -> None:
        """Send all that waits in the transaction's queues.

        Raises:
            StartOver: if the transaction cannot be committed.
        """
        # Before a partition is added whose last transaction Kafka has not ended: this one would share its outcome.
        self.raise_if_void()
        while waiting := {
            tp: queue
            for tp, queue in self.queues.items()
            if queue.is_transactional and queue.waiting
        }:
            self._shut_out_late_requests()
            self._members.join(self.queues, waiting)
            self._pipeline.send_round(waiting)
            self.raise_if_void()

    def drain(self) -> None:
        """Send all that waits, and wait for all answers.

        Raises:
            StartOver: if the transaction cannot be committed, such as where a topic is another by now.
        """
        self.pump()
        by_connection = ask_for_topics(self.data, self.queues)
        self._pipeline.receive_all()
        check_topics(by_connection, self.queues, self.verdicts)
        self._settle()

    def _settle(self) -> None:
        self.raise_if_void()
        for queue in self.queues.values():
            queue.settle()

    def raise_if_void(self) -> None:
        """Raise ``StartOver`` if the transaction cannot be committed any more."""
        if self.verdicts.void:
            # Other transient failures are counted too, or a few bad partitions would use up all retries.
            self._pipeline.receive_all()
            raise self.verdicts.void

    def _transactional(self) -> dict[TopicPartition, PartitionQueue]:
        return {tp: queue for tp, queue in self.queues.items() if queue.is_transactional}

    def _encode(self, queue: PartitionQueue, batch: Batch) -> bytes:
        """``batch`` as one of the transaction."""
        producer = self.producer
        assert not producer.is_mending
        return for_producer(
            batch,
            producer_id=producer.producer_id,
            epoch=producer.epoch,
            sequence=queue.sequence,
        )

    # --- end

    def begin(self) -> None:
        """See ``TransactionMembers.begin``."""
        self._shut_out_late_requests()
        self._members.begin(self.queues)

    def commit(self, waits: Waits = NO_WAITS) -> dict[TopicPartition, int]:
        """Commit what was drained, with its ledger record and positions; see ``Writer.commit``."""
        if unsent := [str(tp) for tp, queue in self.queues.items() if queue.waiting]:
            # Forgotten with the transaction, they would leave a hole.
            raise StartOver(f"Batches for {', '.join(unsent)} were not sent; please report this.")
        positions = dict(self._refreshed)
        reached, copied = {}, []
        for tp, queue in self.queues.items():
            if queue.range and queue.tally:
                position = queue.position_after()
                positions[tp] = queue.range, position
                reached[queue.range.source] = position.offset
                copied.append(self._letters.with_letters(queue.copied_range()))
        if ahead := self._letters.ahead_of(copied):
            # A partition with preserved offsets has stopped before them: the next run would send them again.
            message = f"{', '.join(map(str, ahead))} stopped before records that were set aside."
            raise StartOver(message, excludes=self.verdicts.failures.keys() >= {*ahead})
        left = self._commit(tuple(copied), positions, waits)
        self.verdicts.after_commit(reached)
        hidden = {tp: range_ for tp in left if (range_ := self.queues[tp].range)}
        self._forget()
        self._set_aside(hidden, reached)
        return reached

    def commit_first(
        self,
        entries: tuple[CopiedRange, ...],
        positions: Mapping[TopicPartition, tuple[Range, Position]],
    ) -> None:
        """Commit the positions of ranges before anything is copied of them."""
        self._commit(entries, positions)
        self._members.forget(self.queues.values())

    def start_after_timeout(self) -> None:
        """Begin a new epoch where the coordinator itself has fenced the producer, whose transaction took too long.

        It lets the producer go on as long as no other one has started (KIP-588).

        Raises:
            Fenced: if another writer has taken over.
        """
        self._open.take_over(self._joined)
        self._start_over()

    def _start_over(self) -> None:
        """Begin a new epoch; also where the coordinator has lost this one, so that no other writer has taken over."""
        producer = self.producer
        try:
            producer.start_over()
        except Fenced:
            if not retry(lambda: has_lost_epoch(self.coordination, producer)):
                raise
            log.warning(
                "The coordinator of %s on %s has lost its newest records, as in an unclean leader election",
                producer.transactional_id,
                self.settings.alias,
            )
            producer.start()

    def renew(self) -> None:
        """Begin a new epoch of the producer, after its last transaction has ended.

        Raises:
            Fenced: if another writer has taken over.
        """
        self.producer.start_over()
        self._begin_epoch()

    def _shut_out_late_requests(self) -> None:
        """Renew the producer before a transaction in which requests of the last one may still arrive."""
        if self.producer.may_arrive_late and not self.is_begun:
            self.renew()

    def close(self) -> None:
        """Give the connections back."""
        self._connections.close()

    def _commit(
        self,
        entries: tuple[CopiedRange, ...],
        positions: Mapping[TopicPartition, tuple[Range, Position]],
        waits: Waits = NO_WAITS,
    ) -> frozenset[TopicPartition]:
        """Commit the transaction; returns the partitions that show it only once they have a leader."""
        if not positions:
            return frozenset()
        if entries:
            entry = self._progress.entry(entries, waits)
            record = single_record(*encode(entry), entry.at)
            self.queues[self._ledger].waiting.append(Outgoing(alone(record)))
            self.pump()
        refused = self._commit_offsets(positions)
        self.pump()
        self._pipeline.receive_all()
        self._settle()
        for tp, code in refused.items():
            range_, position = positions[tp]
            advice = advice_on(code, [Right.topic("READ", tp.topic)])
            message = f"its position could not be committed: {error_name(code)}."
            if is_transient(code):
                self.verdicts.fail_for_now(range_, position.offset, code)
            else:
                self.verdicts.fail(range_, position.offset, message, advice=advice)
            raise StartOver(f"{range_.target}: {message}", advice=advice, excludes=True)
        return self._end(positions)

    def _commit_offsets(
        self, positions: Mapping[TopicPartition, tuple[Range, Position]]
    ) -> Mapping[TopicPartition, int]:
        """Make positions part of the transaction; returns the error codes of refused ones."""
        offsets = self._progress.offsets(positions, self._topic_ids())
        if not offsets:
            return {}
        self._members.require_group()
        return self._position_commit.commit(offsets, self.queues[self._ledger].node)

    def _end(self, positions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Commit the transaction, and wait until all partitions show it but those without a leader."""
        joined, epoch = self._joined, self.producer.epoch
        self.producer.end(commit=True)
        try:
            left = self._open.settle_commit(joined, positions)
        except FerryError as error:
            # Starting over would abort on some partitions what is committed on others.
            raise FerryError(
                f"A committed transaction could not be confirmed on all partitions: {error.message}",
                advice=error.advice,
            ) from error
        if self.producer.epoch != epoch:
            self._begin_epoch()
        return left

    def _begin_epoch(self) -> None:
        for queue in self._transactional().values():
            queue.sequence = 0

    def _forget(self) -> None:
        self._refreshed.clear()
        self._letters.clear()
        self._members.forget(self.queues.values())
        self.verdicts.void = None
        self.uncommitted_bytes = self.uncommitted_segments = 0
        for queue in self.queues.values():
            queue.forget()
