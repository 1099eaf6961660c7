"""Replicas and racks as brokers describe them, and the requests that say where replicas go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka.admin import NewPartitions, NewTopic

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


def to_grow(growth: Growth) -> NewPartitions:
    """The request that adds partitions to a topic, with brokers as of ``to_create``."""
    if growth.assignment:
        assignment = [list(replicas) for replicas in growth.assignment]
        return NewPartitions(growth.remote_topic, growth.partitions, replica_assignment=assignment)
    return NewPartitions(growth.remote_topic, growth.partitions)


def replicas_of(partitions: Iterable[Any]) -> tuple[tuple[int, ...], ...]:
    """``Topic.replicas``, from confluent-kafka's description of a topic's partitions."""
    in_order = sorted(partitions, key=lambda partition: partition.id)
    return tuple(tuple(node.id for node in partition.replicas) for partition in in_order)


def racks_of(nodes: Iterable[Any]) -> dict[int, str]:
    """The rack of each broker, "" for none, from confluent-kafka's description of a cluster."""
    return {node.id: node.rack or "" for node in nodes}
