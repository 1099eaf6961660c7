"""What every broker of a scripted cluster can say: who is there, who leads what, and topics' configs."""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsResponse
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse

from kafka_sandbox.scripted.content import (
    EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
    ReceivedRequest,
    ScriptedContent,
    ScriptedPartition,
)

_DEFAULT_CONFIG: Final = 5
_STRING: Final = 2
# The first version that asks for several coordinators.
_MANY: Final = 4
CONFIGS: Final = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
"""The configs of every topic: the defaults of Kafka 4."""


def metadata(content: ScriptedContent, request: ReceivedRequest) -> Any:
    """Says where the brokers are, and who leads which partition."""
    names = list(content.topics) if request.message.topics is None else _named(content, request)
    if not names and request.version == 0:
        names = list(content.topics)
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(node_id=of, host=at.host, port=at.port)
            for of, at in content.addresses.items()
        ],
        cluster_id=content.cluster_id,
        controller_id=1,
        topics=[_described(content, name) for name in names],
    )


def _named(content: ScriptedContent, request: Any) -> list[str]:
    return [topic.name or content.name_of(topic.topic_id) for topic in request.message.topics]


def _described(content: ScriptedContent, name: str) -> Any:
    entry = MetadataResponse.MetadataResponseTopic
    topic = content.topics.get(name)
    if topic is None:
        return entry(error_code=UNKNOWN_TOPIC_OR_PARTITION, name=name, partitions=[])
    partitions = []
    for number in range(topic.partitions):
        replicas = content.replicas(ScriptedPartition(name, number))
        partitions.append(
            entry.MetadataResponsePartition(
                partition_index=number,
                leader_id=replicas[0],
                leader_epoch=EPOCH,
                replica_nodes=replicas,
                isr_nodes=replicas,
                offline_replicas=[],
            )
        )
    return entry(name=name, topic_id=topic.topic_id, partitions=partitions)


def coordinator(content: ScriptedContent, request: ReceivedRequest) -> Any:
    """Says which broker coordinates a group or a transactional id."""
    if request.version < _MANY:
        of, at = content.coordinator(request.message.key)
        return FindCoordinatorResponse(node_id=of, host=at.host, port=at.port)
    coordinators = []
    for key in request.message.coordinator_keys:
        of, at = content.coordinator(key)
        coordinators.append(
            FindCoordinatorResponse.Coordinator(key=key, node_id=of, host=at.host, port=at.port)
        )
    return FindCoordinatorResponse(coordinators=coordinators)


def configs(_content: ScriptedContent, request: ReceivedRequest) -> Any:
    """Describes topics, which all have the defaults."""
    result = DescribeConfigsResponse.DescribeConfigsResult
    entries = [
        result.DescribeConfigsResourceResult(
            name=name,
            value=value,
            config_source=_DEFAULT_CONFIG,
            is_default=True,
            synonyms=[],
            config_type=_STRING,
        )
        for name, value in CONFIGS.items()
    ]
    return DescribeConfigsResponse(
        results=[
            result(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=entries,
            )
            for resource in request.message.resources
        ]
    )
