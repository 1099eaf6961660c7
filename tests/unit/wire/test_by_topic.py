from __future__ import annotations

from types import SimpleNamespace

from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.by_topic import entries_of, in_topics, numbers_of

A0, A2, B1 = TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)


def test_entries_lie_within_their_topics_in_the_order_in_which_they_are_given() -> None:
    assert in_topics(dict, {A2: "x", B1: "y", A0: "z"}) == [
        {"name": "a", "partitions": ["x", "z"]},
        {"name": "b", "partitions": ["y"]},
    ]
    assert in_topics(dict, numbers_of([A2, B1]), name="topic", partitions="numbers") == [
        {"topic": "a", "numbers": [2]},
        {"topic": "b", "numbers": [1]},
    ]
    assert in_topics(dict, {}) == []


def test_an_answers_entries_are_those_of_their_partitions() -> None:
    topics = [
        SimpleNamespace(
            name=name, partitions=[SimpleNamespace(partition_index=number) for number in numbers]
        )
        for name, numbers in (("a", (0, 2)), ("b", (1,)))
    ]
    assert [tp for tp, _ in entries_of(topics)] == [A0, A2, B1]
    assert dict(entries_of(topics))[B1] is topics[1].partitions[0]
