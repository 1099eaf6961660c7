"""Positions as a part of a transaction: committed in the flow's group, after the ledger's record."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafka_ferry.copy.target.produce.pipeline import Pipeline
from kafka_ferry.copy.target.writer import StartOver
from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.model.groups import Committed
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.offset_parts import is_too_large, parts_of
from kafka_ferry.wire.transactions.producer import TransactionalProducer


class PositionCommit:
    """Commits positions in a producer's open transaction, which the group belongs to by then.

    Args:
        cluster: connections for batches.
        producer: the producer.
        pipeline: the batches on their way, the ledger's record among them.
        group: the flow's group.
        raise_if_void: raises ``StartOver`` if the transaction cannot be committed any more.

    Attributes:
        asked: the broker that has told the group's positions, by its node id.
    """

    def __init__(
        self,
        cluster: WireCluster,
        producer: TransactionalProducer,
        pipeline: Pipeline,
        group: str,
        raise_if_void: Callable[[], None],
    ) -> None:
        self.asked = -1
        self._cluster, self._producer, self._pipeline = cluster, producer, pipeline
        self._group, self._raise_if_void = group, raise_if_void

    def commit(
        self, offsets: Mapping[TopicPartition, Committed], ledger_node: int
    ) -> Mapping[TopicPartition, int]:
        """Commit positions; ``ledger_node`` is the broker that takes the ledger's record.

        Returns:
            Kafka's error code for each partition that was refused.

        Raises:
            StartOver: if the group has another coordinator than the one that has told its positions.
        """
        if self._producer.group_node(self._group) == ledger_node:
            refused = self._commit_after_record(offsets, ledger_node)
        else:
            refused = self._producer.commit_offsets(self._group, offsets)
        if self._producer.group_node(self._group) != self.asked:
            # A broker that is cut off from the others answers too, with offsets as they were then.
            raise StartOver(
                f"The group {self._group} has another coordinator than when it was asked."
            )
        return refused

    def _commit_after_record(
        self, offsets: Mapping[TopicPartition, Committed], node: int
    ) -> Mapping[TopicPartition, int]:
        """Commit positions where one broker takes them and the ledger's record.

        It asks the transaction's coordinator whether it may (KIP-890). A second question of a transaction
        voids one that it has not sent yet, and the record is refused with NOT_ENOUGH_REPLICAS
        (``AddPartitionsToTxnManager``); at different brokers the two may overlap. Here the positions follow
        the record on its connection, of which a broker handles one request after the other.
        """
        connection = self._cluster.connection(node)
        first = next(parts_of(self._group, offsets))
        question = self._producer.ask_to_commit(self._group, first, connection)
        connection.send(question.request)
        self._pipeline.receive_all()
        committed: set[TopicPartition] = set()
        refused: dict[TopicPartition, int] = {}
        try:
            refused = question.read(connection.receive())
            committed.update(first)
        except FerryError as error:
            if not (error.transient or is_too_large(error)):
                raise
            if isinstance(error, ClusterUnreachable):
                self._producer.may_arrive_late = True
            self._raise_if_void()
        left = {tp: offset for tp, offset in offsets.items() if tp not in committed}
        return refused | self._producer.commit_offsets(self._group, left)
