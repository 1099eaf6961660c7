"""One transactional producer, request by request (KIP-98, the first transaction protocol, KIP-360).

The order of a transaction: ``add_partitions`` -> ``produce`` ... -> ``end``, and at any time before it
``add_group`` -> ``commit_offsets``. After anything whose outcome is unknown, ``start_over`` aborts what
is open and begins a new epoch; if another producer has taken the transactional id over since, it
raises ``Fenced`` instead.

What Kafka has left open of a committed transaction is ended by a mend (``wire.transactions.settlement``):
``start_mend`` -> ``add_partitions`` or ``add_group`` -> ``end``, and ``start_over`` before anything else.
A mend must never be aborted, and the next holder of the transactional id must see that it is one. All that
the coordinator keeps for it is the time-out that a producer asks for: an odd one is a mend's. The epoch of
its own makes it safe to end a mend for its producer: what that one does after the mend has another epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from kafka_ferry.errors import BrokerError, ClusterUnreachable
from kafka_ferry.model.groups import Committed
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.retry import retry
from kafka_ferry.wire.by_topic import entries_of, in_topics, numbers_of
from kafka_ferry.wire.cluster import GROUP, TRANSACTION, WireCluster
from kafka_ferry.wire.connections.connection import Connection
from kafka_ferry.wire.connections.questions import Question, ask_together
from kafka_ferry.wire.error_codes import (
    INVALID_TRANSACTION_TIMEOUT,
    NONE,
    OPERATION_NOT_ATTEMPTED,
    fault,
)
from kafka_ferry.wire.offset_parts import commit_in_halves, entries_to_commit, parts_of

_LEAST_TIMEOUT_MS: Final = 1_000
# As long as brokers allow by default: until then a writer has to come that ends an interrupted mend.
_MEND_TIMEOUT_MS: Final = 15 * 60_000 - 1

_TxnTopic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
_CommitTopic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
_CommitPartition = (
    TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic.TxnOffsetCommitRequestPartition
)
# UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED: they do not affect
# other partitions.
_OF_ONE_PARTITION: Final = frozenset({3, 17, 29})

_T = TypeVar("_T")

AskEpochs = Callable[[], Question[Mapping[int, int]] | None]
"""Makes a question: by producer id, the newest epoch on a partition; None where it cannot be asked."""


def is_mend(timeout_ms: int) -> bool:
    """Whether a producer with this time-out writes nothing, and only commits what Kafka has left open."""
    return timeout_ms % 2 == 1


class TransactionalProducer:
    """A producer id and epoch for one transactional id.

    Args:
        cluster: the target; used only for coordinators, so that no answer mixes with those of produce
            requests in flight.
        transactional_id: its previous holder is fenced by ``start``.
        timeout_ms: after so long without an end the coordinator aborts a transaction; shorter where the
            brokers allow no such time (``transaction.max.timeout.ms``).
        least_ms: the shortest such time that will do.

    Attributes:
        is_mending: whether its epoch is a mend's.
        may_arrive_late: whether a request of this epoch has no answer, and may still arrive: before KIP-890 nothing
            in it says which of the epoch's transactions it is for, so that it would end the next one, or move its
            positions back.
    """

    def __init__(
        self,
        cluster: WireCluster,
        transactional_id: str,
        *,
        timeout_ms: int,
        least_ms: int = _LEAST_TIMEOUT_MS,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.epoch = -1
        self._cluster = cluster
        self.timeout_ms = _even(timeout_ms)
        self._least_ms = min(_even(least_ms + 1), self.timeout_ms)
        self.is_mending = self.may_arrive_late = False

    def start(self, epochs: AskEpochs = lambda: None) -> None:
        """Take over the transactional id: fence its last holder and abort its open transaction.

        Args:
            epochs: asked in the same round trip; see ``begin_after``.

        Raises:
            AccessDenied: without WRITE on the transactional id.
            ClusterUnreachable: if no coordinator answers for a minute.
        """
        self.producer_id = self.epoch = -1
        self.start_over(epochs)

    def start_over(self, epochs: AskEpochs = lambda: None) -> None:
        """Abort the open transaction, if there is one, and begin a new epoch of the same producer.

        Args:
            epochs: as of ``start``.

        Raises:
            Fenced: if another producer holds the transactional id now.
            BrokerError: if the brokers allow no transaction as long as it has to be.
        """
        while True:
            try:
                newest = self._start(self.timeout_ms, epochs)
                break
            except BrokerError as error:
                if error.code != INVALID_TRANSACTION_TIMEOUT:
                    raise
                self._shorten(error)
        self.begin_after(newest.get(self.producer_id, -1))

    def begin_after(self, newest: int) -> None:
        """Begin epochs until one is newer than all that a partition has of this producer; nothing is written in it yet.

        A coordinator that has lost its newest records (an unclean leader election, a power cut) goes on from an older
        epoch. Of that, a partition takes neither batches nor markers: a transaction begun there could never end. And in
        an epoch that it knows, it takes the first batches for those that it has, and does not write them.

        Args:
            newest: the newest epoch of the producer on a partition; -1 for none.

        Raises:
            Fenced: if it is that of another producer, which holds the transactional id now.
        """
        producer_id = self.producer_id
        # Brokers give another id when there is no greater epoch.
        while self.epoch <= newest and self.producer_id == producer_id:
            self._start(self.timeout_ms)

    def start_mend(self) -> None:
        """Begin a new epoch, whose transactions only commit what Kafka has left open.

        Raises:
            Fenced: if another producer holds the transactional id now.
        """
        try:
            self._start(_MEND_TIMEOUT_MS)
        except BrokerError as error:
            if error.code != INVALID_TRANSACTION_TIMEOUT:
                raise
            # The brokers took the time-out from which it is less.
            self._start(self.timeout_ms - 1)

    def _start(self, timeout_ms: int, epochs: AskEpochs = lambda: None) -> Mapping[int, int]:
        """Begin a new epoch; gives what ``epochs`` has answered."""
        request = partial(
            InitProducerIdRequest,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
        )
        newest = dict[int, int]()

        def beside() -> Question[None] | None:
            question = epochs()
            return question.then(newest.update) if question else None

        answer = self._ask(request, "Starting the producer", beside)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.is_mending, self.may_arrive_late = is_mend(timeout_ms), False
        return newest

    def _shorten(self, error: BrokerError) -> None:
        """Halve the time-out, or raise ``error`` where it cannot be shorter."""
        if self.timeout_ms <= self._least_ms:
            error.advice = (
                f"The brokers of {self._cluster.alias} allow transactions of less than {self._least_ms} ms only: "
                "raise their transaction.max.timeout.ms, or lower the flow's transaction.max.ms."
            )
            raise error
        self.timeout_ms = max(_even(self.timeout_ms // 2), self._least_ms)

    def add_partitions(
        self, partitions: Iterable[TopicPartition], group: str = ""
    ) -> dict[TopicPartition, int]:
        """Add partitions to the open transaction, opening one where there is none.

        Args:
            partitions: one or more.
            group: as of ``add_group``, in the same round trip; "" for none.

        Returns:
            Kafka's error code for each partition that was refused; the others are in.

        Raises:
            Fenced: if another producer holds the transactional id.
        """
        to_add = list(partitions)

        def add() -> dict[TopicPartition, int]:
            questions: dict[str, Question[Any]] = {
                "partitions": self._ask_to_add_partitions(to_add)
            }
            if group:
                questions["group"] = self._ask_to_add_group(group)
            refused: dict[TopicPartition, int] = ask_together(questions)["partitions"]
            return refused

        return self._retry(add)

    def add_group(self, group: str) -> None:
        """Add the group whose offsets the transaction will commit."""
        self._retry(lambda: self._ask_to_add_group(group).ask())

    def find_coordinators(self, group: str) -> None:
        """Look up its coordinator and that of ``group`` in one round trip, if that is possible."""
        self._cluster.find_coordinators([(self.transactional_id, TRANSACTION), (group, GROUP)])

    def group_node(self, group: str) -> int:
        """The node id of the broker that takes the group's offsets."""
        return self._retry(lambda: self._cluster.coordinator_node(group, GROUP))

    def _ask_to_add_partitions(
        self, partitions: list[TopicPartition]
    ) -> Question[dict[TopicPartition, int]]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=in_topics(_TxnTopic, numbers_of(partitions)),
        )

        def read(answer: Any) -> dict[TopicPartition, int]:
            topics = answer.results_by_topic_v3_and_below
            entries = entries_of(topics, partitions="results_by_partition")
            codes = {tp: entry.partition_error_code for tp, entry in entries}
            self._cluster.require_answers(partitions, codes)
            refused = {
                tp: code
                for tp, code in codes.items()
                if code not in (NONE, OPERATION_NOT_ATTEMPTED)
            }
            whole = [code for code in refused.values() if code not in _OF_ONE_PARTITION]
            if whole:
                doing = f"Adding partitions to a transaction of {self.transactional_id}"
                raise fault(whole[0], doing, self._right)
            return refused

        return Question(self._coordinator(), request, read)

    def _ask_to_add_group(self, group: str) -> Question[None]:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )

        def read(answer: Any) -> None:
            if answer.error_code:
                doing = f"Adding the group {group} to the transaction ({self.transactional_id})"
                raise fault(answer.error_code, doing, self._right, Right.group("READ", group))

        return Question(self._coordinator(), request, read)

    def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, Committed]
    ) -> dict[TopicPartition, int]:
        """Commit ``offsets`` in ``group`` as a part of the open transaction, in as many requests as they need.

        Returns:
            Kafka's error code for each partition that was refused.
        """

        def commit(part: Mapping[TopicPartition, Committed]) -> dict[TopicPartition, int]:
            return self._retry(
                lambda: self.ask_to_commit(
                    group, part, self._cluster.coordinator(group, GROUP)
                ).ask()
            )

        refused: dict[TopicPartition, int] = {}
        for part in parts_of(group, offsets):
            refused |= commit_in_halves(commit, part)
        return refused

    def ask_to_commit(
        self, group: str, offsets: Mapping[TopicPartition, Committed], connection: Connection
    ) -> Question[dict[TopicPartition, int]]:
        """What ``commit_offsets`` asks.

        Args:
            group: the group.
            offsets: a part of those there that fits into one request.
            connection: to the group's coordinator, which answers it after what was sent there before.
        """
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=in_topics(_CommitTopic, entries_to_commit(_CommitPartition, offsets)),
        )

        def read(answer: Any) -> dict[TopicPartition, int]:
            codes = {tp: entry.error_code for tp, entry in entries_of(answer.topics)}
            self._cluster.require_answers(offsets, codes)
            refused = {tp: code for tp, code in codes.items() if code != NONE}
            whole = [code for code in refused.values() if code not in _OF_ONE_PARTITION]
            if whole:
                doing = f"Committing offsets of the group {group}"
                raise fault(whole[0], doing, self._right, Right.group("READ", group))
            return refused

        return Question(connection, request, read)

    def end(self, *, commit: bool) -> None:
        """Commit or abort the open transaction."""
        self._ask(
            lambda: EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=commit,
            ),
            f"{'Committing' if commit else 'Aborting'} a transaction",
        )

    @property
    def _right(self) -> Right:
        return Right.transactional_id("WRITE", self.transactional_id)

    def _coordinator(self) -> Connection:
        return self._cluster.coordinator(self.transactional_id, TRANSACTION)

    def _ask(
        self,
        request: Callable[[], Any],
        doing: str,
        beside: Callable[[], Question[None] | None] = lambda: None,
    ) -> Any:
        def read(answer: Any) -> Any:
            if answer.error_code:
                raise fault(answer.error_code, f"{doing} ({self.transactional_id})", self._right)
            return answer

        def ask() -> Any:
            question = Question(self._coordinator(), request(), read)
            if other := beside():
                both: dict[str, Question[Any]] = {"this": question, "beside": other}
                return ask_together(both)["this"]
            return question.ask()

        return self._retry(ask)

    def _retry(self, ask: Callable[[], _T]) -> _T:
        def attempt() -> _T:
            try:
                with self._cluster.forget_on_error():
                    return ask()
            except ClusterUnreachable:
                self.may_arrive_late = True
                raise

        return retry(attempt)


def _even(timeout_ms: int) -> int:
    """A time-out that is no mend's, at most a millisecond shorter."""
    return timeout_ms - timeout_ms % 2
