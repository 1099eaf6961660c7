"""Asks the coordinators of many groups at once: few requests, and an answer or an error for each group."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import cycle
from typing import Any, Final, TypeVar

from kafka.protocol.metadata import FindCoordinatorRequest

from kafka_ferry.batched import batched
from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.model.rights import Right
from kafka_ferry.wire.cluster import GROUP, WireCluster
from kafka_ferry.wire.connections.connection import Connection
from kafka_ferry.wire.error_codes import (
    GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC,
    NON_EMPTY_GROUP,
    OFFSET_METADATA_TOO_LARGE,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    fault,
)

_T = TypeVar("_T")
Answers = Iterable[tuple[str, _T | FerryError]]
"""The answer about each group, or the error that a broker gives in its place."""
GROUPS_AT_ONCE: Final = 20
"""How many groups a request may name if its answer is long: a group may have 10,000s of partitions."""
_KEYS_AT_ONCE: Final = 1_000
# FindCoordinator v4 asks for many groups (KIP-699, Kafka 3.0).
_MANY: Final = 4
_IDLE: Final = "It has members there: stop them first."
_ADVICE: Final = {
    UNKNOWN_MEMBER_ID: _IDLE,
    NON_EMPTY_GROUP: _IDLE,
    GROUP_SUBSCRIBED_TO_TOPIC: _IDLE,
    UNKNOWN_TOPIC_OR_PARTITION: "The topic does not exist, or has fewer partitions.",
    OFFSET_METADATA_TOO_LARGE: "Raise the broker's offset.metadata.max.bytes.",
    # A commit to a group that does not exist creates it.
    GROUP_ID_NOT_FOUND: "The cluster has a group of this name of another type.",
}
# A broker reads a request only when it has sent the previous answer. So few bytes fit into the
# sockets' buffers that neither side waits for the other to read first.
_IN_FLIGHT: Final = 64 * 1024


def ask_coordinators(
    cluster: WireCluster,
    groups: Collection[str],
    ask: Callable[[Sequence[Connection], list[str]], Answers[_T]],
    *,
    most_connections: int = 1,
) -> dict[str, _T | FerryError]:
    """Ask the coordinator of each group, once.

    Args:
        cluster: the cluster that has the groups.
        groups: the groups.
        ask: asks one coordinator for some of them, and yields their answers as they come.
        most_connections: how many connections to each coordinator to use, for many requests.

    Returns:
        An answer for each group, or an error: of its own, or of its coordinator.

    Raises:
        ClusterUnreachable: if no broker answers.
        AccessDenied: if the cluster refuses the login.
    """
    by_node, errors = _coordinators(cluster, groups)
    answers: dict[str, _T | FerryError] = {**errors}
    for node, some in by_node.items():
        try:
            connections = _connections(cluster, node, min(most_connections, len(some)))
            own = {*some}
            # Of a group that it was not asked for, another coordinator knows more.
            answers.update((group, it) for group, it in ask(connections, some) if group in own)
        except FerryError as error:
            answers |= {group: error for group in some if group not in answers}
    silent = {
        group: ClusterUnreachable(f"{cluster.alias} did not answer for the group {group}.")
        for group in groups
        if group not in answers
    }
    return {group: silent[group] if group in silent else answers[group] for group in groups}


def pipeline(connections: Sequence[Connection], requests: Iterable[Any]) -> Iterator[Any]:
    """Send requests without waiting for each answer, and yield the answers in order.

    Args:
        connections: to one broker, with nothing in flight; they take turns.
        requests: messages of one kind.
    """
    due: deque[tuple[Connection, int]] = deque()
    in_flight = 0
    try:
        for request, connection in zip(requests, cycle(connections), strict=False):
            while in_flight >= _IN_FLIGHT:
                answer = due[0][0].receive()
                in_flight -= due.popleft()[1]
                yield answer
            size = connection.send(request)
            due.append((connection, size))
            in_flight += size
        while due:
            answer = due[0][0].receive()
            due.popleft()
            yield answer
    finally:
        # Pending answers would be treated as those to the next requests.
        for connection, _ in due:
            connection.close()


def group_fault(code: int, doing: str, *needed: Right, message: str | None = None) -> FerryError:
    """The error for a coordinator's ``code``.

    An unknown topic is a terminal error here: callers have already seen the topic elsewhere.

    Args:
        code: Kafka's error code, not 0.
        doing: the request, with cluster and group.
        needed: the rights that it needs.
        message: the coordinator's own message, if any.
    """
    error = fault(code, doing, *needed, advice=_ADVICE.get(code) or message or "")
    if code == UNKNOWN_TOPIC_OR_PARTITION:
        error.transient = False
    return error


def _connections(cluster: WireCluster, node: int, count: int) -> list[Connection]:
    """``count`` connections to a broker, or as many as it allows."""
    connections = [cluster.connection(node)]
    with suppress(ClusterUnreachable):
        connections.extend(cluster.connection(node, number) for number in range(1, count))
    return connections


def _coordinators(
    cluster: WireCluster, groups: Collection[str]
) -> tuple[dict[int, list[str]], dict[str, FerryError]]:
    """The groups by coordinating broker, and an error for each group without one."""
    by_node: dict[int, list[str]] = defaultdict(list)
    errors: dict[str, FerryError] = {}
    connection = cluster.any_connection()
    wanted = {*groups}
    for group, entry in _find(connection, list(groups)):
        if group not in wanted:
            continue
        if entry.error_code:
            doing = f"Finding the coordinator of the group {group} on {cluster.alias}"
            errors[group] = group_fault(entry.error_code, doing, Right.group("DESCRIBE", group))
        else:
            cluster.add_broker(entry.node_id, entry.host, entry.port)
            by_node[entry.node_id].append(group)
    return by_node, errors


def _find(connection: Connection, groups: list[str]) -> Iterator[tuple[str, Any]]:
    if connection.offers(FindCoordinatorRequest, version=_MANY):
        many = (
            FindCoordinatorRequest(key_type=GROUP, coordinator_keys=some)
            for some in batched(groups, _KEYS_AT_ONCE)
        )
        for answer in pipeline([connection], many):
            yield from ((entry.key, entry) for entry in answer.coordinators)
    else:
        single = (FindCoordinatorRequest(key=group, key_type=GROUP) for group in groups)
        yield from zip(groups, pipeline([connection], single), strict=True)
