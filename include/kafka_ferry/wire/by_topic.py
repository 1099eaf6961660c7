"""Kafka's messages list partitions within their topics: from partitions to topics, and back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kafka_ferry.model.ranges import TopicPartition


def in_topics(
    kind: Any,
    entries: Mapping[TopicPartition, Any],
    *,
    name: str = "name",
    partitions: str = "partitions",
) -> list[Any]:
    """The topics of a request, each with its entries in their order.

    Args:
        kind: the class of a topic in the message.
        entries: what the message has of each partition.
        name: the field of ``kind`` with the topic's name.
        partitions: the field of ``kind`` with the entries.
    """
    topics: dict[str, list[Any]] = defaultdict(list)
    for tp, entry in entries.items():
        topics[tp.topic].append(entry)
    return [kind(**{name: topic, partitions: listed}) for topic, listed in topics.items()]


def numbers_of(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The entries of messages that have nothing but the numbers of partitions."""
    return {tp: tp.partition for tp in partitions}


def entries_of(
    topics: Iterable[Any],
    *,
    name: str = "name",
    partitions: str = "partitions",
    number: str = "partition_index",
) -> Iterator[tuple[TopicPartition, Any]]:
    """The entries of an answer, each with its partition.

    Args:
        topics: the answer's topics.
        name: their field with the topic's name.
        partitions: their field with the entries.
        number: the entries' field with the partition's number.
    """
    for topic in topics:
        for entry in getattr(topic, partitions):
            yield TopicPartition(getattr(topic, name), getattr(entry, number)), entry
