"""Reads, commits and deletes groups' offsets from outside, many groups in a request where brokers can.

Each request is sent once; callers retry transient errors. Groups and partitions fail one by one: an
error takes the place of their answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest

from kafka_ferry.batched import batched
from kafka_ferry.batches.epochs import epoch_of
from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.model.groups import Committed
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.wire.any_broker import require_offered
from kafka_ferry.wire.by_topic import entries_of, in_topics
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.connections.connection import Connection
from kafka_ferry.wire.error_codes import GROUP_ID_NOT_FOUND
from kafka_ferry.wire.groups.coordinators import (
    GROUPS_AT_ONCE,
    Answers,
    ask_coordinators,
    group_fault,
    pipeline,
)
from kafka_ferry.wire.offset_parts import entries_to_commit, parts_of

Offsets = Mapping[TopicPartition, Committed]
Refused = dict[TopicPartition, FerryError]

# OffsetFetch v8 asks for many groups (KIP-709, Kafka 3.0).
_MANY: Final = 8
# A commit waits for replicas, and since Kafka 4.0 for others to be written with it: 5 ms.
_CONNECTIONS: Final = 16

_FetchGroup = OffsetFetchRequest.OffsetFetchRequestGroup
_CommitTopic = OffsetCommitRequest.OffsetCommitRequestTopic
_CommitPartition = _CommitTopic.OffsetCommitRequestPartition
_DeleteTopic = OffsetDeleteRequest.OffsetDeleteRequestTopic
_DeletePartition = _DeleteTopic.OffsetDeleteRequestPartition


def fetch_offsets(
    cluster: WireCluster, groups: Collection[str]
) -> dict[str, dict[TopicPartition, Committed] | FerryError]:
    """All committed offsets of groups, except those of pending transactions.

    Brokers silently leave out topics that the principal may not DESCRIBE. Needs DESCRIBE
    on each group.
    """

    def ask(
        connections: Sequence[Connection], some: list[str]
    ) -> Answers[dict[TopicPartition, Committed]]:
        for group, answer in _fetch(connections, some):
            if answer.error_code:
                doing = f"{cluster.alias}, reading the offsets of the group {group}"
                yield group, group_fault(answer.error_code, doing, Right.group("DESCRIBE", group))
            else:
                yield group, _parse_offsets(cluster, group, answer)

    return ask_coordinators(cluster, groups, ask)


def commit_offsets(cluster: WireCluster, offsets: Mapping[str, Offsets]) -> dict[str, Refused]:
    """Commit offsets from outside of groups, those of a group in one request unless they are huge.

    Needs READ on each group and on each topic.

    Returns:
        By group an error for each partition that was refused; the others are committed.
    """

    def ask(connections: Sequence[Connection], some: list[str]) -> Answers[Refused]:
        parts = {group: list(parts_of(group, offsets[group])) for group in some}
        requests = (_commit(group, part) for group in some for part in parts[group])
        answers = pipeline(connections, requests)
        for group in some:
            refused: Refused = {}
            for part in parts[group]:
                entries = dict(entries_of(next(answers).topics))
                refused |= refusals(cluster, "committing", group, "READ", part, entries)
            yield group, refused

    return of_partitions(
        ask_coordinators(cluster, offsets, ask, most_connections=_CONNECTIONS), offsets
    )


def delete_offsets(
    cluster: WireCluster, partitions: Mapping[str, Collection[TopicPartition]]
) -> dict[str, Refused]:
    """Delete groups' offsets in partitions of topics that no member has subscribed to.

    Needs DELETE on each group and READ on each topic.

    Returns:
        By group an error for each partition that was refused; the others no longer have an offset.
    """

    def ask(connections: Sequence[Connection], some: list[str]) -> Answers[Refused]:
        require_offered(connections[0], OffsetDeleteRequest, "delete offsets", "2.4")
        requests = (_deletion(group, partitions[group]) for group in some)
        for group, answer in zip(some, pipeline(connections, requests), strict=True):
            if answer.error_code == GROUP_ID_NOT_FOUND:
                yield group, {}
            elif answer.error_code:
                doing = f"{cluster.alias}, deleting offsets of the group {group}"
                yield group, group_fault(answer.error_code, doing, Right.group("DELETE", group))
            else:
                entries, own = dict(entries_of(answer.topics)), partitions[group]
                yield group, refusals(cluster, "deleting", group, "DELETE", own, entries)

    return of_partitions(ask_coordinators(cluster, partitions, ask), partitions)


def refusals(
    cluster: WireCluster,
    doing: str,
    group: str,
    operation: str,
    partitions: Iterable[TopicPartition],
    entries: Mapping[TopicPartition, Any],
) -> Refused:
    """An error for each partition whose entry in an answer has an error code, or that has no entry.

    The request needs a right to ``operation`` on the group, and READ on the topics.
    """
    refused: Refused = {}
    for tp in partitions:
        entry = entries.get(tp)
        if entry is None:
            message = f"{cluster.alias} did not answer for {tp} of the group {group}."
            refused[tp] = ClusterUnreachable(message)
        elif entry.error_code:
            what = f"{cluster.alias}, {doing} the offset of {tp} in the group {group}"
            # Only newer versions return a message of the broker.
            message = getattr(entry, "error_message", None) or ""
            needed = Right.group(operation, group), Right.topic("READ", tp.topic)
            refused[tp] = group_fault(entry.error_code, what, *needed, message=message)
    return refused


def of_partitions(
    answers: Mapping[str, Refused | FerryError], partitions: Mapping[str, Iterable[TopicPartition]]
) -> dict[str, Refused]:
    """The refusals; an error of a group counts for all of its partitions."""
    refused = {}
    for group, answer in answers.items():
        errors = (
            dict.fromkeys(partitions[group], answer) if isinstance(answer, FerryError) else answer
        )
        if errors:
            refused[group] = errors
    return refused


def _fetch(connections: Sequence[Connection], groups: list[str]) -> Iterator[tuple[str, Any]]:
    if connections[0].offers(OffsetFetchRequest, version=_MANY):
        many = (
            OffsetFetchRequest(
                groups=[_FetchGroup(group_id=group, topics=None) for group in some],
                require_stable=False,
            )
            for some in batched(groups, GROUPS_AT_ONCE)
        )
        for answer in pipeline(connections, many):
            yield from ((entry.group_id, entry) for entry in answer.groups)
    else:
        single = (
            OffsetFetchRequest(group_id=group, topics=None, require_stable=False)
            for group in groups
        )
        yield from zip(groups, pipeline(connections, single), strict=True)


def _parse_offsets(
    cluster: WireCluster, group: str, answer: Any
) -> dict[TopicPartition, Committed] | FerryError:
    offsets = {}
    for tp, entry in entries_of(answer.topics):
        if entry.error_code:
            doing = f"{cluster.alias}, reading the offset of {tp} in the group {group}"
            return group_fault(entry.error_code, doing, Right.topic("READ", tp.topic))
        if entry.committed_offset >= 0:
            offsets[tp] = Committed(
                entry.committed_offset, epoch_of(entry.committed_leader_epoch), entry.metadata or ""
            )
    return offsets


def _commit(group: str, offsets: Offsets) -> OffsetCommitRequest:
    # No generation and no member: a request from outside of the group.
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        retention_time_ms=-1,
        topics=in_topics(_CommitTopic, entries_to_commit(_CommitPartition, offsets)),
    )


def _deletion(group: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    entries = {tp: _DeletePartition(partition_index=tp.partition) for tp in partitions}
    return OffsetDeleteRequest(group_id=group, topics=in_topics(_DeleteTopic, entries))
