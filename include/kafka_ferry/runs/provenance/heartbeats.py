"""What topics hold that are named like MirrorMaker's heartbeats: these, nothing, or an application's records."""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping
from functools import partial

from kafka_ferry.batches import MalformedBatch
from kafka_ferry.batches.record_format.content import key_value_of
from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError
from kafka_ferry.groups.mirrormaker2.record_formats import Heartbeat, MalformedRecord
from kafka_ferry.model import Topic, TopicPartition
from kafka_ferry.model.cluster_state import NO_HEARTBEATS, HeartbeatTopics
from kafka_ferry.plan import policy_of
from kafka_ferry.retry import retry
from kafka_ferry.wire import WireCluster, connect
from kafka_ferry.wire.partitions.first_record import first_record
from kafka_ferry.wire.partitions.partition_log import partition_log

log = logging.getLogger(__name__)


def heartbeat_topics(
    flow: Flow,
    topics: Mapping[str, Topic],
    copied: Container[str] = (),
    *,
    wanted: Container[str] | None = None,
) -> HeartbeatTopics:
    """What those of ``topics`` are that have the name of heartbeats.

    Reads one batch of each, and nothing of those that the flow has copied before. A pattern such as ``.*`` does
    not ask for heartbeats: two flows that copy each other's would never end, nor would the topics' names.

    Args:
        flow: the flow.
        topics: topics of its source, by name.
        copied: topics that it has copied before, and goes on copying.
        wanted: the names by which heartbeats are asked for; by default those in ``topics``, and all with
            ``heartbeats.replication.enabled``.

    Raises:
        ConfigError: as ``policy_of``.
    """
    policy = policy_of(flow)
    candidates = [
        topic
        for name, topic in topics.items()
        if name not in copied and policy.is_heartbeats_topic(name)
    ]
    if not candidates:
        return NO_HEARTBEATS
    with connect(flow.source) as cluster:
        beats = {topic.name: _beats(cluster, topic) for topic in candidates}
    if wanted is None:
        wanted = beats if flow.heartbeats_replication_enabled else flow.topics
    return HeartbeatTopics(
        others=frozenset(name for name, beat in beats.items() if not beat),
        unasked=frozenset(
            name for name, beat in beats.items() if beat is not False and name not in wanted
        ),
    )


def _beats(cluster: WireCluster, topic: Topic) -> bool | None:
    """Whether each of its partitions that has records begins with a heartbeat; None where none has records."""
    beats: bool | None = None
    for number in range(topic.partitions):
        try:
            first = retry(partial(_begins_with, cluster, TopicPartition(topic.name, number)))
        except FerryError as error:
            log.warning("%s cannot be read, and is not taken for heartbeats: %s", topic.name, error)
            return False
        if first is False:
            return False
        beats = beats or first
    return beats


def _begins_with(cluster: WireCluster, partition: TopicPartition) -> bool | None:
    """Whether a partition's first record is a heartbeat, None where it has no record."""
    record = first_record(cluster, partition, partition_log(cluster, partition).start)
    if record is None:
        return None
    try:
        key, value = key_value_of(record[3])
        Heartbeat.read(key or b"", value or b"")
    except (MalformedRecord, MalformedBatch):
        return False
    return True
