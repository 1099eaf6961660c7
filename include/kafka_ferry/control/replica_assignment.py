"""Replicas and racks as brokers describe them, and the requests that say where replicas go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka.admin import NewPartitions, NewTopic

from kafka_ferry.model.cluster_state import Topic
from kafka_ferry.model.plan import Creation, Growth


def to_create(creation: Creation) -> NewTopic:
    """The request that creates a topic: on the brokers that the plan has chosen, or else that they choose."""
    if creation.assignment:
        return NewTopic(
            creation.remote_topic,
            num_partitions=creation.partitions,
            replica_assignment=[list(replicas) for replicas in creation.assignment],
            config=dict(creation.configs),
        )
    return NewTopic(
        creation.remote_topic,
        num_partitions=creation.partitions,
        replication_factor=creation.replication_factor,
        config=dict(creation.configs),
    )


def to_grow(growths: Iterable[Growth], topics: Mapping[str, Topic]) -> list[NewPartitions]:
    """The requests that add the partitions that topics still lack, with brokers as of ``to_create``.

    Brokers refuse to add none, which is what is left where the step is repeated.
    """
    wanted = []
    for growth in growths:
        topic = topics.get(growth.remote_topic)
        lacks = growth.partitions - (topic.partitions if topic else 0)
        if lacks > 0:
            rows = [list(replicas) for replicas in growth.assignment[-lacks:]]
            chosen = {"replica_assignment": rows} if rows else {}
            wanted.append(NewPartitions(growth.remote_topic, growth.partitions, **chosen))
    return wanted


def replicas_of(partitions: Iterable[Any]) -> tuple[tuple[int, ...], ...]:
    """``Topic.replicas``, from confluent-kafka's description of a topic's partitions."""
    in_order = sorted(partitions, key=lambda partition: partition.id)
    return tuple(tuple(node.id for node in partition.replicas) for partition in in_order)


def racks_of(nodes: Iterable[Any]) -> dict[int, str]:
    """The rack of each broker, "" for none, from confluent-kafka's description of a cluster."""
    return {node.id: node.rack or "" for node in nodes}
