"""Small compacted topics with one partition: the newest value of each key.

Without transactions, as MirrorMaker 2 writes its own.
"""

from __future__ import annotations

from typing import Final

from kafka_ferry.config import Cluster
from kafka_ferry.control.cluster import ClusterControl
from kafka_ferry.control.topic_records import TopicRecords
from kafka_ferry.model.plan import Creation

_COMPACTED: Final = {"cleanup.policy": "compact"}


def create_compacted(control: ClusterControl, topic: str, replication_factor: int) -> None:
    """Create the topic if it does not exist.

    Args:
        control: the cluster.
        topic: the topic's name.
        replication_factor: as many replicas, but never more than there are brokers; -1 for the
            brokers' default.

    Raises:
        FerryError: if it does not exist and cannot be created, ``AccessDenied`` without permission.
    """
    if topic not in control.unknown([topic]):
        return
    replicas = min(replication_factor, control.brokers())
    creation = Creation(topic, 1, replicas, _COMPACTED)
    for error in control.create_topics([creation]).values():
        raise error


def newest_values(cluster: Cluster, topic: str) -> dict[bytes, bytes]:
    """The newest value of each key, up to the topic's current end; keys with tombstones have none.

    Raises:
        FerryError: if it cannot be read, ``AccessDenied`` without READ on it.
    """
    newest: dict[bytes, bytes] = {}
    records = TopicRecords(cluster, topic, {0: 0}, isolation="read_uncommitted")
    for message in records:
        key, value = message.key(), message.value()
        if key is not None and value is not None:
            newest[key] = value
        elif key is not None:
            newest.pop(key, None)
    return newest
