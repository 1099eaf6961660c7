"""Reading a flow's positions outside of a writer: to plan, to show the lag, to verify."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_ferry.config import Cluster
from kafka_ferry.model.groups import Committed
from kafka_ferry.model.positions import Position, position_group, position_of
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import connect
from kafka_ferry.wire.transactions.committed_offsets import committed_offsets


def read_positions(target: Cluster, flow: str) -> dict[TopicPartition, Position]:
    """The position of each *target* partition for which ``flow`` has committed one.

    Through the data plane's protocol: confluent-kafka 2.16 reads past the end of an offset's metadata,
    and fails on what it finds there. It does not wait for pending transactions: a dead run's would be
    pending until a writer takes over, which reads the positions again.

    Raises:
        AccessDenied: without READ on the flow's group.
        ClusterUnreachable: if the target does not answer for a minute.
    """
    with connect(target) as cluster:
        return positions_of(committed_offsets(cluster, position_group(flow), stable=False))


def positions_of(committed: Mapping[TopicPartition, Committed]) -> dict[TopicPartition, Position]:
    """The positions that a flow's group has committed, by *target* partition."""
    return {
        tp: position_of(entry.offset, entry.metadata, entry.leader_epoch)
        for tp, entry in committed.items()
    }
