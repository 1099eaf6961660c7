"""Where leader epochs end in a log (KIP-101, KIP-320): whether it is still the log that was copied."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from kafka_ferry.batches.epochs import UNKNOWN_EPOCH, EpochEnd, epoch_of
from kafka_ferry.errors import ClusterUnreachable
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.wire.by_topic import entries_of, in_topics
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.connections.questions import Question
from kafka_ferry.wire.error_codes import NONE, fault, is_transient
from kafka_ferry.wire.partitions.by_leader import ask_leaders

_CONSUMER: Final = -1
# Limits a request to so many partitions, so that no answer gets too large.
_AT_ONCE: Final = 5_000
# A leader moves within moments.
_PAUSES_S: Final = (0.1, 0.5, 1.0)
_Answers = dict[TopicPartition, EpochEnd | None]
_Topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
_Partition = OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition


def epoch_ends(
    cluster: WireCluster, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, EpochEnd]:
    """Where a leader epoch ends in each partition's log, or else the newest older one it has.

    A broker that does not lead a partition any more is no witness: whichever leads it by then is asked.

    Args:
        cluster: the cluster to ask.
        epochs: the leader epoch by partition.

    Returns:
        That epoch and its end; partitions without a leader, those whose leaders give no answer for some seconds, and
        those that know nothing of the epoch or any older one, are absent.

    Raises:
        ClusterUnreachable: if a broker does not answer, or not for every partition.
        AccessDenied: without DESCRIBE on a topic.
    """
    ends: dict[TopicPartition, EpochEnd] = {}
    left, pauses_s = set(epochs), iter(_PAUSES_S)
    while True:
        leaders = cluster.leaders(left)
        nodes = {tp: leader.node for tp, leader in leaders.items() if leader.node >= 0}
        answers = _ask(cluster, nodes, {tp: epochs[tp] for tp in nodes})
        ends |= {tp: end for tp, end in answers.items() if end}
        left = {tp for tp, end in answers.items() if end is None}
        pause_s = next(pauses_s, None)
        if not left or pause_s is None:
            return ends
        time.sleep(pause_s)


def epochs_before(
    cluster: WireCluster, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The leader epoch of the last batch before an offset in each partition's log, as its leader knows it.

    Args:
        cluster: the cluster to ask.
        offsets: by partition, offsets between which and the log's start something was written.

    Returns:
        The epochs; partitions of which that is not known are absent.

    Raises:
        ClusterUnreachable, AccessDenied: as ``epoch_ends``.
    """
    leaders = {tp: it for tp, it in cluster.leaders(offsets).items() if it.node >= 0}
    nodes = {tp: it.node for tp, it in leaders.items()}
    newest = epoch_ends_on(
        cluster, nodes, {tp: it.epoch for tp, it in leaders.items() if it.epoch >= 0}
    )
    # An epoch in which nothing was written yet begins where the log ends.
    candidates = {tp: it.epoch for tp, it in newest.items() if it.end >= offsets[tp]}
    epochs: dict[TopicPartition, int] = {}
    while candidates:
        older = epoch_ends_on(
            cluster, nodes, {tp: epoch - 1 for tp, epoch in candidates.items() if epoch > 0}
        )
        oldest = {tp: epoch for tp, epoch in candidates.items() if tp not in older}
        # A broker that leads it no longer gives no answer either.
        still = epoch_ends_on(cluster, nodes, oldest)
        epochs |= {tp: epoch for tp, epoch in oldest.items() if tp in still}
        epochs |= {tp: candidates[tp] for tp, it in older.items() if it.end < offsets[tp]}
        candidates = {tp: it.epoch for tp, it in older.items() if it.end >= offsets[tp]}
    return epochs


def epoch_ends_on(
    cluster: WireCluster, nodes: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, EpochEnd]:
    """The epochs' ends by the brokers that lead the partitions by ``nodes``; for the newest epoch, the log's end."""
    return {tp: end for tp, end in _ask(cluster, nodes, epochs).items() if end}


def have_reached(
    cluster: WireCluster, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, bool]:
    """Whether the leaders of partitions have reached epochs, as far as leaders and their epochs are known.

    No checksum covers the epoch of a batch: one bit of a disk may have made it one that the log cannot have.
    """
    leaders = {
        tp: leader
        for tp, leader in cluster.leaders(epochs).items()
        if leader.node >= 0 and leader.epoch > UNKNOWN_EPOCH
    }
    newer = {tp: epochs[tp] for tp, leader in leaders.items() if epochs[tp] > leader.epoch}
    ends = _ask(cluster, {tp: leaders[tp].node for tp in newer}, newer)
    return {tp: tp not in newer or tp in ends for tp in leaders}


def _ask(
    cluster: WireCluster, nodes: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, EpochEnd | None]:
    """``epoch_ends_on``, and None for a partition of which its broker cannot say anything now."""

    def question(node: int, some: list[TopicPartition]) -> Question[_Answers]:
        return _ends(cluster, node, {tp: epochs[tp] for tp in some})

    leader_nodes = {tp: nodes[tp] for tp in epochs}
    answers = ask_leaders(cluster, leader_nodes, question, _AT_ONCE)
    return {tp: end for ends in answers for tp, end in ends.items()}


def _ends(
    cluster: WireCluster, node: int, epochs: Mapping[TopicPartition, int]
) -> Question[_Answers]:
    entries = {
        tp: _Partition(partition=tp.partition, current_leader_epoch=-1, leader_epoch=epoch)
        for tp, epoch in epochs.items()
    }
    request = OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER, topics=in_topics(_Topic, entries, name="topic")
    )

    def read(answer: Any) -> _Answers:
        answers = dict(entries_of(answer.topics, name="topic", number="partition"))
        cluster.require_answers(epochs, answers)
        ends: _Answers = {}
        for tp in epochs:
            entry = answers[tp]
            if entry.error_code == NONE:
                if entry.end_offset >= 0:
                    # Before 2.0, brokers do not say which epoch it is that ends there.
                    epoch = epoch_of(entry.leader_epoch)
                    if epoch == UNKNOWN_EPOCH:
                        epoch = epochs[tp]
                    if epoch > epochs[tp]:
                        raise ClusterUnreachable(
                            f"{cluster.alias} answered for the leader epoch {epoch} of {tp}, where {epochs[tp]} or an "
                            "older one was asked for."
                        )
                    ends[tp] = EpochEnd(int(epoch), int(entry.end_offset))
            elif is_transient(entry.error_code):
                ends[tp] = None
            else:
                doing = f"Reading where leader epochs of {tp} end on {cluster.alias}"
                raise fault(entry.error_code, doing, Right.topic("READ", tp.topic))
        return ends

    return Question(cluster.connection(node), request, read)
