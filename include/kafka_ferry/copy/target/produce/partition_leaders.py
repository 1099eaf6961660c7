"""The partitions that a writer is about to write to, and whether they can be written to now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from kafka_ferry.batches import TopicLimits
from kafka_ferry.copy.target.produce.partition_queue import PartitionQueue
from kafka_ferry.copy.target.produce.verdicts import Verdicts
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.retry import retry
from kafka_ferry.wire import Connection, PartitionLeader, WireCluster
from kafka_ferry.wire.error_codes import (
    NOT_ENOUGH_REPLICAS,
    UNKNOWN_TOPIC_OR_PARTITION,
    fault,
)
from kafka_ferry.wire.partition_leader import leaders_in, topics_request

_RECREATED: Final = (
    "the target's topic was deleted and recreated since it was planned; the next run handles it."
)

_SOURCE: Final = "the brokers of the target say that they are of the source's cluster: look at its bootstrap.servers."


def leaders_of(
    cluster: WireCluster, remote: Collection[TopicPartition], own: Collection[TopicPartition]
) -> Mapping[TopicPartition, PartitionLeader]:
    """The leaders of remote partitions and of the flow's own, which have one once this returns.

    Raises:
        FerryError: if one of the flow's own partitions has no leader for a minute.
    """

    def ask() -> Mapping[TopicPartition, PartitionLeader]:
        leaders = cluster.leaders([*remote, *own])
        for tp in own:
            if leaders[tp].node < 0:
                needed = Right.topic("WRITE", tp.topic)
                raise fault(leaders[tp].error, f"Looking for the topic {tp.topic}", needed)
        return leaders

    return retry(ask)


def check_leaders(
    by_target: Mapping[TopicPartition, Range],
    leaders: Mapping[TopicPartition, PartitionLeader],
    limits_by_topic: Mapping[str, TopicLimits],
    verdicts: Verdicts,
) -> None:
    """Tell ``verdicts`` which ranges' partitions cannot be written to, or are not of the planned topics."""
    for tp, range_ in by_target.items():
        if range_.source not in verdicts.failures:
            limits = limits_by_topic[range_.remote_topic]
            _check(range_, leaders[tp], limits.min_insync_replicas, verdicts)


def ask_for_topics(
    cluster: WireCluster, queues: Mapping[TopicPartition, PartitionQueue]
) -> Mapping[Connection, Sequence[TopicPartition]]:
    """Ask each leader which topics it has, after the batches that it was sent for names.

    Args:
        cluster: the target.
        queues: what was sent to each partition.

    Returns:
        By connection, on which the answer comes after those to the batches, the partitions that it is about.
    """
    written: dict[int, list[TopicPartition]] = defaultdict(list)
    for tp, queue in queues.items():
        if queue.range and queue.remote_topic_id and (queue.sent or queue.tally):
            written[queue.node].append(tp)
    by_connection = {cluster.connection(node): some for node, some in written.items()}
    for connection, partitions in by_connection.items():
        connection.send(topics_request(sorted({tp.topic for tp in partitions})))
    return by_connection


def check_topics(
    by_connection: Mapping[Connection, Sequence[TopicPartition]],
    queues: Mapping[TopicPartition, PartitionQueue],
    verdicts: Verdicts,
) -> None:
    """Make the transaction void where a topic is not the one that was there when it began.

    A broker removes a topic from its metadata before it deletes the log, and has the id of a new one before
    it stores batches in it, or in the same update: what it says afterwards holds for the batches before.

    Args:
        by_connection: as of ``ask_for_topics``, once all answers to batches are there.
        queues: what was sent to each partition.
        verdicts: is told.
    """
    for connection, partitions in by_connection.items():
        leaders = leaders_in(connection.receive())
        for tp in partitions:
            range_, leader = queues[tp].range, leaders.get(tp)
            assert range_ is not None
            if leader is None:
                verdicts.fail_for_now(range_, range_.start, UNKNOWN_TOPIC_OR_PARTITION)
            elif leader.topic_id not in ("", queues[tp].remote_topic_id):
                verdicts.fail(range_, range_.start, _RECREATED)
                verdicts.make_void(f"{tp}: {_RECREATED}", excludes=True)


def _check(
    range_: Range, leader: PartitionLeader, min_insync_replicas: int, verdicts: Verdicts
) -> None:
    if leader.node < 0:
        verdicts.fail_for_now(range_, range_.start, leader.error, _why_none(leader))
    elif range_.remote_topic_id not in ("", leader.topic_id):
        verdicts.fail(range_, range_.start, _RECREATED)
    elif leader.cluster_id and range_.origins == (leader.cluster_id,):
        # A plan has asked too, but the answer may be another one by now, and a topic's id is only what a broker says.
        verdicts.fail(range_, range_.start, _SOURCE)
    elif leader.in_sync < min(min_insync_replicas, leader.replicas):
        # Not even an abort marker could be written: the partition would block all the others.
        verdicts.fail_for_now(range_, range_.start, NOT_ENOUGH_REPLICAS)


def _why_none(leader: PartitionLeader) -> str:
    """Why no broker leads a partition, as far as the cluster says."""
    if not leader.offline or len(leader.offline) < leader.replicas:
        return ""
    brokers = f"broker{'s' if leader.replicas > 1 else ''} {', '.join(map(str, leader.offline))}"
    return (
        f"it has no replica but on {brokers}, which is down or has lost a disk (is it full?). The next "
        "run continues when it is back"
    )
