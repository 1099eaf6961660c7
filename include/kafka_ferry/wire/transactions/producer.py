"""One transactional producer, request by request (KIP-98, the first transaction protocol, KIP-360).

The order of a transaction: ``add_partitions`` -> ``produce`` ... -> ``end``, and at any time before it
``add_group`` -> ``commit_offsets``. After anything whose outcome is unknown, ``start_over`` aborts what
is open and begins a new epoch; if another producer has taken the transactional id over since, it
raises ``Fenced`` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)

from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.retry import retry
from kafka_ferry.wire.by_topic import by_topic, entries_of, numbers_by_topic
from kafka_ferry.wire.cluster import GROUP, TRANSACTION, WireCluster
from kafka_ferry.wire.connections.connection import Connection
from kafka_ferry.wire.connections.questions import Question, ask_together
from kafka_ferry.wire.error_codes import (
    NONE,
    OPERATION_NOT_ATTEMPTED,
    UNSTABLE_OFFSET_COMMIT,
    fault,
)

_ALL_REPLICAS: Final = -1
_PRODUCE_TIMEOUT_MS: Final = 30_000

_TxnTopic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
_CommitTopic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
_CommitPartition = (
    TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic.TxnOffsetCommitRequestPartition
)
_FetchTopic = OffsetFetchRequest.OffsetFetchRequestTopic
_ProduceTopic = ProduceRequest.TopicProduceData
_ProducePartition = ProduceRequest.TopicProduceData.PartitionProduceData


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A group's offset for one partition, with its metadata.

    Attributes:
        offset: the offset.
        metadata: the text committed with it.
        leader_epoch: of the last record before it, on the cluster of the offset; -1 where not known.
    """

    offset: int
    metadata: str
    leader_epoch: int = -1


class TransactionalProducer:
    """A producer id and epoch for one transactional id.

    Args:
        cluster: the target; used only for coordinators, so that no answer mixes with those of produce
            requests in flight.
        transactional_id: its previous holder is fenced by ``start``.
        timeout_ms: after so long without an end the coordinator aborts a transaction.
    """

    def __init__(self, cluster: WireCluster, transactional_id: str, *, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.epoch = -1
        self._cluster = cluster
        self._timeout_ms = timeout_ms

    def start(self) -> None:
        """Take over the transactional id: fence its last holder and abort its open transaction.

        Raises:
            AccessDenied: without WRITE on the transactional id.
            ClusterUnreachable: if no coordinator answers for a minute.
        """
        self.producer_id = self.epoch = -1
        self.start_over()

    def start_over(self) -> None:
        """Abort the open transaction, if there is one, and begin a new epoch of the same producer.

        Raises:
            Fenced: if another producer holds the transactional id now.
        """
        request = {
            "transactional_id": self.transactional_id,
            "transaction_timeout_ms": self._timeout_ms,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }
        answer = self._ask(lambda: InitProducerIdRequest(**request), "Starting the producer")
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

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
        asked = list(partitions)

        def add() -> dict[TopicPartition, int]:
            questions: dict[str, Question[Any]] = {"partitions": self._partitions_added(asked)}
            if group:
                questions["group"] = self._group_added(group)
            refused: dict[TopicPartition, int] = ask_together(questions)["partitions"]
            return refused

        return self._retried(add)

    def add_group(self, group: str) -> None:
        """Add the group whose offsets the transaction will commit."""
        self._retried(lambda: self._group_added(group).ask())

    def group_node(self, group: str) -> int:
        """The node id of the broker that takes the group's offsets."""
        return self._retried(lambda: self._cluster.coordinator_node(group, GROUP))

    def _partitions_added(
        self, partitions: list[TopicPartition]
    ) -> Question[dict[TopicPartition, int]]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                _TxnTopic(name=name, partitions=numbers)
                for name, numbers in numbers_by_topic(partitions).items()
            ],
        )

        def read(answer: Any) -> dict[TopicPartition, int]:
            codes = {
                TopicPartition(topic.name, entry.partition_index): entry.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for entry in topic.results_by_partition
            }
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

    def _group_added(self, group: str) -> Question[None]:
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
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, int]:
        """Commit ``offsets`` in ``group`` as a part of the open transaction.

        Returns:
            Kafka's error code for each partition that was refused.
        """
        topics = by_topic(
            {
                tp: _CommitPartition(
                    partition_index=tp.partition,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                )
                for tp, committed in offsets.items()
            }
        )

        def commit() -> dict[TopicPartition, int]:
            answer = self._cluster.coordinator(group, GROUP).call(
                TxnOffsetCommitRequest(
                    transactional_id=self.transactional_id,
                    group_id=group,
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                    generation_id=-1,
                    member_id="",
                    group_instance_id=None,
                    topics=[
                        _CommitTopic(name=name, partitions=entries)
                        for name, entries in topics.items()
                    ],
                )
            )
            codes = {tp: entry.error_code for tp, entry in entries_of(answer.topics)}
            self._cluster.require_answers(offsets, codes)
            refused = {tp: code for tp, code in codes.items() if code != NONE}
            whole = [code for code in refused.values() if code not in _OF_ONE_PARTITION]
            if whole:
                doing = f"Committing offsets of the group {group}"
                raise fault(whole[0], doing, self._right, Right.group("READ", group))
            return refused

        return self._retried(commit)

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

    def _ask(self, request: Callable[[], Any], doing: str) -> Any:
        def ask() -> Any:
            answer = self._coordinator().call(request())
            if answer.error_code:
                raise fault(answer.error_code, f"{doing} ({self.transactional_id})", self._right)
            return answer

        return self._retried(ask)

    def _retried(self, ask: Callable[[], _T]) -> _T:
        def attempt() -> _T:
            with self._cluster.forgetting():
                return ask()

        return retry(attempt)


def produce_request(
    batches: Mapping[TopicPartition, bytes], transactional_id: str | None = None
) -> Any:
    """A produce request (v9, acks=all) with exactly one batch for each partition in it.

    Args:
        batches: the batches, as ``for_producer`` makes them.
        transactional_id: of the producer whose transaction they belong to, None for no transaction.
    """
    topics = by_topic(
        {tp: _ProducePartition(index=tp.partition, records=batch) for tp, batch in batches.items()}
    )
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=_ALL_REPLICAS,
        timeout_ms=_PRODUCE_TIMEOUT_MS,
        topic_data=[
            _ProduceTopic(name=name, partition_data=entries) for name, entries in topics.items()
        ],
    )


# UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED: they do not affect
# other partitions.
_OF_ONE_PARTITION: Final = frozenset({3, 17, 29})


def committed_offsets(
    cluster: WireCluster,
    group: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    stable: bool = True,
) -> dict[TopicPartition, CommittedOffset]:
    """The offsets that ``group`` has committed.

    Args:
        cluster: the cluster that the group is on.
        group: the group.
        partitions: the partitions to ask for, None for all that the group has offsets of.
        stable: whether to wait until none of them is pending (KIP-447, ``require_stable``).

    Returns:
        An entry for each partition that has an offset; the others are absent.

    Raises:
        AccessDenied: without READ on the group.
        BrokerError: if transactions stay pending for a minute.
    """
    asked = None if partitions is None else list(partitions)

    def ask() -> dict[TopicPartition, CommittedOffset]:
        with cluster.forgetting():
            offsets, errors = _offsets(cluster, group, asked, stable=stable).ask()
            for tp, code in errors.items():
                doing = f"Reading the offset of {tp} in the group {group} on {cluster.alias}"
                raise fault(code, doing, Right.topic("READ", tp.topic))
        return offsets

    return retry(ask)


def has_pending_offsets(
    cluster: WireCluster, group: str, partitions: Iterable[TopicPartition]
) -> bool:
    """Whether a transaction has offsets of ``partitions`` in ``group`` that has not ended yet.

    Raises:
        AccessDenied: without READ on the group.
    """
    asked = list(partitions)

    def ask() -> bool:
        with cluster.forgetting():
            return offsets_pending(cluster, group, asked).ask()

    return bool(asked) and retry(ask)


def offsets_pending(
    cluster: WireCluster, group: str, partitions: list[TopicPartition]
) -> Question[bool]:
    """What ``has_pending_offsets`` asks, of at least one partition."""
    question = _offsets(cluster, group, partitions, stable=True)

    def read(answer: Any) -> bool:
        _, errors = question.read(answer)
        return UNSTABLE_OFFSET_COMMIT in errors.values()

    return Question(question.connection, question.request, read, question.newest)


_Offsets = tuple[dict[TopicPartition, CommittedOffset], dict[TopicPartition, int]]


def _offsets(
    cluster: WireCluster, group: str, partitions: list[TopicPartition] | None, *, stable: bool
) -> Question[_Offsets]:
    """Asks for the committed offsets, and the error codes of partitions that have one."""
    topics = None
    if partitions is not None:
        topics = [
            _FetchTopic(name=name, partition_indexes=numbers)
            for name, numbers in numbers_by_topic(partitions).items()
        ]
    request = OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)
    read = partial(_read_offsets, cluster, group, partitions or ())
    return Question(cluster.coordinator(group, GROUP), request, read, newest=7)


def _read_offsets(
    cluster: WireCluster, group: str, asked: Iterable[TopicPartition], answer: Any
) -> _Offsets:
    if answer.error_code:
        doing = f"Reading the offsets of the group {group} on {cluster.alias}"
        raise fault(answer.error_code, doing, Right.group("READ", group))
    offsets, errors = {}, {}
    answered = set()
    for tp, entry in entries_of(answer.topics):
        answered.add(tp)
        if entry.error_code:
            errors[tp] = entry.error_code
        elif entry.committed_offset >= 0:
            offsets[tp] = CommittedOffset(
                entry.committed_offset, entry.metadata or "", entry.committed_leader_epoch
            )
    # For a partition without an offset the answer has -1.
    cluster.require_answers(asked, answered)
    return offsets, errors
