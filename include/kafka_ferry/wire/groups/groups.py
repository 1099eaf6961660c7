"""Lists, describes and deletes consumer groups.

Each request is sent once; callers retry transient errors. Groups fail one by one: an error takes the
place of a group's answer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, cast, get_args

from kafka.protocol.admin.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)

from kafka_ferry.batched import batched
from kafka_ferry.errors import FerryError
from kafka_ferry.model.groups import Group, GroupType
from kafka_ferry.model.rights import Right
from kafka_ferry.wire.any_broker import require_offered
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.connections.connection import Connection
from kafka_ferry.wire.error_codes import GROUP_ID_NOT_FOUND, NONE, fault
from kafka_ferry.wire.groups.coordinators import (
    GROUPS_AT_ONCE,
    Answers,
    ask_coordinators,
    group_fault,
    pipeline,
)

_TYPES: Final = frozenset(get_args(GroupType))


def list_groups(cluster: WireCluster) -> list[Group]:
    """All groups that the principal may see, from every broker that is up.

    Raises:
        AccessDenied: without DESCRIBE on the cluster, where brokers do not return a part instead.
        BrokerError: transient while a broker loads its groups.
        ClusterUnreachable: if a broker does not answer.
    """
    groups = {}
    for node in cluster.nodes():
        answer = cluster.connection(node).call(ListGroupsRequest(states_filter=[], types_filter=[]))
        if answer.error_code:
            raise fault(
                answer.error_code,
                f"Listing the groups of {cluster.alias}",
                Right.cluster("DESCRIBE"),
            )
        for entry in answer.groups:
            groups[entry.group_id] = Group(
                entry.group_id, _type(entry.group_type), entry.group_state, entry.protocol_type
            )
    return list(groups.values())


def describe_groups(cluster: WireCluster, groups: Collection[str]) -> dict[str, Group | FerryError]:
    """Classic groups as their coordinators describe them; any other is ``Dead``.

    Needs DESCRIBE on each group.
    """

    def ask(connections: Sequence[Connection], some: list[str]) -> Answers[Group]:
        requests = (
            DescribeGroupsRequest(groups=few, include_authorized_operations=False)
            for few in batched(some, GROUPS_AT_ONCE)
        )
        for answer in pipeline(connections, requests):
            for entry in answer.groups:
                name = entry.group_id
                if entry.error_code:
                    doing = f"{cluster.alias}, looking at {name}"
                    yield name, group_fault(entry.error_code, doing, Right.group("DESCRIBE", name))
                else:
                    yield name, Group(name, "classic", entry.group_state, entry.protocol_type)

    return ask_coordinators(cluster, groups, ask)


def delete_groups(cluster: WireCluster, groups: Collection[str]) -> dict[str, FerryError | None]:
    """Delete groups without members, of any type, with all their offsets.

    Needs DELETE on each group.

    Returns:
        None for each group that no longer exists, an error for each other one.
    """

    def ask(connections: Sequence[Connection], some: list[str]) -> Answers[None]:
        require_offered(connections[0], DeleteGroupsRequest, "delete groups", "1.1")
        requests = (DeleteGroupsRequest(groups_names=few) for few in batched(some, GROUPS_AT_ONCE))
        for answer in pipeline(connections, requests):
            for result in answer.results:
                name = result.group_id
                gone = result.error_code in (NONE, GROUP_ID_NOT_FOUND)
                doing = f"{cluster.alias}, deleting the group {name}"
                needed = Right.group("DELETE", name)
                yield name, None if gone else group_fault(result.error_code, doing, needed)

    return ask_coordinators(cluster, groups, ask)


def _type(listed_type: str) -> GroupType:
    """The type in a listing, which brokers before 3.8 lack: they have classic groups only."""
    name = listed_type.lower() or "classic"
    return cast(GroupType, name) if name in _TYPES else "unknown"
