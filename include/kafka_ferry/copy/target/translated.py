"""The translated write protocol: one Kafka transaction holds batches, positions and the ledger record.

Promises, beyond those of ``copy.target.writer.Writer``:

(a) the batches of a transaction, its positions and its ledger record appear together or not at all
    (``copy.target.transaction``);
(b) a partition never has a gap: if a batch was refused and a later one accepted, the transaction is
    aborted and written again up to the refused batch;
(c) order within a partition is kept (``copy.target.produce.pipeline``).

Not promised: the target offsets. The target assigns them, and the ledger records them.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_ferry.batches import ConvertedBatch
from kafka_ferry.copy.target.produce.partition_queue import Outgoing, PartitionQueue
from kafka_ferry.copy.target.transaction import Transaction
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.wire import PartitionLeader


class TranslatedRecords:
    """Writes batches in the transaction itself; see ``RecordWriter``.

    Args:
        transaction: the writer's.
    """

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def forget(self) -> None:
        """See ``RecordWriter``: all of it is the transaction's."""

    def queue_of(self, leader: PartitionLeader, range_: Range) -> PartitionQueue:
        """See ``RecordWriter``."""
        return PartitionQueue(leader.node, range_, leader.topic_id)

    def resume(
        self, positions: Mapping[TopicPartition, Position]
    ) -> Mapping[TopicPartition, Position]:
        """See ``RecordWriter``."""
        for tp, position in positions.items():
            queue = self._transaction.queues.get(tp)
            if queue and queue.range and position.topic_id in ("", queue.range.topic_id):
                queue.position = position.offset
        return positions

    def write(self, range_: Range, converted: ConvertedBatch) -> None:
        """See ``RecordWriter``."""
        transaction = self._transaction
        queue = transaction.queues.get(range_.target)
        if queue is None:
            return
        topic_limits = transaction.limits_by_topic[range_.remote_topic]
        for piece, letters in transaction.verdicts.sort_out(range_, converted, topic_limits):
            transaction.put(queue, Outgoing(piece, range_))
            transaction.put_letters(range_, letters)

    def send(self) -> None:
        """See ``RecordWriter``."""
        self._transaction.pump()

    def drain(self) -> None:
        """See ``RecordWriter``: foreign records in between are not in the transaction, and do no harm."""
        self._transaction.drain()

    def after_commit(self, reached: Mapping[TopicPartition, int]) -> None:
        """See ``RecordWriter``: nothing follows."""
