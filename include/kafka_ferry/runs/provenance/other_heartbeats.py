"""Topics that are named like MirrorMaker's heartbeats, and hold an application's records."""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping
from functools import partial

from kafka_ferry.batches.record_format.content import key_value_of
from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError
from kafka_ferry.groups.mirrormaker2.record_formats import Heartbeat, MalformedRecord
from kafka_ferry.model import Topic, TopicPartition
from kafka_ferry.plan import policy_of
from kafka_ferry.retry import retry
from kafka_ferry.wire import WireCluster, connected
from kafka_ferry.wire.partitions.first_record import first_record
from kafka_ferry.wire.partitions.partition_log import partition_log

log = logging.getLogger(__name__)


def other_heartbeats(
    flow: Flow, topics: Mapping[str, Topic], copied: Container[str] = ()
) -> frozenset[str]:
    """Which of ``topics`` have the name of heartbeats, and are not known to hold any.

    Reads one batch of each, and nothing of those that the flow has copied before.

    Args:
        flow: the flow.
        topics: topics of its source, by name.
        copied: topics that it has copied before.

    Raises:
        ConfigError: as ``policy_of``.
    """
    policy = policy_of(flow)
    named = [
        topic
        for name, topic in topics.items()
        if name not in copied and policy.is_heartbeats_topic(name)
    ]
    if not named:
        return frozenset()
    with connected(flow.source) as cluster:
        return frozenset(topic.name for topic in named if not _beats(cluster, topic))


def _beats(cluster: WireCluster, topic: Topic) -> bool:
    """Whether each of its partitions that has records begins with a heartbeat, and one has."""
    beats = False
    for number in range(topic.partitions):
        try:
            first = retry(partial(_begins_with, cluster, TopicPartition(topic.name, number)))
        except FerryError as error:
            log.warning("%s cannot be read, and is not taken for heartbeats: %s", topic.name, error)
            return False
        if first is False:
            return False
        beats = beats or first is True
    return beats


def _begins_with(cluster: WireCluster, partition: TopicPartition) -> bool | None:
    """Whether a partition's first record is a heartbeat, None where it has no record."""
    record = first_record(cluster, partition, partition_log(cluster, partition).start)
    if record is None:
        return None
    key, value = key_value_of(record[3])
    try:
        Heartbeat.read(key or b"", value or b"")
    except MalformedRecord:
        return False
    return True
