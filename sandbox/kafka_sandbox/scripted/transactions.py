"""What the coordinators of a scripted cluster say of groups and transactions, and what they remember."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from kafka.protocol.admin import ListGroupsResponse
from kafka.protocol.admin.transactions import DescribeTransactionsResponse
from kafka.protocol.consumer import OffsetFetchResponse
from kafka.protocol.producer import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
    TxnOffsetCommitResponse,
)

from kafka_sandbox.scripted.content import ReceivedRequest, ScriptedContent, ScriptedPartition

_TRANSACTIONAL_ID_NOT_FOUND: Final = 105
# The first version that asks for several groups.
_MANY: Final = 8


def groups(content: ScriptedContent, request: ReceivedRequest) -> Any:
    """Lists the groups that this broker coordinates."""
    own = [name for name in content.committed if content.coordinator(name)[0] == request.node]
    listed = ListGroupsResponse.ListedGroup
    return ListGroupsResponse(
        groups=[
            listed(group_id=name, protocol_type="", group_state="Empty", group_type="classic")
            for name in own
        ]
    )


def committed(content: ScriptedContent, request: ReceivedRequest) -> Any:
    """Gives the committed offsets of groups."""
    if request.version < _MANY:
        of_topic: Any = OffsetFetchResponse.OffsetFetchResponseTopic
        entry: Any = of_topic.OffsetFetchResponsePartition
        found = _committed(content, request.message.group_id, request.message.topics, entry)
        return OffsetFetchResponse(
            topics=[of_topic(name=name, partitions=some) for name, some in found]
        )
    group = OffsetFetchResponse.OffsetFetchResponseGroup
    of_topic = group.OffsetFetchResponseTopics
    entry = of_topic.OffsetFetchResponsePartitions
    groups = []
    for asked in request.message.groups:
        found = _committed(content, asked.group_id, asked.topics, entry)
        topics = [of_topic(name=name, partitions=some) for name, some in found]
        groups.append(group(group_id=asked.group_id, topics=topics))
    return OffsetFetchResponse(groups=groups)


def _grouped(places: Iterable[tuple[ScriptedPartition, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Entries by topic, in their order."""
    for topic, entries in groupby(places, key=lambda it: it[0].topic):
        yield topic, [entry for _, entry in entries]


def _committed(
    content: ScriptedContent, group: str, topics: Any, entry: Any
) -> list[tuple[str, list[Any]]]:
    known = content.committed.get(group, {})
    asked = sorted(known)
    if topics is not None:
        asked = [
            ScriptedPartition(it.name, number) for it in topics for number in it.partition_indexes
        ]
    found = []
    for place in asked:
        offset, epoch, metadata = known.get(place, (-1, -1, ""))
        answer = entry(
            partition_index=place.partition,
            committed_offset=offset,
            committed_leader_epoch=epoch,
            metadata=metadata,
        )
        found.append((place, answer))
    return list(_grouped(found))


def producer(content: ScriptedContent, request: ReceivedRequest) -> Any:
    """Gives a producer its id, and begins an epoch."""
    name = request.message.transactional_id or ""
    number, epoch = content.producers.get(name, (len(content.producers) + 1, -1))
    content.producers[name] = number, epoch + 1
    content.transactions.pop(name, None)
    return InitProducerIdResponse(producer_id=number, producer_epoch=epoch + 1)


def add_partitions(content: ScriptedContent, request: ReceivedRequest) -> Any:
    """Adds partitions to a transaction."""
    result = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    in_transaction = content.transactions.setdefault(
        request.message.v3_and_below_transactional_id, set()
    )
    topics = []
    for topic in request.message.v3_and_below_topics:
        in_transaction |= {ScriptedPartition(topic.name, number) for number in topic.partitions}
        entries = [
            result.AddPartitionsToTxnPartitionResult(partition_index=number)
            for number in topic.partitions
        ]
        topics.append(result(name=topic.name, results_by_partition=entries))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def add_group(_content: ScriptedContent, _request: ReceivedRequest) -> Any:
    """Adds a group to a transaction."""
    return AddOffsetsToTxnResponse()


def commit(content: ScriptedContent, request: ReceivedRequest) -> Any:
    """Commits offsets, without waiting for the transaction to end."""
    of_topic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
    topics, offsets = [], {}
    for topic in request.message.topics:
        entries = []
        for asked in topic.partitions:
            number = asked.partition_index
            offsets[ScriptedPartition(topic.name, number)] = (
                asked.committed_offset,
                asked.committed_leader_epoch,
                asked.committed_metadata or "",
            )
            entries.append(of_topic.TxnOffsetCommitResponsePartition(partition_index=number))
        topics.append(of_topic(name=topic.name, partitions=entries))
    content.commit(request.message.group_id, offsets)
    return TxnOffsetCommitResponse(topics=topics)


def end(content: ScriptedContent, request: ReceivedRequest) -> Any:
    """Ends a transaction."""
    content.end_transaction(request.message.transactional_id)
    return EndTxnResponse()


def transactions(content: ScriptedContent, request: ReceivedRequest) -> Any:
    """Says that every known transaction is complete."""
    state = DescribeTransactionsResponse.TransactionState
    states = []
    for name in request.message.transactional_ids:
        number, epoch = content.producers.get(name, (-1, -1))
        states.append(
            state(
                error_code=0 if number >= 0 else _TRANSACTIONAL_ID_NOT_FOUND,
                transactional_id=name,
                transaction_state="CompleteCommit",
                transaction_timeout_ms=60_000,
                transaction_start_time_ms=-1,
                producer_id=number,
                producer_epoch=epoch,
                topics=[],
            )
        )
    return DescribeTransactionsResponse(transaction_states=states)
