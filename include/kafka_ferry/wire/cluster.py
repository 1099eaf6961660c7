"""A cluster as seen by the data plane: who leads its partitions and coordinates its groups, and connections to them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from kafka.protocol.metadata import FindCoordinatorRequest

from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.printable import excerpt
from kafka_ferry.wire.connections.brokers import BrokerConnections
from kafka_ferry.wire.connections.connection import Connection
from kafka_ferry.wire.connections.questions import Question, ask_together
from kafka_ferry.wire.error_codes import (
    LEADER_NOT_AVAILABLE,
    NOT_CONTROLLER,
    UNKNOWN_TOPIC_OR_PARTITION,
    fault,
)
from kafka_ferry.wire.partition_leader import PartitionLeader, leaders_in, topics_request

GROUP: Final = 0
TRANSACTION: Final = 1
# Newer versions ask for several of one kind.
_ONE_COORDINATOR: Final = 3

_T = TypeVar("_T")


class WireCluster(BrokerConnections):
    """Leaders, coordinators and the connections to them, for one thread.

    Args:
        alias: the cluster's name in messages.
        settings: kafka-python's configuration names; ``bootstrap_servers`` is a list of ``host:port``.
    """

    def __init__(self, alias: str, settings: Mapping[str, Any]) -> None:
        super().__init__(alias, settings)
        self._coordinators: dict[tuple[str, int], int] = {}
        self._leaders: dict[TopicPartition, PartitionLeader] = {}
        self._oldest_at = 0.0

    def leaders(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, PartitionLeader]:
        """Look up the current leaders of ``partitions``; one that does not exist has an error.

        More than one broker is asked: see ``_newest_leaders``.
        """
        wanted = set(partitions)
        answer, leaders = self._describe(sorted({tp.topic for tp in wanted}))
        errors = {topic.name: topic.error_code for topic in answer.topics}
        unknown = {
            tp: PartitionLeader(-1, "", errors.get(tp.topic) or UNKNOWN_TOPIC_OR_PARTITION)
            for tp in wanted - leaders.keys()
        }
        self._note(leaders)
        return {tp: leader for tp, leader in leaders.items() if tp in wanted} | unknown

    def topic_leaders(self, topic: str) -> dict[TopicPartition, PartitionLeader]:
        """The current leaders of all partitions of a topic; of none where it does not exist or is hidden."""
        _, leaders = self._describe([topic])
        self._note(leaders)
        return leaders

    def _note(self, leaders: Mapping[TopicPartition, PartitionLeader]) -> None:
        if not self._leaders:
            self._oldest_at = time.monotonic()
        self._leaders |= leaders

    def recent_leaders(
        self, partitions: Iterable[TopicPartition], *, within_s: float = math.inf
    ) -> dict[TopicPartition, PartitionLeader]:
        """As ``leaders``, which is only asked where it has not answered yet, or no later than so many seconds ago.

        A broker that leads a partition no longer says so itself, unless it is cut off: see ``forget_on_error``.
        """
        wanted = set(partitions)
        if time.monotonic() - self._oldest_at > within_s:
            self._leaders.clear()
        known = {tp: self._leaders[tp] for tp in wanted & self._leaders.keys()}
        if len(known) == len(wanted) and all(leader.node >= 0 for leader in known.values()):
            return known
        return self.leaders(wanted)

    @contextmanager
    def forget_on_error(self) -> Iterator[None]:
        """Look leaders and coordinators up again after an error in the body: they may have moved."""
        try:
            yield
        except FerryError:
            self.forget_routes()
            raise

    def forget_routes(self) -> None:
        """Look leaders and coordinators up again when they are next needed."""
        self._leaders.clear()
        self._coordinators.clear()

    def require_answers(
        self, partitions: Collection[TopicPartition], answered: Collection[TopicPartition]
    ) -> None:
        """Check that a broker has answered for every partition, and for no other one.

        A missing answer is neither yes nor no; and one that was not asked for would have the run act where another
        broker leads, which has said nothing.

        Raises:
            ClusterUnreachable: if it has not.
        """
        for partition in partitions:
            if partition not in answered:
                raise ClusterUnreachable(f"{self.alias} did not answer for {partition}.")
        asked = set(partitions)
        for partition in answered:
            if partition not in asked:
                raise foreign_answer(self.alias, partition)

    def coordinator(self, key: str, kind: int) -> Connection:
        """The connection to the coordinator of a group (``GROUP``) or transactional id (``TRANSACTION``).

        Raises: see ``coordinator_node``.
        """
        return self.connection(self.coordinator_node(key, kind))

    def coordinator_node(self, key: str, kind: int) -> int:
        """The node id of a coordinator, which is looked up once: see ``forget_on_error``.

        Raises:
            BrokerError: transient while the coordinator is not available.
            AccessDenied: without permission on the group or transactional id.
        """
        node = self._coordinators.get((key, kind))
        if node is None:
            self._look_up_coordinators([(key, kind)])
            node = self._coordinators[key, kind]
        return node

    def find_coordinators(self, keys: Iterable[tuple[str, int]]) -> None:
        """Look up several coordinators in one round trip.

        Where that fails, ``coordinator_node`` says why.

        Args:
            keys: groups with ``GROUP``, transactional ids with ``TRANSACTION``.
        """
        with suppress(FerryError):
            self._look_up_coordinators([key for key in keys if key not in self._coordinators])

    def _look_up_coordinators(self, keys: Sequence[tuple[str, int]]) -> None:
        def ask(connection: Connection) -> Mapping[tuple[str, int], Any]:
            questions = {}
            for key, kind in keys:
                request = FindCoordinatorRequest(key=key, key_type=kind)
                questions[key, kind] = Question(connection, request, _as_it_is, _ONE_COORDINATOR)
            return ask_together(questions)

        for (key, kind), answer in self._ask_some(ask).items():
            if answer.error_code:
                doing = f"Finding the coordinator of {key} on {self.alias}"
                needed = Right.group("READ", key), Right.transactional_id("WRITE", key)
                raise fault(answer.error_code, doing, *needed)
            self.add_broker(int(answer.node_id), answer.host, answer.port)
            self._coordinators[key, kind] = int(answer.node_id)

    def nodes(self) -> list[int]:
        """The node ids of all brokers that are up."""
        self._metadata([])
        return sorted(self._brokers)

    def controller(self) -> Connection:
        """The connection to the controller; with KRaft, to any broker, which forwards requests.

        Raises:
            BrokerError: transient while no controller is known.
        """
        node = self._metadata([]).controller_id
        if node < 0:
            raise fault(NOT_CONTROLLER, f"Looking for the controller of {self.alias}")
        return self.connection(node)

    def connection(self, node: int, number: int = 0) -> Connection:
        """The connection to the broker ``node``, opened when it is first needed.

        For a broker that is not known, or no longer answers at its address, the cluster's metadata is
        read again.

        Args:
            node: the broker's node id.
            number: which one of several: a broker handles one request of a connection at a time.

        Raises:
            ClusterUnreachable: if the broker is not up, or does not answer.
            AccessDenied: if it refuses the login.
        """
        known = self._brokers.get(node)
        if known:
            try:
                self._raise_if_unopened(node)
                return self._connection(node, number)
            except ClusterUnreachable:
                self._metadata([])
                if self._brokers.get(node, known) == known:
                    raise
        else:
            self._metadata([])
        if node not in self._brokers:
            raise ClusterUnreachable(f"{self.alias} has no broker {node}.")
        return self._connection(node, number)

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        super().close()
        self.forget_routes()

    def cluster_id(self) -> str:
        """The id of the cluster that these connections lead to."""
        return str(self._metadata(()).cluster_id)

    def _metadata(self, topics: Iterable[str]) -> Any:
        return self._ask_for_metadata(partial(topics_request, [*topics]))[0]

    def _ask_for_metadata(self, request: Callable[[], Any]) -> tuple[Any, tuple[str, int]]:
        """What a broker says of the cluster, and where that one is."""
        answer, peer = self._ask_some(lambda it: (it.call(request()), it.peer))
        self._learn_from(answer)
        return answer, peer

    def _learn_from(self, *answers: Any) -> None:
        """Store where brokers are by the first answer, and by the others those of which it has not heard."""
        self._cluster_id = answers[0].cluster_id or ""
        self._learn(
            {
                broker.node_id: (broker.host, broker.port)
                for answer in reversed(answers)
                for broker in answer.brokers
            }
        )

    def _describe(self, topics: Sequence[str]) -> tuple[Any, dict[TopicPartition, PartitionLeader]]:
        """What a broker says of topics, and the leaders of their partitions, by others too."""
        request = partial(topics_request, topics)
        if not (answers := self.ask_several(request)):
            answer, peer = self._ask_for_metadata(request)
            # The only one may have another name as a bootstrap server.
            others = self.ask_several(request, peer) if len(answer.brokers) > 1 else ()
            answers = [answer, *others]
        self._learn_from(*answers)
        return answers[0], _newest_leaders(answers)


def foreign_answer(alias: str, partition: TopicPartition) -> ClusterUnreachable:
    """The error for an answer about a partition that the request did not name."""
    return ClusterUnreachable(f"{alias} answered for {excerpt(str(partition))}, unasked.")


def _newest_leaders(answers: Iterable[Any]) -> dict[TopicPartition, PartitionLeader]:
    """The leader of each partition of the first answer, or a newer one that another broker names.

    A broker that is cut off from the others hears nothing of a new leader. If it was the leader, it answers clients as
    before, with an end of the log after which the new one has written. Leader epochs tell which of them is newer;
    nothing tells that of two topics of one name, so that partition has no leader until the brokers agree.
    """
    first, *others = map(leaders_in, answers)
    return {
        tp: _newest([it, *(one[tp] for one in others if tp in one)]) for tp, it in first.items()
    }


def _newest(said: Sequence[PartitionLeader]) -> PartitionLeader:
    # Brokers before 2.8 know no ids.
    if len({leader.topic_id for leader in said} - {""}) > 1:
        return replace(said[0], node=-1, error=LEADER_NOT_AVAILABLE)
    return max(said, key=lambda leader: leader.epoch)


def _as_it_is(answer: _T) -> _T:
    return answer
