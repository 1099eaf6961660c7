"""Single records of one partition, by one writer at a time: each in a transaction of its own, or outside of any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from kafka_ferry.batches import Batch, for_producer
from kafka_ferry.config import Cluster
from kafka_ferry.errors import BrokerError, Fenced, FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.retry import retry
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.error_codes import fault, is_definite
from kafka_ferry.wire.pool import connect
from kafka_ferry.wire.produce import produce
from kafka_ferry.wire.transactions.endings import Ending, TransactionOutcome, epochs_question
from kafka_ferry.wire.transactions.producer import TransactionalProducer
from kafka_ferry.wire.transactions.settlement import Settlement

_TIMEOUT_MS: Final = 60_000

T = TypeVar("T")


class _Again(FerryError):
    """Another writer has taken over meanwhile, or what became of the request is unknown."""

    transient = True


class ExclusiveWriter:
    """Writes batches to a partition for as long as no later writer has the same transactional id.

    Attributes:
        cluster: the cluster, for what is to be read before.
        partition: the partition.
    """

    def __init__(
        self, cluster: WireCluster, partition: TopicPartition, transactional_id: str
    ) -> None:
        self.cluster, self.partition = cluster, partition
        self._producer = TransactionalProducer(cluster, transactional_id, timeout_ms=_TIMEOUT_MS)
        self._producer.start(lambda: epochs_question(cluster, partition))
        self._sequence = 0

    def write(self, batch: Batch) -> None:
        """Write a batch of one record, and wait until all replicas in sync have it.

        Raises:
            Fenced: if another writer has taken over.
            FerryError: if the broker refuses it.
        """
        self._write(batch, in_transaction=False)

    def commit(self, batch: Batch) -> None:
        """Write a batch of one record in a transaction, and wait until consumers see it; errors as of ``write``."""
        partition, producer = self.partition, self._producer
        for code in producer.add_partitions([partition]).values():
            raise fault(code, self._deed, self._needed_right)
        self._write(batch, in_transaction=True)
        epoch = producer.epoch
        producer.end(commit=True)
        settlement = Settlement(self.cluster, self.cluster, producer)
        settlement.settle(Ending(TransactionOutcome.COMMITTED), [partition], [])
        if producer.epoch != epoch:
            self._sequence = 0

    @property
    def _deed(self) -> str:
        return f"Writing to {self.partition.topic} on {self.cluster.alias}"

    @property
    def _needed_right(self) -> Right:
        return Right.topic("WRITE", self.partition.topic)

    def _write(self, batch: Batch, *, in_transaction: bool) -> None:
        cluster, partition = self.cluster, self.partition
        leader = cluster.recent_leaders([partition])[partition]
        if leader.node < 0:
            raise fault(leader.error, self._deed, self._needed_right)
        sent = for_producer(
            batch,
            producer_id=self._producer.producer_id,
            epoch=self._producer.epoch,
            sequence=self._sequence,
            transactional=in_transaction,
        )
        name = self._producer.transactional_id if in_transaction else None
        if code := produce(cluster, leader.node, partition, sent, name).error_code:
            raise fault(code, self._deed, self._needed_right)
        self._sequence += 1


def write_exclusively(
    cluster: Cluster,
    partition: TopicPartition,
    transactional_id: str,
    write: Callable[[ExclusiveWriter], T],
) -> T:
    """Do ``write`` as the only writer with a transactional id; again if another one took over meanwhile.

    Two may begin at the same time: the later one fences the other, which tries again. A request that was
    given up and arrives late is refused for its epoch. What ``write`` has written may be written again, where
    a broker does not say whether it took it.

    Returns:
        What ``write`` has returned.

    Raises:
        FerryError: if it does not succeed within a minute.
    """

    def attempt() -> T:
        try:
            with connect(cluster, "producer") as wire:
                return write(ExclusiveWriter(wire, partition, transactional_id))
        except Fenced as error:
            raise _Again(error.message) from error
        except BrokerError as error:
            # Brokers say UNKNOWN_SERVER_ERROR, too, to one who commits while a later one fences it.
            if is_definite(error.code):
                raise
            raise _Again(error.message, advice=error.advice) from error

    return retry(attempt)
