"""The size of logs on their leaders' disks (KIP-113)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from kafka.protocol.admin import DescribeLogDirsRequest

from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.error_codes import NONE, fault

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
    by_node: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for tp, node in nodes.items():
        by_node[node][tp.topic].append(tp.partition)
    sizes = {}
    for node, topics in by_node.items():
        answer = cluster.connection(node).call(
            DescribeLogDirsRequest(
                topics=[_Topic(topic=name, partitions=asked) for name, asked in topics.items()]
            )
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
            for topic in folder.topics:
                for entry in topic.partitions:
                    if not entry.is_future_key:
                        tp = TopicPartition(topic.name, entry.partition_index)
                        sizes[tp] = int(entry.partition_size)
    return sizes
