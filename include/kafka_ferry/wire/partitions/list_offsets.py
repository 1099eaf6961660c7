"""ListOffsets: where logs start and end, and which offset they had at a time (KIP-79)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from kafka.protocol.consumer import ListOffsetsRequest

from kafka_ferry.errors import FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.by_topic import entries_of, in_topics
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.connections.questions import Question, ask_together
from kafka_ferry.wire.error_codes import read_fault
from kafka_ferry.wire.partitions.by_leader import by_node

EARLIEST: Final = -2
"""Stands for the log's start in place of a time."""
LATEST: Final = -1
"""Stands for the log's end in place of a time."""
NEWEST: Final = -3
"""Stands for the largest timestamp of the log in place of a time (KIP-734)."""
NEWEST_SINCE: Final = 7
"""The version of the request since which brokers know ``NEWEST``."""
EARLIEST_LOCAL: Final = -4
"""Stands for the first offset that is not in remote storage alone, in place of a time (KIP-405)."""
_LOCAL_SINCE: Final = 8
READ_UNCOMMITTED: Final = 0
"""The level for which a log ends at its high watermark."""
READ_COMMITTED: Final = 1
"""The level for which a log ends at its last stable offset."""
# Limits a request to so many partitions, so that no answer gets too large.
_AT_ONCE: Final = 5_000
_Topic = ListOffsetsRequest.ListOffsetsTopic
_Partition = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition


def offsets_question(
    cluster: WireCluster,
    node: int,
    times: Mapping[TopicPartition, int],
    isolation: int = READ_UNCOMMITTED,
) -> Question[dict[TopicPartition, Any]]:
    """A question to a broker: an offset of each partition.

    Args:
        cluster: the cluster to ask.
        node: the broker that leads the partitions.
        times: by partition, in milliseconds since 1970, ``EARLIEST`` or ``LATEST``.
        isolation: Kafka's number of the level that ``LATEST`` is for; by default the reader's.

    Returns:
        The question; its answer has ``error_code``, ``offset`` and ``timestamp`` of each partition; it raises
        ``ClusterUnreachable`` if the broker does not answer, or not for every partition.
    """
    entries = {
        tp: _Partition(partition_index=tp.partition, current_leader_epoch=-1, timestamp=time)
        for tp, time in times.items()
    }

    def read(answer: Any) -> dict[TopicPartition, Any]:
        answers = dict(entries_of(answer.topics))
        cluster.require_answers(times, answers)
        return {tp: answers[tp] for tp in times}

    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=in_topics(_Topic, entries),
    )
    return Question(cluster.connection(node), request, read)


def log_start(cluster: WireCluster, node: int, partition: TopicPartition) -> int:
    """The first offset that the log of ``partition`` still holds.

    Args:
        cluster: the cluster to ask.
        node: the broker that leads the partition.
        partition: the partition.

    Raises:
        BrokerError: if the broker does not say.
        ClusterUnreachable: if it does not answer, or not for ``partition``.
    """
    (start,) = log_offsets(cluster, {partition: node}, (EARLIEST,))[partition]
    return start


def high_watermarks(
    cluster: WireCluster, nodes: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The end of what consumers can read of each partition, including records of open transactions.

    Args:
        cluster: the cluster to ask.
        nodes: the broker that leads each partition.

    Raises:
        BrokerError: transient while a leader does not know.
        ClusterUnreachable: if a broker does not answer, or not for every partition.
    """
    return {tp: end for tp, (end,) in log_offsets(cluster, nodes, (LATEST,)).items()}


def log_offsets(
    cluster: WireCluster,
    nodes: Mapping[TopicPartition, int],
    wanted: Sequence[int],
    isolation: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, list[int]]:
    """The start or end of each partition's log, or both, in one round trip.

    Args:
        cluster: the cluster to ask.
        nodes: the broker that leads each partition.
        wanted: ``EARLIEST``, ``LATEST``, ``EARLIEST_LOCAL``.
        isolation: Kafka's number of the level that ``LATEST`` is for.

    Returns:
        By partition, in the order of ``wanted``.

    Raises:
        BrokerError: transient while a leader does not know.
        ClusterUnreachable: if a broker does not answer, or not for every partition.
    """
    answers_by_time = ask_offsets(cluster, nodes, wanted, isolation)
    offsets: dict[TopicPartition, list[int]] = {tp: [] for tp in nodes}
    for which in wanted:
        for tp, answer in answers_by_time[which].items():
            if answer.error_code:
                bound = "end" if which == LATEST else "start"
                doing = f"Reading the {bound} of {tp} on {cluster.alias}"
                raise read_fault(answer.error_code, doing, tp.topic)
            offsets[tp].append(int(answer.offset))
    return offsets


def ask_offsets(
    cluster: WireCluster, nodes: Mapping[TopicPartition, int], wanted: Sequence[int], isolation: int
) -> dict[int, dict[TopicPartition, Any]]:
    """As ``log_offsets``, with what leaders answer of each partition, errors too, by what was asked for.

    Raises:
        ClusterUnreachable: if a broker does not answer, or not for every partition.
    """
    by_leader = by_node(nodes)
    cluster.open(by_leader)
    # Over a long link each answer counts: none waits for another one.
    questions = {
        (which, node, at): offsets_question(
            cluster, node, dict.fromkeys(led[at : at + _AT_ONCE], which), isolation
        )
        for which in wanted
        for node, led in by_leader.items()
        for at in range(0, len(led), _AT_ONCE)
    }
    answers: dict[int, dict[TopicPartition, Any]] = {which: {} for which in wanted}
    for (which, _, _), some in ask_together(questions).items():
        answers[which] |= some
    return answers


def local_starts(
    cluster: WireCluster, nodes: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The first offset that each partition's leader has on its own disk; none where a broker does not say.

    What is before it, and not before the log's start, has to be read from remote storage (KIP-405). Brokers without
    any do not know the question, and would take it for a time.

    Args:
        cluster: the cluster, with no request on its way to these brokers.
        nodes: the broker that leads each partition.
    """
    with suppress(FerryError):
        cluster.open(set(nodes.values()))
        knowing = {tp: node for tp, node in nodes.items() if _knows_local(cluster, node)}
        starts = log_offsets(cluster, knowing, (EARLIEST_LOCAL,))
        return {tp: start for tp, (start,) in starts.items()}
    return {}


def local_start(cluster: WireCluster, node: int, partition: TopicPartition) -> int:
    """As ``local_starts`` of one partition; 0 where the broker never says.

    Raises:
        FerryError: if the broker does not say for now.
    """
    try:
        if not _knows_local(cluster, node):
            return 0
        return log_offsets(cluster, {partition: node}, (EARLIEST_LOCAL,))[partition][0]
    except FerryError as error:
        if error.transient:
            raise
        return 0


def _knows_local(cluster: WireCluster, node: int) -> bool:
    return cluster.connection(node).offers(ListOffsetsRequest, version=_LOCAL_SINCE)
