"""Kafka's messages list partitions within their topics: from partitions to topics, and back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from kafka_ferry.model.ranges import TopicPartition

_T = TypeVar("_T")


def by_topic(entries: Mapping[TopicPartition, _T]) -> dict[str, list[_T]]:
    """The entries of each topic, in their order."""
    topics: dict[str, list[_T]] = defaultdict(list)
    for tp, entry in entries.items():
        topics[tp.topic].append(entry)
    return topics


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of each topic's partitions, in their order."""
    return by_topic({tp: tp.partition for tp in partitions})


def entries_of(topics: Iterable[Any]) -> Iterator[tuple[TopicPartition, Any]]:
    """The entries of an answer whose topics have ``name`` and ``partitions``, which have ``partition_index``."""
    for topic in topics:
        for entry in topic.partitions:
            yield TopicPartition(topic.name, entry.partition_index), entry
