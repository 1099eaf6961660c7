"""The translated write protocol: one Kafka transaction holds batches, positions and the ledger record.

Promises, beyond those of ``copy.target.writer.Writer``:

(a) the batches of a transaction, its positions and its ledger record appear together or not at all
    (``copy.target.transactional_writer``);
(b) a partition never has a gap: if a batch was refused and a later one accepted, the transaction is
    aborted and written again up to the refused batch;
(c) order within a partition is kept (``copy.target.produce_pipeline``).

Not promised: the target offsets. The target assigns them, and the ledger records them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kafka_ferry.batches import ConvertedBatch
from kafka_ferry.copy.target.partition_queue import Outgoing, PartitionQueue
from kafka_ferry.copy.target.transactional_writer import TransactionalWriter
from kafka_ferry.copy.target.writer import void_unless_known
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.wire import PartitionLeader


class TranslatedWriter(TransactionalWriter):
    """Writes one writer number's partitions in transactions."""

    _preserves: ClassVar = False

    def write(self, range_: Range, converted: ConvertedBatch) -> None:
        """See ``Writer.write``."""
        queue = self._queues.get(range_.target)
        if queue is None:
            return
        topic_limits = self._limits_by_topic[range_.remote_topic]
        for piece, letters in self._verdicts.sort_out(range_, converted, topic_limits):
            self._put(queue, Outgoing(piece, range_))
            self._put_letters(range_, letters)

    def send(self) -> None:
        """See ``Writer.send``."""
        with void_unless_known():
            self._pump()

    def _queue(self, leader: PartitionLeader, range_: Range | None) -> PartitionQueue:
        return PartitionQueue(leader.node, range_, leader.topic_id)

    def _transactional(self) -> Mapping[TopicPartition, PartitionQueue]:
        return self._queues

    def _resume(
        self, positions: Mapping[TopicPartition, Position]
    ) -> Mapping[TopicPartition, Position]:
        for tp, position in positions.items():
            queue = self._queues.get(tp)
            if queue and queue.range and position.topic_id in ("", queue.range.topic_id):
                queue.position = position.offset
        return positions

    def _make_sure(self) -> None:
        """Does nothing: foreign records in between are not in the transaction, and do no harm."""

    def _position(self, queue: PartitionQueue) -> Position:
        assert queue.tally is not None
        return Position(queue.tally.end, leader_epoch=queue.tally.leader_epoch)
