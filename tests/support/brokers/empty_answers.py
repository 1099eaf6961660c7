"""Brokers that answer fetches without records and without an error, as tiered storage does when it is slow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any
from unittest import mock

from kafka_ferry.model import TopicPartition
from kafka_ferry.wire import Fetched, PendingFetch


@contextmanager
def empty_answers(topic: str, is_empty: Callable[[int], bool] = lambda _: True) -> Iterator[None]:
    """Take the records out of answers about a topic, in this process.

    Args:
        topic: the topic.
        is_empty: whether the answer of this number about it has none, counted from 0.
    """
    fetched, numbers = PendingFetch._parse_partition, count()

    def emptied(pending: PendingFetch, partition: TopicPartition, data: Any) -> Fetched:
        answer = fetched(pending, partition, data)
        if partition.topic == topic and answer.error == 0 and is_empty(next(numbers)):
            return replace(answer, records=b"", aborted=())
        return answer

    with mock.patch.object(PendingFetch, "_parse_partition", emptied):
        yield


@contextmanager
def failing_answers(topic: str, code: int, times: int) -> Iterator[None]:
    """Answer the first so many fetches of a topic with an error, in this process."""
    fetched, numbers = PendingFetch._parse_partition, count()

    def failed(pending: PendingFetch, partition: TopicPartition, data: Any) -> Fetched:
        answer = fetched(pending, partition, data)
        if partition.topic == topic and next(numbers) < times:
            return replace(answer, records=b"", aborted=(), error=code, end=-1)
        return answer

    with mock.patch.object(PendingFetch, "_parse_partition", failed):
        yield
