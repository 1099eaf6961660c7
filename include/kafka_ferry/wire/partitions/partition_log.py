"""A partition's log, as its leader describes it before it is read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafka_ferry.batches import Batch
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.error_codes import fault
from kafka_ferry.wire.partitions.list_offsets import EARLIEST, LATEST, log_offsets


class PartitionLog(NamedTuple):
    """A log that can be read to its end.

    A newly elected leader may not know yet how far its log is replicated: it shows less than there is,
    without an error, and refuses to say where the log ends (KIP-207). The leader of this one has said it.

    Attributes:
        partition: the partition.
        leader: the broker that leads it.
        start: the first offset that the log still holds.
        end: its high watermark.
        batch: one that was read already; see ``at_offset.with_batches``.
    """

    partition: TopicPartition
    leader: int
    start: int
    end: int
    batch: Batch | None = None


def partition_log(cluster: WireCluster, partition: TopicPartition) -> PartitionLog:
    """``partition_logs`` of one partition."""
    return partition_logs(cluster, [partition])[partition]


def partition_logs(
    cluster: WireCluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, PartitionLog]:
    """Ask the leaders of ``partitions`` where their logs start and end.

    Raises:
        BrokerError: transient while there is no leader, or it does not know.
        ClusterUnreachable: if a broker does not answer, or not for every partition.
    """
    with cluster.forget_on_error():
        leaders = _leaders(cluster, partitions, recent=True)
        offsets = log_offsets(cluster, leaders, (EARLIEST, LATEST))
    return {tp: PartitionLog(tp, leaders[tp], start, end) for tp, (start, end) in offsets.items()}


def led_logs(
    cluster: WireCluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, PartitionLog]:
    """``partition_logs`` of those that have a leader."""
    leaders = cluster.leaders(partitions)
    return partition_logs(cluster, [tp for tp, leader in leaders.items() if leader.node >= 0])


def leader_of(
    cluster: WireCluster,
    partition: TopicPartition,
    *,
    recent: bool = False,
    operation: str = "READ",
) -> int:
    """The broker that leads ``partition``.

    Args:
        cluster: the cluster.
        partition: the partition.
        recent: whether an earlier answer will do; see ``WireCluster.recent_leaders``.
        operation: what it is asked for, a right to which lets the principal know the topic.

    Raises:
        BrokerError: transient while there is none.
    """
    return _leaders(cluster, [partition], recent=recent, operation=operation)[partition]


def _leaders(
    cluster: WireCluster,
    partitions: Iterable[TopicPartition],
    *,
    recent: bool,
    operation: str = "READ",
) -> dict[TopicPartition, int]:
    look_up = cluster.recent_leaders if recent else cluster.leaders
    leaders = look_up(partitions)
    for tp, leader in leaders.items():
        if leader.node < 0:
            doing = f"Looking for the leader of {tp} on {cluster.alias}"
            raise fault(leader.error, doing, Right.topic(operation, tp.topic))
    return {tp: leader.node for tp, leader in leaders.items()}
