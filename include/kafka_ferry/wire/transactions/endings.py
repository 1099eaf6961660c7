"""How a producer's transactions ended (KIP-664), by the coordinator and on each partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

from kafka.protocol.admin.transactions import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.producer import EndTxnRequest

from kafka_ferry.errors import ClusterUnreachable
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.wire.by_topic import entries_of, in_topics, numbers_of
from kafka_ferry.wire.cluster import TRANSACTION, WireCluster
from kafka_ferry.wire.connections.questions import Question, ask_together
from kafka_ferry.wire.error_codes import (
    LEADER_NOT_AVAILABLE,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    fault,
)
from kafka_ferry.wire.partition_leader import PartitionLeader
from kafka_ferry.wire.transactions.producer import TransactionalProducer, is_mend

_TRANSACTIONAL_ID_NOT_FOUND: Final = 105
_Topic = DescribeProducersRequest.TopicRequest


class OwnParts(NamedTuple):
    """What brokers know of a producer on some partitions.

    Attributes:
        starts: where its transaction is open, by partition.
        newest_epoch: its newest epoch there; -1 where none is known.
    """

    starts: Mapping[TopicPartition, int]
    newest_epoch: int


class TransactionOutcome(Enum):
    """The coordinator's decision on a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Ending(NamedTuple):
    """How the last transaction of a transactional id ended, or will end once its producer is fenced.

    Attributes:
        outcome: unknown if the producer has been initialized since. Of one that mends, it is that of
            the transaction whose markers Kafka has skipped.
        partitions: those that are still in it, as far as the coordinator knows.
        is_mended: whether it was a mend that its task had left open, and was committed only now.
        has_lost: whether it was a mend that the coordinator has aborted, since no writer came in time: positions
            that were committed may be gone.
    """

    outcome: TransactionOutcome
    partitions: frozenset[TopicPartition] = frozenset()
    is_mended: bool = False
    has_lost: bool = False


_OUTCOMES: Final = {
    "PrepareCommit": TransactionOutcome.COMMITTED,
    "CompleteCommit": TransactionOutcome.COMMITTED,
    "Ongoing": TransactionOutcome.ABORTED,
    "PrepareAbort": TransactionOutcome.ABORTED,
    "CompleteAbort": TransactionOutcome.ABORTED,
    "PrepareEpochFence": TransactionOutcome.ABORTED,
}
# A task that lives ends a mend, and writes on: a coordinator that describes more of them in a row is none.
_MOST_ENDS: Final = 10
_ENDING: Final = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


def learn_ending(cluster: WireCluster, transactional_id: str) -> Ending:
    """Learn how the last transaction of ``transactional_id`` ended; unknown on brokers before 3.0.

    A mend that its task has left open is committed first. Call this before a producer takes the transactional id over:
    that aborts what goes on.

    Raises:
        FerryError: if the coordinator does not answer.
    """
    state, is_mended = _state(cluster, transactional_id), False
    for _ in range(_MOST_ENDS):
        if not (_is_going_on(state) and is_mend(state.transaction_timeout_ms)):
            return _ending(state)._replace(is_mended=is_mended)
        code = _commit(cluster, state)
        epoch, state = state.producer_epoch, _state(cluster, transactional_id)
        # If its task still lives, that one may have ended it at the same moment.
        if code and _is_going_on(state) and state.producer_epoch == epoch:
            doing = f"Ending what a task has left open ({transactional_id})"
            raise fault(code, doing, Right.transactional_id("WRITE", transactional_id))
        is_mended = True
    raise ClusterUnreachable(
        f"{cluster.alias} says that {transactional_id} goes on, however often it was ended."
    )


def has_lost_epoch(cluster: WireCluster, producer: TransactionalProducer) -> bool:
    """Whether the coordinator of a producer has it in an older epoch: none has taken its transactional id over.

    False where the coordinator does not know, or is too old to be asked.

    Raises:
        FerryError: if the coordinator does not answer.
    """
    state = _state(cluster, producer.transactional_id)
    return (
        state is not None
        and state.producer_id == producer.producer_id
        and state.producer_epoch < producer.epoch
    )


def _is_going_on(state: Any) -> bool:
    return state is not None and state.transaction_state == "Ongoing"


def _commit(cluster: WireCluster, state: Any) -> int:
    """Commit a transaction in its producer's name; gives the coordinator's error code."""
    request = EndTxnRequest(
        transactional_id=state.transactional_id,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        committed=True,
    )
    with cluster.forget_on_error():
        return int(
            cluster.coordinator(state.transactional_id, TRANSACTION).call(request).error_code
        )


def _state(cluster: WireCluster, transactional_id: str) -> Any:
    """The coordinator's description of the last transaction; None where it has none or is too old."""
    with cluster.forget_on_error():
        question = _state_question(cluster, transactional_id)
        return question.ask() if question else None


def _ending(state: Any) -> Ending:
    if state is None:
        return Ending(TransactionOutcome.UNKNOWN)
    partitions = frozenset(
        TopicPartition(topic.topic, number)
        for topic in state.topics
        for number in topic.partitions
        if not topic.topic.startswith("__")
    )
    outcome = _OUTCOMES.get(state.transaction_state, TransactionOutcome.UNKNOWN)
    if is_mend(state.transaction_timeout_ms):
        has_lost = outcome == TransactionOutcome.ABORTED
        return Ending(TransactionOutcome.COMMITTED, partitions, has_lost=has_lost)
    return Ending(outcome, partitions)


def producer_ids(cluster: WireCluster, transactional_ids: Iterable[str]) -> frozenset[int] | None:
    """The ids of the producers that hold or last held transactional ids, as far as coordinators remember.

    Returns:
        None if a coordinator is too old to be asked (before 3.0).

    Raises:
        FerryError: if a coordinator does not answer.
    """
    names = list(transactional_ids)
    with cluster.forget_on_error():
        cluster.find_coordinators([(name, TRANSACTION) for name in names])
        questions = {name: _state_question(cluster, name) for name in names}
        supported = {name: question for name, question in questions.items() if question}
        if len(supported) < len(questions):
            return None
        states = ask_together(supported)
    return frozenset(int(state.producer_id) for state in states.values() if state)


def transactional_ids(cluster: WireCluster, producer_id: int) -> frozenset[str]:
    """The transactional ids of a producer that the principal may see, as far as coordinators remember.

    Asks every broker that is up (ListTransactions, KIP-664); none on brokers before 3.0.

    Raises:
        FerryError: if a broker does not answer; transient while it loads what it coordinates.
    """

    def read(answer: Any) -> set[str]:
        if answer.error_code:
            doing = f"Listing the transactions of producer {producer_id} on {cluster.alias}"
            raise fault(answer.error_code, doing)
        return {state.transactional_id for state in answer.transaction_states}

    def request() -> Any:
        return ListTransactionsRequest(state_filters=[], producer_id_filters=[producer_id])

    nodes = cluster.nodes()
    cluster.open(nodes)
    connections = {node: cluster.connection(node) for node in nodes}
    questions = {
        node: Question(it, request(), read)
        for node, it in connections.items()
        if it.offers(request())
    }
    return frozenset[str]().union(*ask_together(questions).values())


def is_replicated(cluster: WireCluster, transactional_id: str) -> bool:
    """Whether the last transaction's end is replicated on all of its partitions, so that consumers see it.

    A leader appends the marker at once; the coordinator completes the transaction when the followers
    have it too (WriteTxnMarkers is acknowledged by all in-sync replicas). True on brokers before 3.0,
    which do not say.

    Raises:
        FerryError: if the coordinator does not answer.
    """
    with cluster.forget_on_error():
        question = replication_question(cluster, transactional_id)
        return question is None or question.ask()


def replication_question(cluster: WireCluster, transactional_id: str) -> Question[bool] | None:
    """The question of ``is_replicated``; None of brokers that do not say."""
    question = _state_question(cluster, transactional_id)
    return question and question.then(
        lambda state: state is None or state.transaction_state not in _ENDING
    )


def _state_question(cluster: WireCluster, transactional_id: str) -> Question[Any] | None:
    """A question to a coordinator: its description of the last transaction, None where it has none.

    None if the coordinator is too old to be asked.
    """
    coordinator = cluster.coordinator(transactional_id, TRANSACTION)
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

    def read(answer: Any) -> Any:
        for state in answer.transaction_states:
            # What is to be committed for its producer must not be the transaction of another one.
            if state.transactional_id != transactional_id:
                continue
            if state.error_code == _TRANSACTIONAL_ID_NOT_FOUND:
                return None
            if state.error_code:
                doing = f"Describing the transaction of {transactional_id}"
                needed = Right.transactional_id("WRITE", transactional_id)
                raise fault(state.error_code, doing, needed)
            return state
        raise ClusterUnreachable(f"{cluster.alias} did not answer for {transactional_id}.")

    return Question(coordinator, request, read) if coordinator.offers(request) else None


def open_parts_questions(
    cluster: WireCluster,
    leaders: Mapping[TopicPartition, PartitionLeader],
    producer_id: int,
    optional: Container[TopicPartition] = frozenset(),
) -> tuple[dict[int, Question[OwnParts]], frozenset[TopicPartition]]:
    """Questions to brokers: where is a transaction of ``producer_id`` still open, and which epoch is its newest?

    Args:
        cluster: the cluster.
        leaders: the leaders of the partitions to look at.
        producer_id: the producer's id.
        optional: partitions that may have no leader.

    Returns:
        A question for each broker, by its node id: partitions that the principal may not read are left out, as are
        all on brokers that do not say. And the partitions that no broker leads, so that none can say.

    Raises:
        BrokerError: transient while another partition has no leader.
    """
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    leaderless = set()
    for tp, leader in leaders.items():
        if leader.node >= 0:
            by_leader[leader.node].append(tp)
        elif leader.topic_id and tp in optional:
            leaderless.add(tp)
        elif leader.topic_id:
            code = leader.error or LEADER_NOT_AVAILABLE
            doing = f"Looking for the leader of {tp} on {cluster.alias}"
            raise fault(code, doing, Right.topic("WRITE", tp.topic))
    cluster.open(by_leader)
    questions = {}
    for node, partitions in by_leader.items():
        question = producers_question(cluster, node, partitions)
        if question is not None:
            questions[node] = question.then(partial(_own_parts, producer_id))
    return questions, frozenset(leaderless)


def _own_parts(producer_id: int, active: Mapping[TopicPartition, list[Any]]) -> OwnParts:
    """What concerns a producer, given what brokers know of all producers."""
    own = {
        tp: state
        for tp, states in active.items()
        for state in states
        if state.producer_id == producer_id
    }
    starts = {
        tp: state.current_txn_start_offset
        for tp, state in own.items()
        if state.current_txn_start_offset >= 0
    }
    return OwnParts(starts, max((state.producer_epoch for state in own.values()), default=-1))


def epochs_question(
    cluster: WireCluster, partition: TopicPartition
) -> Question[Mapping[int, int]] | None:
    """A question to the leader of a partition: by producer id, the newest epoch there.

    None where no broker leads it, or its leader is too old to be asked.
    """
    leader = cluster.recent_leaders([partition])[partition]
    question = producers_question(cluster, leader.node, [partition]) if leader.node >= 0 else None
    if question is None:
        return None

    def newest(active: Mapping[TopicPartition, list[Any]]) -> Mapping[int, int]:
        return {state.producer_id: state.producer_epoch for state in active.get(partition, ())}

    return question.then(newest)


def producers_question(
    cluster: WireCluster, node: int, partitions: Collection[TopicPartition]
) -> Question[dict[TopicPartition, list[Any]]] | None:
    """A question to a broker: the producers of partitions that it leads (DescribeProducers, KIP-664).

    Returns:
        A question whose answer has the broker's ``active_producers`` of each partition, without those that the
        principal may not read; None if the broker is too old to be asked.
    """
    request = DescribeProducersRequest(
        topics=in_topics(_Topic, numbers_of(partitions), partitions="partition_indexes")
    )

    def read(answer: Any) -> dict[TopicPartition, list[Any]]:
        active, answered = {}, set()
        for tp, entry in entries_of(answer.topics):
            answered.add(tp)
            if entry.error_code not in (NONE, TOPIC_AUTHORIZATION_FAILED):
                raise fault(entry.error_code, f"Describing the producers of {tp}")
            if entry.error_code == NONE:
                active[tp] = entry.active_producers
        cluster.require_answers(partitions, answered)
        return active

    connection = cluster.connection(node)
    return Question(connection, request, read) if connection.offers(request) else None
