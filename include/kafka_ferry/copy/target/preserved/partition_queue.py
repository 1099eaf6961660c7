"""A target partition with preserved offsets: decides what is next in its log, record or gap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

from kafka_ferry.batches import Batch, ConvertedBatch, TopicLimits, empty_batches, next_sequence
from kafka_ferry.batches.record_format.header import MAX_SEQUENCE
from kafka_ferry.copy.target.preserved.uncommitted_tail import Ahead, Misplaced
from kafka_ferry.copy.target.produce.partition_queue import Outgoing, PartitionQueue, RangeTally
from kafka_ferry.ledger import CopiedRange
from kafka_ferry.model.positions import Position, ProducerState
from kafka_ferry.model.ranges import Range
from kafka_ferry.wire import PartitionLeader


@dataclass(slots=True)
class PreservedQueue(PartitionQueue):
    """One target partition with preserved offsets.

    ::

        source   0 1 2 . . 5 6 7 M M      (3 and 4: aborted; 8 and 9: transaction markers)
        target   0 1 2 c c 5 6 7          end = 8, missing = 2, once both are accounted for

    Attributes:
        leader: the broker that leads it, by the metadata.
        producer_id: the producer that writes its records, and only its.
        epoch: the producer's epoch.
        counted: the producer's next sequence number after what is accounted for; ``sequence`` is
            that of the next batch.
        end: the end of the target's log, as far as known.
        starts_at: the log start that was set, as far as this writer knows.
        fill_to: it is to be filled at least up to here, whatever comes next.
        ahead: what an earlier attempt has written after the position, until all of it is adopted.
        is_sending: whether the batch at the head is in flight; no other one is then.
        coordinator_epoch: of the control records that were written since the writer took over, so that
            brokers refuse those of an earlier writer; -1 while there are none.
    """

    is_transactional: ClassVar[bool] = False

    leader: PartitionLeader = field(kw_only=True)
    producer_id: int = -1
    epoch: int = 0
    counted: int = 0
    end: int = 0
    starts_at: int = 0
    fill_to: int = 0
    ahead: Ahead | None = None
    is_sending: bool = False
    coordinator_epoch: int = -1

    def open(self, position: Position, end: int) -> int:
        """Continue at ``position`` in a log that ends at ``end``.

        Returns:
            The offset up to which the log is known; records after it are of an earlier attempt.

        Raises:
            Misplaced: if the log ends before that.
        """
        producer = position.producer
        if producer is None:
            message = "it was copied with translated offsets until now."
            raise Misplaced(message, offset=position.offset)
        self.producer_id, self.epoch = producer.producer_id, producer.epoch
        self.sequence = self.counted = producer.sequence
        self.end, self.fill_to = end, position.offset
        if producer.unfilled_to >= 0:
            # Nothing is committed yet: the log ends anywhere between 0 and what an attempt has written.
            self.starts_at = producer.unfilled_to
            return self.starts_at
        if end < position.offset:
            message = (
                f"its log ends at {end}, before the position {position.offset}: records that were "
                "copied are gone (an unclean leader election?)."
            )
            raise Misplaced(message, offset=position.offset)
        return position.offset

    def begin_epoch(self) -> None:
        """Number the records from 0 again, in the producer's next epoch (KIP-360).

        Once a broker has forgotten a producer, it takes any sequence number; but after a control record, which
        lets it know the epoch again, only 0 (``ProducerAppendInfo.checkSequence``).
        """
        if self.sequence:
            # Records before a gap are in the log, and are accounted for once it is filled.
            runs = (run for out in self.waiting for run in out.converted.runs)
            written = sum(count for first, count in runs if first < self.end)
            self.epoch, self.sequence, self.counted = self.epoch + 1, 0, -written

    def start_batches(self, topic_limits: TopicLimits) -> Iterator[ConvertedBatch]:
        """Empty records for the offsets missing below the mirror's start."""
        at = self.end
        if at < self.starts_at:
            # Nothing else is in the log so far, so that its end counts them.
            self.sequence = at % (MAX_SEQUENCE + 1)
            for batch in empty_batches(self.starts_at - at, topic_limits):
                after = at + batch.header.records
                yield ConvertedBatch(at, after, batch, ((at, after - at),))
                at = after

    @property
    def missing(self) -> int:
        """How many offsets from ``end`` on have no record; 0 where a batch comes next, or nothing."""
        wanted = self.fill_to
        for first, after in self._next_stretches():
            if first < after:
                return max(0, first - self.end)
            wanted = max(wanted, after)
        return max(0, wanted - self.end)

    def _next_stretches(self) -> Iterator[tuple[int, int]]:
        """The spans of the waiting records; an empty span at the end of a batch without records."""
        for out in self.waiting:
            if out.converted.runs and sum(out.converted.runs[-1]) > self.end:
                yield out.converted.runs[0][0], sum(out.converted.runs[-1])
            else:
                yield out.converted.end, out.converted.end

    @property
    def has_unsent(self) -> bool:
        """Whether something waits after the batch in flight."""
        return len(self.waiting) > self.is_sending

    @property
    def producer(self) -> ProducerState:
        """The producer after the last converted batch that is accounted for."""
        return ProducerState(self.producer_id, self.epoch, self.counted)

    def next_to_send(self) -> Outgoing | None:
        """The batch that belongs at the end of the log, if there is one and none is in flight."""
        self.settle()
        if self.is_sending or not self.waiting:
            return None
        head = self.waiting[0]
        if not head.converted.runs or head.converted.runs[0][0] != self.end:
            return None
        self.is_sending = True
        return head

    def settle(self) -> None:
        """Account for everything at the head that the log holds, gaps included."""
        while self.waiting and not self.is_sending and self.waiting[0].converted.end <= self.end:
            self.account(self.waiting.popleft())

    def account(self, out: Outgoing) -> None:
        """Count the outcome of a converted batch of the range."""
        PartitionQueue.account(self, out)
        self.counted = next_sequence(self.counted, sum(count for _, count in out.converted.runs))

    def count_adopted(self, batches: Iterable[Batch]) -> None:
        """Count the batches in which an earlier attempt has written the records accounted for last."""
        assert self.tally is not None
        for batch in batches:
            self.tally.add_stored(batch)

    def position_after(self) -> Position:
        """The range's position with what is accounted for, and the producer after it."""
        return replace(PartitionQueue.position_after(self), producer=self.producer)

    def forget(self) -> None:
        """Forget what is committed, or will be read again."""
        PartitionQueue.forget(self)
        self.is_sending = False

    def copied_range(self) -> CopiedRange:
        """The part of the range since the last commit, for the ledger."""
        copied = PartitionQueue.copied_range(self)
        return copied.model_copy(update={"preserved": True, "producer": self.producer})


def first_position(range_: Range) -> Position:
    """The position of a partition without any record; its producer has no id yet.

    Before its first record the producer has written the empty records below the mirror's start.
    """
    start = max(range_.log_start, 0)
    producer = ProducerState(-1, 0, start % (MAX_SEQUENCE + 1), unfilled_to=start)
    return Position(
        range_.start, range_.topic_id, leader_epoch=range_.start_epoch, producer=producer
    )


def first_entry(queue: PreservedQueue, position: Position) -> CopiedRange:
    """The ledger's range for a partition without any record: where it begins."""
    queue.tally = RangeTally(position.offset, position.offset, leader_epoch=position.leader_epoch)
    copied, queue.tally = PartitionQueue.copied_range(queue), None
    return copied.model_copy(update={"preserved": True, "producer": position.producer})


def at_log_start(position: Position) -> Position:
    """The position while the log's start is being filled."""
    producer = position.producer and replace(position.producer, unfilled_to=-1)
    return replace(position, producer=producer)
