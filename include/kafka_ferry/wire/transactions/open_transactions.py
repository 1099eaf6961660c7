"""Where a producer's transactions may still be open, and how each of them ended.

Kafka leaves a transaction open on a partition that has no leader when its markers are written
(``wire.transactions.settlement``). A partition that has lost its only broker stays so until that one is
back, which may be long after the run: the writer's other partitions go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.transactions.endings import Ending, TransactionOutcome, learn_ending
from kafka_ferry.wire.transactions.producer import TransactionalProducer
from kafka_ferry.wire.transactions.settlement import Evidence, SettledTransaction, Settlement


class OpenTransactions:
    """Ends the transactions of one writer everywhere, one after the other.

    Args:
        settlement: ends them.
        coordination: connections for coordinators.
        producer: the writer's.
        evidence: what the ledger says; None where it may not be asked.
        own: the partitions of the flow's own topics, which are always waited for.

    Attributes:
        has_lost: as of ``Ending``, of the transaction before the last take-over.
    """

    def __init__(
        self,
        settlement: Settlement,
        coordination: WireCluster,
        producer: TransactionalProducer,
        evidence: Evidence | None,
        own: AbstractSet[TopicPartition],
    ) -> None:
        self._settlement = settlement
        self._coordination = coordination
        self._producer = producer
        self._evidence = evidence
        self._own = own
        # How the transaction before the last take-over ended, until it is settled.
        self._ending: Ending | None = None
        self._unsettled: set[TopicPartition] = set()
        # Whether all that may be open is of the last transaction; otherwise the ledger knows.
        self._is_of_last = False
        self.has_lost = False

    def take_over(self, written: Iterable[TopicPartition]) -> None:
        """Learn how the last transaction ends, before the producer is started again; commit a mend that goes on.

        Args:
            written: the partitions that this process has written to in it.
        """
        self._unsettled |= {*written}
        name = self._producer.transactional_id
        ending = retry(lambda: learn_ending(self._coordination, name))
        if self._ending is None:
            self._ending = ending

    def settle(
        self, partitions: Iterable[TopicPartition], committed: Iterable[TopicPartition]
    ) -> SettledTransaction:
        """End what is open, once the producer was started again.

        Args:
            partitions: those that are written to from now on.
            committed: those that the last transaction may have committed offsets for.

        Returns:
            Partitions that no broker leads: nothing may be written to them before they were settled. And
            what the group has for ``committed``.

        Raises:
            FerryError: as ``Settlement.settle`` does.
        """
        assert self._ending is not None
        self.has_lost = self._ending.has_lost
        self._unsettled |= {*partitions}
        evidence = None if self._is_of_last else self._evidence
        settled = self._settlement.settle(
            self._ending,
            self._unsettled,
            committed,
            evidence,
            self._unsettled - self._own,
            is_new=True,
        )
        # From now on this process knows how its own transactions ended.
        left = settled.leaderless
        self._ending, self._unsettled, self._is_of_last = None, {*left}, not left
        return settled

    def settle_commit(
        self, written: AbstractSet[TopicPartition], committed: Iterable[TopicPartition]
    ) -> frozenset[TopicPartition]:
        """See that a transaction that was just committed shows on all partitions.

        Args:
            written: the partitions in it.
            committed: those that it has committed offsets for.

        Returns:
            Those of ``written`` that no broker leads.

        Raises:
            FerryError: as ``Settlement.settle`` does.
        """
        ending = Ending(TransactionOutcome.COMMITTED)
        left = self._settlement.settle(
            ending, written, committed, optional=written - self._own
        ).leaderless
        self._unsettled |= left
        self._is_of_last &= not left
        return left
