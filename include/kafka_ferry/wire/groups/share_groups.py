"""Share groups' start offsets (KIP-932), which can be read and set since Kafka 4.1.

A share group has no offset that says what it has read: it reads records in any order, and acknowledges
each. What is known is its start offset in a partition: all records before it are done; some of those
after it may have been acknowledged too.

Each request is sent once; callers retry transient errors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from kafka_ferry.batched import batched
from kafka_ferry.batches.epochs import epoch_of
from kafka_ferry.errors import FerryError
from kafka_ferry.model.groups import Committed
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.wire.any_broker import require_offered
from kafka_ferry.wire.by_topic import entries_of, in_topics
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.connections.connection import Connection
from kafka_ferry.wire.groups.coordinators import (
    GROUPS_AT_ONCE,
    Answers,
    ask_coordinators,
    group_fault,
    pipeline,
)
from kafka_ferry.wire.groups.offsets import Offsets, Refused, of_partitions, refusals
from kafka_ferry.wire.messages import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
)

_SINCE: Final = ("read and set the offsets of share groups", "4.1")
_DescribedGroup = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
_AlteredTopic = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
_AlteredPartition = _AlteredTopic.AlterShareGroupOffsetsRequestPartition
_DeletedTopic = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic


def fetch_start_offsets(
    cluster: WireCluster, groups: Collection[str]
) -> dict[str, dict[TopicPartition, Committed] | FerryError]:
    """The start offsets of share groups, in the partitions where they have read.

    Brokers leave out topics that the principal may not DESCRIBE. Needs DESCRIBE on each group.
    """

    def ask(
        connections: Sequence[Connection], some: list[str]
    ) -> Answers[dict[TopicPartition, Committed]]:
        require_offered(connections[0], DescribeShareGroupOffsetsRequest, *_SINCE)
        requests = (
            DescribeShareGroupOffsetsRequest(
                groups=[_DescribedGroup(group_id=group, topics=None) for group in few]
            )
            for few in batched(some, GROUPS_AT_ONCE)
        )
        for answer in pipeline(connections, requests):
            for entry in answer.groups:
                if entry.error_code:
                    doing = f"{cluster.alias}, reading the offsets of the group {entry.group_id}"
                    needed = Right.group("DESCRIBE", entry.group_id)
                    message = entry.error_message
                    error = group_fault(entry.error_code, doing, needed, message=message)
                    yield entry.group_id, error
                else:
                    yield entry.group_id, _starts(cluster, entry)

    return ask_coordinators(cluster, groups, ask)


def alter_start_offsets(cluster: WireCluster, offsets: Mapping[str, Offsets]) -> dict[str, Refused]:
    """Set the start offsets of share groups without members; missing groups are created.

    Needs READ on each group and on each topic.

    Returns:
        By group an error for each partition that was refused.
    """

    def request(group: str) -> Any:
        entries = {
            tp: _AlteredPartition(partition_index=tp.partition, start_offset=committed.offset)
            for tp, committed in offsets[group].items()
        }
        return AlterShareGroupOffsetsRequest(
            group_id=group, topics=in_topics(_AlteredTopic, entries, name="topic_name")
        )

    def refuse(group: str, answer: Any) -> Refused:
        entries = dict(entries_of(answer.responses, name="topic_name"))
        return refusals(cluster, "setting", group, "READ", offsets[group], entries)

    return _change(cluster, "READ", offsets, request, refuse)


def delete_start_offsets(
    cluster: WireCluster, partitions: Mapping[str, Collection[TopicPartition]]
) -> dict[str, Refused]:
    """Delete the offsets of share groups without members in whole topics: all that have a partition here.

    Needs DELETE on each group and READ on each topic.

    Returns:
        By group an error for each partition that was refused.
    """

    def request(group: str) -> Any:
        names = sorted({tp.topic for tp in partitions[group]})
        return DeleteShareGroupOffsetsRequest(
            group_id=group, topics=[_DeletedTopic(topic_name=name) for name in names]
        )

    def refuse(group: str, answer: Any) -> Refused:
        topics = {topic.topic_name: topic for topic in answer.responses}
        entries = {tp: topics[tp.topic] for tp in partitions[group] if tp.topic in topics}
        return refusals(cluster, "deleting", group, "DELETE", partitions[group], entries)

    return _change(cluster, "DELETE", partitions, request, refuse)


def _change(
    cluster: WireCluster,
    operation: str,
    wanted: Mapping[str, Collection[TopicPartition]],
    request: Callable[[str], Any],
    refused: Callable[[str, Any], Refused],
) -> dict[str, Refused]:
    """Send one request per group; each needs a right to ``operation`` on the group."""

    def ask(connections: Sequence[Connection], some: list[str]) -> Answers[Refused]:
        requests = [request(group) for group in some]
        require_offered(connections[0], requests[0], *_SINCE)
        for group, answer in zip(some, pipeline(connections, requests), strict=True):
            if answer.error_code:
                doing = f"{cluster.alias}, changing the start offsets of the group {group}"
                needed, message = Right.group(operation, group), answer.error_message
                yield group, group_fault(answer.error_code, doing, needed, message=message)
            else:
                yield group, refused(group, answer)

    return of_partitions(ask_coordinators(cluster, wanted, ask), wanted)


def _starts(cluster: WireCluster, group: Any) -> dict[TopicPartition, Committed] | FerryError:
    offsets = {}
    for tp, entry in entries_of(group.topics, name="topic_name"):
        if entry.error_code:
            doing = f"{cluster.alias}, reading the offset of {tp} in the group {group.group_id}"
            needed, message = Right.topic("DESCRIBE", tp.topic), entry.error_message
            return group_fault(entry.error_code, doing, needed, message=message)
        if entry.start_offset >= 0:
            offsets[tp] = Committed(entry.start_offset, epoch_of(entry.leader_epoch))
    return offsets
