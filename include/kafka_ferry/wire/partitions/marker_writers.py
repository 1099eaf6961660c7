"""Whose markers of commits lie at offsets of many partitions, in one request to each broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_ferry.batches import MalformedBatch, is_abort_marker, split_batches
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.error_codes import NONE, THROTTLED, is_transient_read, read_fault
from kafka_ferry.wire.partitions.by_leader import by_node
from kafka_ferry.wire.partitions.fetch import Fetched, fetch_each

# A marker has 78 bytes.
_MARKER_BYTES: Final = 256
_NO_MARKER: Final = -1


def markers_at(
    cluster: WireCluster, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The producers whose transactions were committed by the markers at offsets.

    Args:
        cluster: the cluster, with no request on its way.
        offsets: by partition, an offset within its log.

    Returns:
        The producer's id by partition, -1 where another batch lies there, such as the marker of an aborted
        transaction, or none came. Partitions without a leader, and those that the broker does not let be read, are
        absent.

    Raises:
        ClusterUnreachable: if a broker does not answer, or not for every partition.
        BrokerError: transient while a leader cannot say.
    """
    with cluster.forgetting():
        leaders = cluster.recent_leaders(offsets)
        nodes = by_node({tp: answer.node for tp, answer in leaders.items() if answer.node >= 0})
        cluster.open(nodes)
        asked = {node: {tp: offsets[tp] for tp in some} for node, some in nodes.items()}
        answers = fetch_each(cluster, asked, _MARKER_BYTES)
        answered = {answer.partition for answer in answers}
        for tp in {tp for some in nodes.values() for tp in some} - answered:
            raise read_fault(THROTTLED, f"Reading {tp} on {cluster.alias}", tp.topic)
        for answer in answers:
            if is_transient_read(answer.error):
                doing = f"Reading {answer.partition} on {cluster.alias}"
                raise read_fault(answer.error, doing, answer.partition.topic)
    return {
        answer.partition: _marker_of(answer, offsets[answer.partition])
        for answer in answers
        if answer.error == NONE
    }


def _marker_of(fetched: Fetched, offset: int) -> int:
    try:
        first = next(split_batches(fetched.records), None)
        if first is None or first.header.base_offset != offset or not first.header.is_control:
            return _NO_MARKER
        return _NO_MARKER if is_abort_marker(first) else first.header.producer_id
    except MalformedBatch:
        return _NO_MARKER
