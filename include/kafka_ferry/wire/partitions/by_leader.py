"""Asks the leaders of partitions, all of them at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TypeVar

from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.connections.questions import Question, ask_together

_T = TypeVar("_T")


def by_node(nodes: Mapping[TopicPartition, int]) -> dict[int, list[TopicPartition]]:
    """The partitions of each broker, given the broker of each partition."""
    partitions: dict[int, list[TopicPartition]] = defaultdict(list)
    for tp, node in nodes.items():
        partitions[node].append(tp)
    return partitions


def ask_leaders(
    cluster: WireCluster,
    nodes: Mapping[TopicPartition, int],
    question: Callable[[int, list[TopicPartition]], Question[_T]],
    at_once: int,
) -> list[_T]:
    """The answers of the brokers that lead partitions.

    Args:
        cluster: the cluster to ask.
        nodes: the broker that leads each partition.
        question: asks a broker about some of its partitions.
        at_once: about so many partitions at most.

    Raises:
        FerryError: the first error of an answer.
    """
    partitions = by_node(nodes)
    cluster.open(partitions)
    questions = {
        (node, first): question(node, some[first : first + at_once])
        for node, some in partitions.items()
        for first in range(0, len(some), at_once)
    }
    return list(ask_together(questions).values())
