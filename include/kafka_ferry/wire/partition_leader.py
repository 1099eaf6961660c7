"""A partition's leader and topic id, as a broker's metadata has them."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from kafka_ferry.batches.epochs import epoch_of
from kafka_ferry.model.ranges import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionLeader:
    """A partition's leader: a broker's node id, or -1 while there is none.

    Attributes:
        node: node id.
        topic_id: the id of the topic that this partition belongs to, as Kafka's tools print it.
        error: Kafka's error code for the topic or partition, 0 for none.
        replicas: how many replicas it has.
        in_sync: how many of them are in sync.
        epoch: the leader epoch, -1 where it is not known.
        offline: the brokers that are down, or whose disk with a replica of it has failed.
        cluster_id: the cluster that says so; "" where it does not name itself.
    """

    node: int
    topic_id: str
    error: int
    replicas: int = 0
    in_sync: int = 0
    epoch: int = -1
    offline: tuple[int, ...] = ()
    cluster_id: str = ""


def topics_request(topics: Iterable[str]) -> Any:
    """A question about topics, by name; it creates none."""
    entries = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=entries, allow_auto_topic_creation=False)


def leaders_in(metadata: Any) -> dict[TopicPartition, PartitionLeader]:
    """The leader of each partition in an answer to a metadata request."""
    leaders = {}
    for topic in metadata.topics:
        topic_id = topic_id_text(topic.topic_id)
        for entry in topic.partitions:
            error = entry.error_code if entry.leader_id < 0 else 0
            leaders[TopicPartition(topic.name, entry.partition_index)] = PartitionLeader(
                entry.leader_id,
                topic_id,
                error,
                len(entry.replica_nodes),
                len(entry.isr_nodes),
                epoch_of(entry.leader_epoch),
                tuple(entry.offline_replicas or ()),
                metadata.cluster_id or "",
            )
    return leaders


def topic_id_text(topic_id: Any) -> str:
    """A topic id in URL-safe base64 without padding (``org.apache.kafka.common.Uuid.toString``)."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=") if topic_id else ""


def as_uuid(topic_id: str) -> uuid.UUID | None:
    """The id of which ``topic_id_text`` is the text, None for ""."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(topic_id + "==")) if topic_id else None
