"""The offsets that a group has committed, and those that a transaction still holds back (KIP-447)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kafka.protocol.consumer import OffsetFetchRequest

from kafka_ferry.batches.epochs import epoch_of
from kafka_ferry.model.groups import Committed
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.retry import retry
from kafka_ferry.wire.by_topic import entries_of, in_topics, numbers_of
from kafka_ferry.wire.cluster import GROUP, WireCluster
from kafka_ferry.wire.connections.questions import Question
from kafka_ferry.wire.error_codes import UNSTABLE_OFFSET_COMMIT, fault

_FetchTopic = OffsetFetchRequest.OffsetFetchRequestTopic


class GroupOffsets(NamedTuple):
    """What a group's coordinator says of partitions.

    Attributes:
        node: the coordinator's node id.
        offsets: an entry for each partition that has an offset.
        errors: Kafka's error code for each partition of which it says none.
    """

    node: int
    offsets: Mapping[TopicPartition, Committed]
    errors: Mapping[TopicPartition, int]

    @property
    def is_pending(self) -> bool:
        """Whether a transaction has offsets of the partitions that has not ended yet."""
        return UNSTABLE_OFFSET_COMMIT in self.errors.values()

    def require_all(self, cluster: str, group: str) -> None:
        """Check that it says something of each partition.

        Raises:
            AccessDenied: without DESCRIBE on a topic.
            BrokerError: transient while one is pending.
        """
        for tp, code in self.errors.items():
            doing = f"Reading the offset of {tp} in the group {group} on {cluster}"
            raise fault(code, doing, Right.topic("READ", tp.topic))


def committed_offsets(
    cluster: WireCluster,
    group: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    stable: bool = True,
) -> dict[TopicPartition, Committed]:
    """The offsets that ``group`` has committed.

    Args:
        cluster: the cluster that the group is on.
        group: the group.
        partitions: the partitions to ask for, None for all that the group has offsets of.
        stable: whether to wait until none of them is pending (KIP-447, ``require_stable``).

    Returns:
        An entry for each partition that has an offset; the others are absent.

    Raises:
        AccessDenied: without READ on the group.
        BrokerError: if transactions stay pending for a minute.
    """
    wanted = None if partitions is None else list(partitions)

    def ask() -> dict[TopicPartition, Committed]:
        with cluster.forget_on_error():
            answer = group_offsets_question(cluster, group, wanted, stable=stable).ask()
            answer.require_all(cluster.alias, group)
        return {**answer.offsets}

    return retry(ask)


def has_pending_offsets(
    cluster: WireCluster, group: str, partitions: Iterable[TopicPartition]
) -> bool:
    """Whether a transaction has offsets of ``partitions`` in ``group`` that has not ended yet.

    Raises:
        AccessDenied: without READ on the group.
    """
    wanted = list(partitions)

    def ask() -> bool:
        with cluster.forget_on_error():
            return group_offsets_question(cluster, group, wanted).ask().is_pending

    return bool(wanted) and retry(ask)


def group_offsets_question(
    cluster: WireCluster,
    group: str,
    partitions: list[TopicPartition] | None,
    *,
    stable: bool = True,
) -> Question[GroupOffsets]:
    """A question to a coordinator: what ``group`` has committed; args as of ``committed_offsets``."""
    node = cluster.coordinator_node(group, GROUP)
    topics = None
    if partitions is not None:
        topics = in_topics(_FetchTopic, numbers_of(partitions), partitions="partition_indexes")

    def read(answer: Any) -> GroupOffsets:
        if answer.error_code:
            doing = f"Reading the offsets of the group {group} on {cluster.alias}"
            raise fault(answer.error_code, doing, Right.group("READ", group))
        offsets, errors = {}, {}
        answered = set()
        for tp, entry in entries_of(answer.topics):
            answered.add(tp)
            if entry.error_code:
                errors[tp] = entry.error_code
            elif entry.committed_offset >= 0:
                offsets[tp] = Committed(
                    entry.committed_offset,
                    epoch_of(entry.committed_leader_epoch),
                    entry.metadata or "",
                )
        # For a partition without an offset the answer has -1.
        cluster.require_answers(answered if partitions is None else partitions, answered)
        return GroupOffsets(node, offsets, errors)

    request = OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)
    return Question(cluster.connection(node), request, read, newest=7)
