"""Lists, describes and deletes consumer groups.

Each request is sent once; callers retry transient errors. Groups fail one by one: an error takes the
place of a group's answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, cast, get_args

from kafka.protocol.admin.groups import (
    DescribeGroupsRequest,
    ListGroupsRequest,
)

from kafka_ferry.batched import batched
from kafka_ferry.errors import FerryError
from kafka_ferry.model.groups import Group, GroupType
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.connections.connection import Connection
from kafka_ferry.wire.connections.questions import Question, ask_together
from kafka_ferry.wire.error_codes import fault
from kafka_ferry.wire.groups.coordinators import (
    GROUPS_AT_ONCE,
    Answers,
    ask_coordinators,
    group_fault,
    pipeline,
)
from kafka_ferry.wire.partition_leader import PartitionLeader

_TYPES: Final = frozenset(get_args(GroupType))
_OFFSETS: Final = "__consumer_offsets"


class IncompleteListing(FerryError):
    """Brokers have listed their groups, and some groups may be with none of them.

    Attributes:
        groups: those that were listed.
    """

    transient = True

    def __init__(self, message: str, groups: list[Group]) -> None:
        super().__init__(message)
        self.groups = groups


def list_groups(cluster: WireCluster) -> list[Group]:
    """All groups that the principal may see, from every broker that is up.

    A broker lists the groups of those partitions of ``__consumer_offsets`` that it leads
    (``GroupCoordinatorService.listGroups``). So these have to be led by the brokers that were asked, before and
    after; where a cluster does not show them to the principal (DESCRIBE on the topic), it cannot be told.

    Raises:
        AccessDenied: without DESCRIBE on the cluster, where brokers do not return a part instead.
        BrokerError: transient while a broker loads its groups.
        ClusterUnreachable: if a broker does not answer.
        IncompleteListing: if some groups' partition has no leader, or another one than before.
    """

    def read(answer: Any) -> dict[str, Group]:
        if answer.error_code:
            doing = f"Listing the groups of {cluster.alias}"
            raise fault(answer.error_code, doing, Right.cluster("DESCRIBE"))
        return {
            it.group_id: Group(it.group_id, _type(it.group_type), it.group_state, it.protocol_type)
            for it in answer.groups
        }

    before = cluster.topic_leaders(_OFFSETS)
    nodes = cluster.nodes()
    cluster.open(nodes)
    listings = ask_together(
        {
            node: Question(
                cluster.connection(node), ListGroupsRequest(states_filter=[], types_filter=[]), read
            )
            for node in nodes
        }
    )
    all_groups = [
        *{name: it for groups in listings.values() for name, it in groups.items()}.values()
    ]
    after = cluster.topic_leaders(_OFFSETS)
    if lost := [str(tp) for tp, leader in sorted(after.items()) if leader.node not in nodes]:
        raise IncompleteListing(
            f"{cluster.alias} lists its groups in part: {', '.join(lost[:3])}{' ...' * (len(lost) > 3)} "
            f"({len(lost)} of {len(after)} partitions) had no leader, and the groups in there are not known.",
            all_groups,
        )
    if _elections(before) != _elections(after):
        raise IncompleteListing(
            f"{cluster.alias} may have listed its groups in part: partitions of {_OFFSETS} moved meanwhile.",
            all_groups,
        )
    return all_groups


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


def _elections(leaders: Mapping[TopicPartition, PartitionLeader]) -> Any:
    return {tp: (leader.node, leader.epoch) for tp, leader in leaders.items()}


def _type(listed_type: str) -> GroupType:
    """The type in a listing, which brokers before 3.8 lack: they have classic groups only."""
    name = listed_type.lower() or "classic"
    return cast(GroupType, name) if name in _TYPES else "unknown"
