"""Reads log ends from the leaders, and moves log starts (KIP-107)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka.protocol.admin import DeleteRecordsRequest

from kafka_ferry.errors import BrokerError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.by_topic import entries_of, in_topics
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.error_codes import NONE
from kafka_ferry.wire.partition_leader import PartitionLeader
from kafka_ferry.wire.partitions.by_leader import by_node
from kafka_ferry.wire.partitions.epochs import epoch_ends_on
from kafka_ferry.wire.partitions.list_offsets import high_watermarks

_TIMEOUT_MS: Final = 30_000
_DeleteTopic = DeleteRecordsRequest.DeleteRecordsTopic
_DeletePartition = DeleteRecordsRequest.DeleteRecordsTopic.DeleteRecordsPartition


def settled_ends(
    cluster: WireCluster, leaders: Mapping[TopicPartition, PartitionLeader]
) -> dict[TopicPartition, int]:
    """The end of each partition's log, once everything in it is replicated.

    Records that are not replicated yet lie after the high watermark, and no consumer can read them:
    only the end of the newest leader epoch shows that they exist (KIP-101).

    Raises:
        BrokerError: transient while a log's end is not replicated, or a leader does not know.
        ClusterUnreachable: if a broker does not answer, or not for every partition.
    """
    nodes = {tp: leader.node for tp, leader in leaders.items()}
    epochs = {tp: leader.epoch for tp, leader in leaders.items() if leader.epoch >= 0}
    readable = high_watermarks(cluster, nodes)
    ends = epoch_ends_on(cluster, {tp: nodes[tp] for tp in epochs}, epochs)
    for tp in epochs:
        if tp not in ends or ends[tp].end > readable[tp]:
            raise BrokerError(
                f"The end of {tp} on {cluster.alias} is not replicated yet.",
                code=NONE,
                name="",
                transient=True,
            )
    return readable


def delete_records(
    cluster: WireCluster,
    nodes: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Move the start of logs to ``starts``; a log that already starts there or later stays.

    Args:
        cluster: the cluster.
        nodes: the broker that leads each partition.
        starts: the first offset that each log is to keep; none after its high watermark.

    Returns:
        Kafka's error code for each partition whose start could not be moved.

    Raises:
        ClusterUnreachable: if a broker does not answer, or not for every partition.
    """
    refused = {}
    for node, partitions in by_node({tp: nodes[tp] for tp in starts}).items():
        entries = {
            tp: _DeletePartition(partition_index=tp.partition, offset=starts[tp])
            for tp in partitions
        }
        answer = cluster.connection(node).call(
            DeleteRecordsRequest(topics=in_topics(_DeleteTopic, entries), timeout_ms=_TIMEOUT_MS)
        )
        codes = {tp: entry.error_code for tp, entry in entries_of(answer.topics)}
        cluster.require_answers(partitions, codes)
        refused.update({tp: code for tp, code in codes.items() if code != NONE})
    return refused
