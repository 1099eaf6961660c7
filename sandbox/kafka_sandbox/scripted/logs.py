"""What the leaders of a scripted cluster say of their logs, and what they take."""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.admin import DescribeLogDirsResponse
from kafka.protocol.admin.transactions import DescribeProducersResponse
from kafka.protocol.consumer import (
    FetchResponse,
    ListOffsetsResponse,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.producer import ProduceResponse

from kafka_sandbox.scripted.content import (
    EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
    ReceivedRequest,
    ScriptedContent,
    ScriptedPartition,
)

_NOT_LEADER: Final = 6
_LATEST: Final = -1
# The last version with topic names.
_BY_NAME: Final = 12


def offsets(content: ScriptedContent, request: ReceivedRequest) -> Any:
    """Says where logs start and end, and what they had at a time."""
    of_topic = ListOffsetsResponse.ListOffsetsTopicResponse
    return ListOffsetsResponse(
        topics=[
            of_topic(
                name=topic.name,
                partitions=[
                    _offset(
                        content,
                        ScriptedPartition(topic.name, entry.partition_index),
                        entry,
                        request.node,
                    )
                    for entry in topic.partitions
                ],
            )
            for topic in request.message.topics
        ]
    )


def _offset(content: ScriptedContent, place: ScriptedPartition, asked: Any, node: int) -> Any:
    entry = ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse
    if error := _error(content, place, node):
        return entry(partition_index=place.partition, error_code=error)
    end, topic = content.end(place), content.topics[place.topic]
    offset, at = (end, -1) if asked.timestamp == _LATEST else (0, -1)
    if asked.timestamp >= 0:
        is_found = end > 0 and asked.timestamp <= topic.first_ms
        offset, at = (0, topic.first_ms) if is_found else (-1, -1)
    return entry(partition_index=place.partition, offset=offset, timestamp=at, leader_epoch=EPOCH)


def _error(content: ScriptedContent, place: ScriptedPartition, node: int) -> int:
    if not content.knows(place):
        return UNKNOWN_TOPIC_OR_PARTITION
    return 0 if content.replicas(place)[0] == node else _NOT_LEADER


def epochs(content: ScriptedContent, request: ReceivedRequest) -> Any:
    """Says where leader epochs end."""
    of_topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
    topics = []
    for topic in request.message.topics:
        entries = []
        for asked in topic.partitions:
            place = ScriptedPartition(topic.topic, asked.partition)
            error = _error(content, place, request.node)
            entries.append(
                of_topic.EpochEndOffset(
                    error_code=error,
                    partition=place.partition,
                    leader_epoch=EPOCH,
                    end_offset=-1 if error else content.end(place),
                )
            )
        topics.append(of_topic(topic=topic.topic, partitions=entries))
    return OffsetForLeaderEpochResponse(topics=topics)


def sizes(content: ScriptedContent, request: ReceivedRequest) -> Any:
    """Says how large logs are."""
    result = DescribeLogDirsResponse.DescribeLogDirsResult
    topics = []
    for topic in request.message.topics:
        known = content.topics[topic.topic]
        size = known.batches * len(known.batch)
        entries = [
            result.DescribeLogDirsTopic.DescribeLogDirsPartition(
                partition_index=number, partition_size=size
            )
            for number in topic.partitions
        ]
        topics.append(result.DescribeLogDirsTopic(name=topic.topic, partitions=entries))
    return DescribeLogDirsResponse(results=[result(log_dir="/kafka", topics=topics)])


def fetch(content: ScriptedContent, request: ReceivedRequest) -> Any:
    """Gives batches."""
    of_topic = FetchResponse.FetchableTopicResponse
    left, topics = request.message.max_bytes, []
    for topic in request.message.topics:
        name = topic.topic if request.version <= _BY_NAME else content.name_of(topic.topic_id)
        entries = []
        for asked in topic.partitions:
            place = ScriptedPartition(name, asked.partition)
            error, records = _error(content, place, request.node), b""
            if not error and left > 0:
                most = min(left, asked.partition_max_bytes)
                records = content.fetch(place, asked.fetch_offset, most)
                left -= len(records)
            end = -1 if error else content.end(place)
            entries.append(
                of_topic.PartitionData(
                    partition_index=place.partition,
                    error_code=error,
                    high_watermark=end,
                    last_stable_offset=end,
                    log_start_offset=0,
                    aborted_transactions=[],
                    preferred_read_replica=-1,
                    records=records,
                )
            )
        topics.append(of_topic(topic=name, topic_id=topic.topic_id, partitions=entries))
    return FetchResponse(responses=topics)


def produce(content: ScriptedContent, request: ReceivedRequest) -> Any:
    """Takes batches."""
    of_topic = ProduceResponse.TopicProduceResponse
    topics = []
    for topic in request.message.topic_data:
        entries = []
        for asked in topic.partition_data:
            place = ScriptedPartition(topic.name, asked.index)
            error = _error(content, place, request.node)
            base = -1 if error else content.append(place, bytes(asked.records))
            entries.append(
                of_topic.PartitionProduceResponse(
                    index=place.partition,
                    error_code=error,
                    base_offset=base,
                    log_append_time_ms=-1,
                    log_start_offset=0,
                    record_errors=[],
                )
            )
        topics.append(of_topic(name=topic.name, partition_responses=entries))
    return ProduceResponse(responses=topics)


def producers(content: ScriptedContent, request: ReceivedRequest) -> Any:
    """Says that no transaction is open on any partition."""
    of_topic = DescribeProducersResponse.TopicResponse
    return DescribeProducersResponse(
        topics=[
            of_topic(
                name=topic.name,
                partitions=[
                    of_topic.PartitionResponse(
                        partition_index=number,
                        error_code=_error(
                            content, ScriptedPartition(topic.name, number), request.node
                        ),
                        active_producers=[],
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.message.topics
        ]
    )
