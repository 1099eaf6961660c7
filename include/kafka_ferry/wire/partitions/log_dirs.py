"""The size of logs on their leaders' disks (KIP-113)."""

from __future__ import annotations

from collections.abc import Mapping

from kafka.protocol.admin import DescribeLogDirsRequest

from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.wire.by_topic import entries_of, in_topics, numbers_of
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.error_codes import NONE, fault
from kafka_ferry.wire.partitions.by_leader import by_node

_Topic = DescribeLogDirsRequest.DescribableLogDirTopic


def log_sizes(
    cluster: WireCluster, nodes: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The bytes of each partition's segments on its leader, without indexes.

    What a broker has moved to remote storage (KIP-405) does not count.

    Args:
        cluster: the cluster to ask.
        nodes: the broker that leads each partition.

    Returns:
        The sizes; a partition that its broker does not report is absent.

    Raises:
        AccessDenied: without DESCRIBE on the cluster.
        BrokerError: transient while a broker does not know.
        ClusterUnreachable: if a broker does not answer.
    """
    sizes = {}
    for node, partitions in by_node(nodes).items():
        answer = cluster.connection(node).call(
            DescribeLogDirsRequest(topics=in_topics(_Topic, numbers_of(partitions), name="topic"))
        )
        if answer.error_code:
            raise fault(
                answer.error_code,
                f"Reading the sizes of logs on {cluster.alias}",
                Right.cluster("DESCRIBE"),
            )
        for folder in answer.results:
            # A failed disk; its partitions have other leaders.
            if folder.error_code != NONE:
                continue
            for tp, entry in entries_of(folder.topics):
                if not entry.is_future_key:
                    sizes[tp] = int(entry.partition_size)
    return sizes
