"""What belongs to a transaction by its coordinator: partitions, and the flow's group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafka_ferry.copy.target.produce.partition_queue import PartitionQueue
from kafka_ferry.copy.target.produce.pipeline import Answer
from kafka_ferry.copy.target.produce.verdicts import Verdicts
from kafka_ferry.copy.target.writer import StartOver
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.wire.error_codes import fault, is_transient
from kafka_ferry.wire.transactions.producer import TransactionalProducer


class TransactionMembers:
    """Adds to a producer's transaction what is to be written in it, in as few requests as that takes.

    Args:
        producer: the transaction's producer.
        verdicts: takes the ranges whose partitions were refused.
        ledger: the partition whose record ends each transaction.
        group: the group whose offsets are a part of each transaction; "" for none.
    """

    def __init__(
        self,
        producer: TransactionalProducer,
        verdicts: Verdicts,
        ledger: TopicPartition,
        group: str,
    ) -> None:
        self._producer = producer
        self._verdicts = verdicts
        self._ledger = ledger
        self._group = group
        self._has_group = False

    def begin(self, queues: Mapping[TopicPartition, PartitionQueue]) -> None:
        """Begin with the ledger alone: once that is possible, the last transaction has ended everywhere."""
        for code in self._add([self._ledger]).values():
            needed = Right.topic("WRITE", self._ledger.topic)
            raise fault(code, f"Writing to {self._ledger.topic}", needed)
        queues[self._ledger].in_transaction = True

    def join(
        self,
        queues: Mapping[TopicPartition, PartitionQueue],
        waiting: Mapping[TopicPartition, PartitionQueue],
    ) -> None:
        """Add the partitions of ``queues`` that have batches ``waiting``.

        Raises:
            BrokerError: one of the flow's own topics was refused.
            StartOver: others were refused, of which ``verdicts`` knows.
        """
        new = [
            tp
            for tp, queue in waiting.items()
            if not queue.in_transaction and any(out.size for out in queue.waiting)
        ]
        if not new:
            return
        if not queues[self._ledger].in_transaction and self._ledger not in new:
            # Its record ends each transaction: one request adds it too.
            new.append(self._ledger)
        if refused := self._add(new):
            for tp, code in refused.items():
                self._refuse(tp, queues[tp], code)
            # The broker adds all partitions of a request or none.
            raise StartOver(
                f"{len(refused)} partition(s) could not be added to the transaction.", excludes=True
            )
        for tp in new:
            queues[tp].in_transaction = True

    def require_group(self) -> None:
        """Add the group, unless it was added with the first partitions."""
        if not self._has_group:
            self._producer.add_group(self._group)

    def forget(self, queues: Iterable[PartitionQueue]) -> None:
        """Begin the next transaction, which nothing belongs to yet."""
        self._has_group = False
        for queue in queues:
            queue.in_transaction = False

    def _add(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Add partitions, and the group with the first of them; the codes of refused ones."""
        refused = self._producer.add_partitions(partitions, "" if self._has_group else self._group)
        self._has_group = True
        return refused

    def _refuse(self, tp: TopicPartition, queue: PartitionQueue, code: int) -> None:
        if queue.range is None:
            raise fault(code, f"Writing to {tp.topic}", Right.topic("WRITE", tp.topic))
        if is_transient(code):
            # The coordinator does not know the topic yet.
            start = queue.waiting[0].converted.start
            self._verdicts.fail_for_now(queue.range, start, code)
        else:
            self._verdicts.refuse(queue, queue.waiting[0], Answer(code, -1, "", ()))
