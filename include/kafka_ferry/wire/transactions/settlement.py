"""Makes sure that a transaction ends on every partition as its coordinator decided.

A coordinator answers EndTxn before it has written the markers. If a partition has no leader when they
are sent (for example while its only broker restarts), the coordinator treats it as deleted, skips its
marker and completes the transaction (``TransactionMarkerChannelManager``, "Couldn't find
leader endpoint"; seen on Kafka 4.3.1). What was written there stays open and shares the fate of the
producer's *next* transaction on that partition: committed records vanish, aborted ones appear. So after
ending a transaction a writer checks the partitions, and ends it again where it is still open: the next
transaction holds only those partitions, with the same outcome.

That next transaction may be interrupted too. If it was to abort, its successor aborts it. If it was to
commit, that would make committed records vanish: such a mend has an epoch of its own that says what it is
(``wire.transactions.producer``), and its successor commits it first (``endings.learn_ending``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kafka_ferry.errors import FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import RETRY_S, at_most, retry
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.connections.questions import Question, ask_together
from kafka_ferry.wire.transactions.committed_offsets import GroupOffsets, group_offsets_question
from kafka_ferry.wire.transactions.endings import (
    Ending,
    TransactionOutcome,
    open_parts_questions,
    replication_question,
)
from kafka_ferry.wire.transactions.producer import TransactionalProducer

log = logging.getLogger(__name__)

# Markers are written within milliseconds; after that the coordinator is asked.
_GRACE_S: Final = 0.5
_ROUNDS: Final = 8
_OPEN: Final = (
    "Kafka skipped its marker, and how it was to end is no longer known. Compare the partition's end with the ledger, "
    "then abort it with kafka-transactions.sh, or see with `ferry repair --topic` what is lost if the remote topic is "
    "given up."
)
_PENDING: Final = (
    "Kafka skipped its marker, and how it was to end is no longer known. Find the partition with kafka-transactions.sh "
    "find-hanging --topic __consumer_offsets, and abort it there. If the ledger then has a later position than the "
    "group {}, the next plan says so: with on.position.moved: ledger the run continues there, and copies nothing twice."
)

Evidence = Callable[
    [Mapping[TopicPartition, int], TransactionOutcome], Mapping[TopicPartition, TransactionOutcome]
]
"""Says for open partitions, given where their open parts begin and how the last transaction ended, how
each was to end; those that it leaves out are asked about again when the others have ended."""


class SettledTransaction(NamedTuple):
    """What was found once a transaction was no longer open.

    Attributes:
        leaderless: the partitions that were left as they are, because no broker leads them.
        group: what the group has for the partitions that were asked for, of which none is pending; None
            where none was asked for.
    """

    leaderless: frozenset[TopicPartition]
    group: GroupOffsets | None


class _Seen(NamedTuple):
    """What a look at all brokers has shown.

    Attributes:
        replicated: whether the transaction's end is.
        open: where its open part begins, by partition.
        leaderless: the partitions that no broker leads, so that none can say.
        group: as of ``SettledTransaction``, but offsets may be pending.
        newest_epoch: the producer's newest epoch on the partitions.
    """

    replicated: bool
    open: Mapping[TopicPartition, int] = MappingProxyType({})
    leaderless: frozenset[TopicPartition] = frozenset()
    group: GroupOffsets | None = None
    newest_epoch: int = -1

    @property
    def is_pending(self) -> bool:
        """Whether the group's offsets are."""
        return self.group is not None and self.group.is_pending


class Unsettled(FerryError):
    """A transaction is open on a partition, and how it was to end is unknown."""


class Settlement:
    """Ends the transactions of one producer everywhere.

    Args:
        cluster: the target; no answers may be pending on its connections.
        coordination: connections for coordinators.
        producer: the producer.
        group: the group in which its transactions commit offsets; "" for none.
    """

    def __init__(
        self,
        cluster: WireCluster,
        coordination: WireCluster,
        producer: TransactionalProducer,
        group: str = "",
    ) -> None:
        self._cluster = cluster
        self._coordination = coordination
        self._producer = producer
        self._group = group

    def settle(
        self,
        ending: Ending,
        written: Iterable[TopicPartition],
        committed: Iterable[TopicPartition],
        evidence: Evidence | None = None,
        optional: Container[TopicPartition] = frozenset(),
        *,
        is_new: bool = False,
    ) -> SettledTransaction:
        """Return when the producer's last transaction is no longer open anywhere.

        Args:
            ending: how it ended.
            written: the partitions that it may have written to.
            committed: the partitions that it may have committed offsets for.
            evidence: says which open partitions were committed, regardless of ``ending``: another
                transaction may have ended since. None where it is known to be the last one.
            optional: partitions that may be left as they are while no broker leads them. Nothing may
                be written to them before they have been settled.
            is_new: whether the producer has just been started, and is to have an epoch that is newer than all there.

        Returns:
            Those of ``optional`` that were left, and the group's offsets for ``committed``. The producer may have
            another epoch than before, in which its sequence numbers begin at 0 again.

        Raises:
            Unsettled: if something is open and how it was to end is unknown.
            FerryError: if the target does not answer, or leaves it open, for a minute.
        """
        written, committed = {*written, *ending.partitions}, set(committed)
        for _ in range(_ROUNDS):
            state = self._look_until_ended(written, committed, optional)
            if is_new:
                self._producer.begin_after(state.newest_epoch)
                is_new = False
            if not (state.open or state.is_pending):
                if self._producer.is_mending:
                    self._producer.start_over()
                return SettledTransaction(state.leaderless, state.group)
            whole = dict.fromkeys(state.open, ending.outcome)
            outcomes = evidence(state.open, ending.outcome) if evidence else whole
            decided = {*outcomes.values(), *([ending.outcome] if state.is_pending else [])}
            if TransactionOutcome.UNKNOWN in decided:
                self._raise_unsettled(state.open)
            # The last transaction's outcome first: a successor learns nothing else from the coordinator.
            order = (ending.outcome, TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED)
            if outcome := next((known for known in order if known in decided), None):
                partitions = [tp for tp, its_outcome in outcomes.items() if its_outcome == outcome]
                offsets = state.is_pending and ending.outcome == outcome
                self._end(outcome, partitions, offsets=offsets)
        raise FerryError(f"A transaction of {self._producer.transactional_id} stays open.")

    def _end(
        self, outcome: TransactionOutcome, partitions: list[TopicPartition], *, offsets: bool
    ) -> None:
        names = ", ".join(sorted(map(str, partitions))) or f"the group {self._group}"
        log.warning(
            "Kafka skipped a transaction marker: the open part on %s ends %s now, and nothing is lost",
            names,
            outcome.value,
        )
        if outcome == TransactionOutcome.COMMITTED:
            self._producer.start_mend()
        elif self._producer.is_mending:
            self._producer.start_over()
        if partitions:
            self._producer.add_partitions(partitions, self._group if offsets else "")
        else:
            self._producer.add_group(self._group)
        self._producer.end(commit=outcome == TransactionOutcome.COMMITTED)

    def _raise_unsettled(self, open_: Collection[TopicPartition]) -> None:
        names = ", ".join(sorted(map(str, open_))) or f"the group {self._group}"
        raise Unsettled(
            f"A transaction of {self._producer.transactional_id} (producer id "
            f"{self._producer.producer_id}) was never ended on {names}.",
            advice=(_OPEN if open_ else _PENDING).format(self._group),
        )

    def _look_until_ended(
        self,
        written: set[TopicPartition],
        committed: set[TopicPartition],
        optional: Container[TopicPartition],
    ) -> _Seen:
        """The last look at what is still open, after markers have had time to be written.

        While an end is only to be replicated, consumers do not see it yet, and neither would a next run that
        reads the ledger: that takes as long as the slowest follower.
        """
        began, pause = time.monotonic(), 0.001
        while True:
            waited_s = time.monotonic() - began
            state = retry(lambda: self._look(written, committed, optional))
            is_open = bool(state.open or state.is_pending)
            if state.replicated and not is_open:
                return state
            if waited_s > (_GRACE_S if is_open or state.leaderless else at_most(RETRY_S)):
                return state
            time.sleep(pause)
            pause = min(pause * 2, 0.1)

    def _look(
        self,
        written: set[TopicPartition],
        committed: set[TopicPartition],
        optional: Container[TopicPartition],
    ) -> _Seen:
        """Whether its end is replicated, where the transaction is open, and what the group has.

        Each of them, once it is over, stays so: their order does not matter.
        """
        producer = self._producer
        with self._cluster.forget_on_error(), self._coordination.forget_on_error():
            leaders = self._cluster.recent_leaders(written)
            by_node, leaderless = open_parts_questions(
                self._cluster, leaders, producer.producer_id, optional
            )
            questions: dict[int | str, Question[Any]] = {node: by_node[node] for node in by_node}
            if question := replication_question(self._coordination, producer.transactional_id):
                questions["replicated"] = question
            if committed:
                partitions = list(committed)
                questions["group"] = group_offsets_question(
                    self._coordination, self._group, partitions
                )
            answers = ask_together(questions)
        parts = [answers[node] for node in by_node]
        return _Seen(
            answers.get("replicated", True),
            {tp: start for part in parts for tp, start in part.starts.items()},
            leaderless,
            answers.get("group"),
            max((part.newest_epoch for part in parts), default=-1),
        )
