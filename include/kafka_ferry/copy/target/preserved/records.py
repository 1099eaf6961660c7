"""The offset-preserving write protocol: each record has the same offset on the target as on the source.

::

    source   0 1 2 . . 5 6 M        (3 and 4: aborted; M: the marker of a transaction)
    target   0 1 2 c c 5 6 c        (c: control records, which no consumer shows)

Promises, beyond those of ``copy.target.writer.Writer``:

(a) a record is written only at its own offset: the log's end decides what is written next, one batch
    of a partition is in flight at a time, and an answer with another offset stops the partition;
(b) nothing is written twice: a partition's batches are always of one producer, whose sequence numbers
    count its records, so that a broker recognizes a repeated batch and refuses an overlapping one;
(c) an offset without a record holds a control record: no consumer, of either isolation level, sees
    anything that a committed reader of the source does not see.

Data is visible before it is committed. The next attempt *adopts* what an attempt has written and not
committed: it reads source and target again from the position on, and compares them record by record.

Not promised: that no other producer writes. Foreign records are detected by offset and reported, and
cannot be undone. docs/preserved-offsets.md has the order of events, and the state after a crash between
any two.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from kafka_ferry.batches import (
    Batch,
    ConvertedBatch,
    by_runs,
    cut_at,
    for_producer,
)
from kafka_ferry.copy.target.preserved.adoption import Adoption
from kafka_ferry.copy.target.preserved.control_records import filler_of
from kafka_ferry.copy.target.preserved.gap_filler import Gaps
from kafka_ferry.copy.target.preserved.log_starts import LogStarts
from kafka_ferry.copy.target.preserved.partition_queue import (
    PreservedQueue,
    at_log_start,
    first_entry,
    first_position,
)
from kafka_ferry.copy.target.preserved.uncommitted_tail import Misplaced
from kafka_ferry.copy.target.produce.partition_queue import Outgoing, PartitionQueue
from kafka_ferry.copy.target.produce.pipeline import Answer, Pipeline
from kafka_ferry.copy.target.transaction import Transaction
from kafka_ferry.copy.target.writer import void_unless_known
from kafka_ferry.errors import FerryError
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.retry import retry
from kafka_ferry.wire import PartitionLeader
from kafka_ferry.wire.error_codes import NONE, OUT_OF_ORDER_SEQUENCE_NUMBER, fault
from kafka_ferry.wire.partitions.ends import settled_ends
from kafka_ferry.wire.partitions.list_offsets import high_watermarks
from kafka_ferry.wire.transactions.markers import new_producer_id, transactions_in_memory

# Two requests per broker, so that one is in flight while the other is answered.
_REQUEST_BYTES: Final = 2 * 1024 * 1024
# A writer that was paused for so long may have been treated as dead.
_STALE_S: Final = 20.0
_REPAIR: Final = (
    "Run `ferry repair --config ... --flow '{flow}' --topic {topic}`: this copy can no longer be "
    "completed, and with --yes it is given up, so that the next run copies it again; before that, "
    "find the other producer and revoke its WRITE permission."
)
# Before KAFKA-7190.
_TOO_OLD: Final = (
    "its broker forgets a producer whose records are deleted, so that it would not recognize a repeated "
    "batch. Preserved offsets need Kafka 2.4; set offsets: translated."
)


class PreservedRecords:
    """Writes batches at the source's own offsets, outside of the transaction; see ``RecordWriter``.

    Args:
        transaction: the writer's.
        fill: ``transactions``, ``markers`` or ``auto``: how offsets without a record are filled.
    """

    def __init__(self, transaction: Transaction, *, fill: str) -> None:
        self._transaction = transaction
        self._cluster = transaction.coordination
        self._verdicts = transaction.verdicts
        self._pipeline = Pipeline(
            transaction.data, _encode, self._judge, request_bytes=_REQUEST_BYTES
        )
        filler = filler_of(fill, self._cluster, transaction.producer, self._renew)
        self._gaps = Gaps(self._cluster, filler, self._verdicts, self._fail, self._renew)
        self._starts = LogStarts(self._cluster, self._verdicts, self._fail)
        self._adoption = Adoption(transaction, self._fail)
        self._heard_at = 0.0

    def forget(self) -> None:
        """See ``RecordWriter``."""
        self._pipeline.forget()

    def queue_of(self, leader: PartitionLeader, range_: Range) -> PreservedQueue:
        """See ``RecordWriter``."""
        return PreservedQueue(leader.node, range_, leader.topic_id, leader=leader)

    def write(self, range_: Range, converted: ConvertedBatch) -> None:
        """See ``RecordWriter``."""
        queue = self._transaction.queues.get(range_.target)
        if not isinstance(queue, PreservedQueue):
            return
        topic_limits = self._transaction.limits_by_topic[range_.remote_topic]
        for piece, letters in self._verdicts.sort_out(range_, converted, topic_limits):
            self._transaction.put_letters(range_, letters)
            for part in by_runs(piece):
                self._take(queue, part)

    def send(self) -> None:
        """See ``RecordWriter``."""
        self._pump()

    def drain(self) -> None:
        """See ``RecordWriter``: nothing else may be in the logs, not even in place of a control record."""
        self._pump(to_the_end=True)
        self._transaction.drain()
        self._require_ends()

    def after_commit(self, reached: Mapping[TopicPartition, int]) -> None:
        """See ``RecordWriter``: the logs' starts follow."""
        self._heard_at = time.monotonic()
        self._starts.follow(self._open_queues(), reached)

    def _queues(self) -> dict[TopicPartition, PreservedQueue]:
        queues = self._transaction.queues
        return {tp: queue for tp, queue in queues.items() if isinstance(queue, PreservedQueue)}

    def _open_queues(self) -> dict[TopicPartition, PreservedQueue]:
        return {tp: queue for tp, queue in self._queues().items() if self._is_open(queue)}

    def _is_open(self, queue: PreservedQueue) -> bool:
        assert queue.range is not None
        return queue.range.source not in self._verdicts.failures

    # --- take-over

    def resume(
        self, positions: Mapping[TopicPartition, Position]
    ) -> Mapping[TopicPartition, Position]:
        """See ``RecordWriter``."""
        self._gaps.take_over()
        if self._cluster.any_connection().is_before_2_4:
            for queue in self._queues().values():
                self._fail(queue, 0, _TOO_OLD)
        queues = self._open_queues()
        ends = retry(lambda: self._settled_ends(queues))
        positions = dict(positions)
        positions |= self._register(
            {tp: queue for tp, queue in queues.items() if tp not in positions}, ends
        )
        for tp, queue in queues.items():
            if tp in positions and self._is_open(queue):
                self._open(tp, queue, positions[tp], ends[tp])
        self._fill_starts({tp: t for tp, t in queues.items() if t.starts_at and self._is_open(t)})
        self._heard_at = time.monotonic()
        return {tp: at_log_start(position) for tp, position in positions.items()}

    def _settled_ends(
        self, queues: Mapping[TopicPartition, PreservedQueue]
    ) -> dict[TopicPartition, int]:
        """The ends of the queues' logs, from their current leaders."""
        leaders = self._cluster.leaders(queues)
        for tp, queue in queues.items():
            if leaders[tp].node < 0:
                needed = Right.topic("WRITE", tp.topic)
                raise fault(leaders[tp].error, f"Looking for the leader of {tp}", needed)
            queue.node, queue.leader = leaders[tp].node, leaders[tp]
        return settled_ends(self._cluster, leaders)

    def _register(
        self, new: Mapping[TopicPartition, PreservedQueue], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Position]:
        """The positions of partitions without records, committed before the first record is written.

        The producer in such a position identifies records that are later found after it.
        """
        positions = {}
        for tp, queue in new.items():
            range_ = queue.range
            assert range_ is not None
            if ends[tp]:
                what = f"its log ends at {ends[tp]}, and the flow has copied nothing to it."
                self._fail(queue, range_.start, what, advice=True)
                continue
            positions[tp] = first_position(range_)
        if not positions:
            return {}
        producer_id = new_producer_id(self._cluster)
        for tp, position in positions.items():
            assert position.producer is not None
            producer = replace(position.producer, producer_id=producer_id)
            positions[tp] = replace(position, producer=producer)
        first = {
            tp: (queue.range, positions[tp])
            for tp, queue in new.items()
            if tp in positions and queue.range
        }
        entries = tuple(first_entry(new[tp], position) for tp, position in positions.items())
        with void_unless_known():
            self._transaction.commit_first(entries, first)
        return positions

    def _open(
        self, tp: TopicPartition, queue: PreservedQueue, position: Position, end: int
    ) -> None:
        """Find out what is next in the partition, whose log ends at ``end``."""
        try:
            known_to = queue.open(position, end)
        except Misplaced as error:
            self._fail(queue, error.offset, error.message, advice=True)
            return
        if end > known_to:
            self._adoption.begin(queue, tp, (known_to, end), position.offset)

    def _fill_starts(self, queues: Mapping[TopicPartition, PreservedQueue]) -> None:
        """Move the logs of new partitions to where their mirrors start, before they are used."""
        for tp, queue in queues.items():
            for converted in queue.start_batches(self._transaction.limits_by_topic[tp.topic]):
                queue.waiting.append(Outgoing(converted, queue.range))
        with void_unless_known():
            while any(queue.waiting for queue in queues.values()):
                if not self._pipeline.send_round(queues):
                    self._pipeline.receive_next()
                self._raise_if_void()
            for queue in queues.values():
                # They are not records of the range.
                queue.tally, queue.counted = None, queue.sequence
            filled = {tp: queue for tp, queue in queues.items() if self._is_open(queue)}
            starts = {tp: queue.starts_at for tp, queue in filled.items()}
            self._starts.move(filled, starts, otherwise="offsets.start: 0")
            self._raise_if_void()

    # --- queues

    def _take(self, queue: PreservedQueue, converted: ConvertedBatch) -> None:
        """Queue the converted batch, unless an earlier attempt has written it."""
        if queue.ahead and converted.start < queue.ahead.end:
            known, rest = (
                cut_at(converted, queue.ahead.end)
                if converted.end > queue.ahead.end
                else (converted, None)
            )
            self._adoption.adopt(queue, known)
            if rest is None:
                return
            converted = rest
        if self._is_open(queue):
            self._transaction.put(queue, Outgoing(converted, queue.range))

    # --- writing

    def _pump(self, *, to_the_end: bool = False) -> None:
        """Send and fill all that waits; the last requests need not be answered, unless ``to_the_end``."""
        while True:
            self._stay_alive()
            queues = self._open_queues()
            if self._pipeline.send_round(queues):
                pass
            elif any(t.has_unsent for t in queues.values()) and not self._pipeline.is_idle:
                self._pipeline.receive_next()
            elif gaps := {tp: t for tp, t in queues.items() if t.missing and not t.is_sending}:
                self._gaps.fill(gaps)
                self._heard_at = time.monotonic()
            elif to_the_end and not self._pipeline.is_idle:
                self._pipeline.receive_next()
            else:
                self._raise_if_void()
                return
            self._raise_if_void()

    def _stay_alive(self) -> None:
        """After a long pause, check whether another writer has taken over (raises ``Fenced``).

        Sequence numbers keep a paused writer from doing harm, but only for as long as the broker
        remembers them.
        """
        if not self._transaction.is_begun and time.monotonic() - self._heard_at > _STALE_S:
            self._renew()

    def _renew(self) -> None:
        """Begin a new epoch of the writer's own producer, after its last transaction has ended.

        Raises:
            Fenced: if another writer has taken over.
        """
        self._transaction.renew()
        self._heard_at = time.monotonic()

    def _raise_if_void(self) -> None:
        if self._verdicts.void:
            self._pipeline.receive_all()
        self._transaction.raise_if_void()

    def _judge(self, queue: PartitionQueue, out: Outgoing, answer: Answer) -> None:
        assert isinstance(queue, PreservedQueue)
        queue.is_sending = False
        offset = out.converted.first
        assert offset is not None
        if answer.code == NONE and answer.base_offset == offset:
            out.base_offset = offset
            queue.end = sum(out.converted.runs[-1])
            queue.settle()
        elif answer.code == NONE:
            what = "something else has been written to it"
            if answer.base_offset < offset:
                what = "its log has lost records (an unclean leader election?)"
            message = f"it stored the record of offset {offset} at {answer.base_offset}: {what}."
            self._fail(queue, offset, message, advice=True)
        elif answer.code == OUT_OF_ORDER_SEQUENCE_NUMBER and self._is_forgotten(queue, out):
            queue.begin_epoch()
        else:
            self._verdicts.judge(queue, out, answer)
            # Where the outcome is not known, the batch has its sequence number once only: nothing more is sent.
            queue.is_sending = bool(self._verdicts.void)

    def _is_forgotten(self, queue: PreservedQueue, out: Outgoing) -> bool:
        """Whether the leader knows the producer by a control record alone, and so takes no sequence number but 0.

        A broker forgets a producer that has written nothing for a while (``producer.id.expiration.ms``).
        """
        assert queue.range is not None and out.converted.batch is not None
        if queue.sequence == out.converted.batch.header.records:
            return False
        tp = queue.range.target
        with suppress(FerryError):
            known = transactions_in_memory(self._cluster, {queue.node: {tp: queue.producer_id}})
            if tp in known and known[tp].coordinator_epoch >= 0 > known[tp].last_sequence:
                return high_watermarks(self._cluster, {tp: queue.node})[tp] == queue.end
        return False

    def _require_ends(self) -> None:
        queues = {tp: queue for tp, queue in self._queues().items() if queue.tally}
        if not queues:
            return
        # When a transaction can begin, all control records of the last one are in the logs.
        self._transaction.begin()
        ends = high_watermarks(self._cluster, {tp: t.node for tp, t in queues.items()})
        for tp, queue in queues.items():
            if ends[tp] != queue.end and self._is_open(queue) and queue.range:
                queue.tally = None
                message = (
                    f"its log ends at {ends[tp]}, although this run has written only up to {queue.end}: "
                    "something else has been written to it since the last committed position."
                )
                self._fail(queue, queue.range.start, message, advice=True)

    def _fail(
        self,
        queue: PreservedQueue,
        offset: int,
        message: str,
        code: int = NONE,
        *,
        advice: bool = False,
    ) -> None:
        """Stop writing to a partition; ``advice`` says that it has to be repaired."""
        assert queue.range is not None
        flow, topic = self._transaction.settings.flow, queue.range.remote_topic
        self._verdicts.fail(
            queue.range,
            offset,
            f"{queue.range.target} on the target: {message}",
            code,
            advice=_REPAIR.format(flow=flow, topic=topic) if advice else "",
        )
        queue.waiting.clear()
        queue.fill_to = 0


def _encode(queue: PartitionQueue, batch: Batch) -> bytes:
    """``batch`` as one of the queue's own producer, of no transaction."""
    assert isinstance(queue, PreservedQueue)
    return for_producer(
        batch,
        producer_id=queue.producer_id,
        epoch=queue.epoch,
        sequence=queue.sequence,
        transactional=False,
    )
