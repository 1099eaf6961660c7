"""Which offset a log had at a time (KIP-79)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafka.protocol.consumer import ListOffsetsRequest

from kafka_ferry.plan.ranges import TopicPartition
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.faults import NONE, fault, is_transient

_READ_UNCOMMITTED: Final = 0
# One request for so many partitions: a broker looks each time up in an index on its disk.
_AT_ONCE: Final = 5_000
_Topic = ListOffsetsRequest.ListOffsetsTopic
_Partition = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition


def offsets_at(
    cluster: WireCluster, nodes: Mapping[TopicPartition, int], times: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | None]:
    """The first offset of each partition whose record is as young as a time or younger.

    Args:
        cluster: the cluster to ask.
        nodes: the broker that leads each partition.
        times: by partition, in milliseconds since 1970.

    Returns:
        The offset, None where all records are older; a partition whose leader moves is absent.

    Raises:
        AccessDenied: without DESCRIBE on a topic.
        BrokerError: for whatever else a broker says.
        ClusterUnreachable: if a broker does not answer, or not for every partition.
    """
    found = _look_up(cluster, nodes, times)
    return {tp: entry.offset if entry else None for tp, entry in found.items()}


def first_times(
    cluster: WireCluster, nodes: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The time of the first record in each partition's log, in milliseconds since 1970.

    A partition without a record that has a time is absent, as is one whose leader moves.

    Raises:
        AccessDenied, BrokerError, ClusterUnreachable: as ``offsets_at``.
    """
    found = _look_up(cluster, nodes, dict.fromkeys(partitions, 0))
    return {tp: entry.timestamp for tp, entry in found.items() if entry and entry.timestamp >= 0}


class _Entry(NamedTuple):
    offset: int
    timestamp: int


def _look_up(
    cluster: WireCluster, nodes: Mapping[TopicPartition, int], times: Mapping[TopicPartition, int]
) -> dict[TopicPartition, _Entry | None]:
    by_node: dict[int, list[TopicPartition]] = defaultdict(list)
    for tp in times:
        if tp in nodes:
            by_node[nodes[tp]].append(tp)
    entries: dict[TopicPartition, _Entry | None] = {}
    for node, partitions in by_node.items():
        for first in range(0, len(partitions), _AT_ONCE):
            some = partitions[first : first + _AT_ONCE]
            entries.update(_ask(cluster, node, {tp: times[tp] for tp in some}))
    return entries


def _ask(
    cluster: WireCluster, node: int, times: Mapping[TopicPartition, int]
) -> dict[TopicPartition, _Entry | None]:
    topics: dict[str, list[object]] = defaultdict(list)
    for tp, time in times.items():
        topics[tp.topic].append(
            _Partition(partition_index=tp.partition, current_leader_epoch=-1, timestamp=time)
        )
    answer = cluster.connection(node).call(
        ListOffsetsRequest(
            replica_id=-1,
            isolation_level=_READ_UNCOMMITTED,
            topics=[_Topic(name=name, partitions=asked) for name, asked in topics.items()],
        )
    )
    answers = {
        TopicPartition(topic.name, entry.partition_index): entry
        for topic in answer.topics
        for entry in topic.partitions
    }
    cluster.require_answers(times, answers)
    found: dict[TopicPartition, _Entry | None] = {}
    for tp in times:
        entry = answers[tp]
        if entry.error_code == NONE:
            has_one = entry.offset >= 0
            found[tp] = _Entry(int(entry.offset), int(entry.timestamp)) if has_one else None
        elif not is_transient(entry.error_code):
            raise fault(entry.error_code, f"Looking a time up in {tp} on {cluster.alias}")
    return found
