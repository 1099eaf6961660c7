from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.model import Range, TopicPartition, writer_of


def a_range(start: int = 10, end: int = 15) -> Range:
    return Range("orders", 3, start, end, "source-id", "primary.orders", 7)


def test_a_range_holds_its_start_and_does_not_hold_its_end() -> None:
    assert len(a_range(10, 15)) == 5
    assert len(a_range(10, 10)) == 0


def test_a_range_names_both_partitions() -> None:
    assert a_range().source == TopicPartition("orders", 3)
    assert a_range().target == TopicPartition("primary.orders", 3)


def test_ranges_and_partitions_read_well() -> None:
    assert str(a_range()) == "orders-3 [10, 15)"
    assert str(TopicPartition("a-1", 0)) == "a-1-0"


@pytest.mark.parametrize(
    ("topic", "partition", "writers", "writer"),
    [
        ("orders", 0, 32, 27),
        ("orders", 3, 32, 27),
        ("orders", 4, 32, 28),
        ("primary.orders", 0, 32, 10),
        ("primary.orders", 31, 32, 17),
        ("primary.payments", 7, 5, 4),
        ("täglich", 3, 7, 6),
        ("orders", 0, 1, 0),
    ],
)
def test_a_partition_belongs_to_the_same_writer_for_ever(
    topic: str, partition: int, writers: int, writer: int
) -> None:
    """Fixed values: another hash in a later release would leave old writers unfenced."""
    assert writer_of(TopicPartition(topic, partition), writers) == writer


@given(topic=st.text(max_size=30), partition=st.integers(0, 10_000), writers=st.integers(1, 1_000))
def test_there_is_such_a_writer(topic: str, partition: int, writers: int) -> None:
    assert 0 <= writer_of(TopicPartition(topic, partition), writers) < writers


@pytest.mark.parametrize("writers", [1, 7, 32])
def test_the_partitions_of_a_topic_spread_evenly(writers: int) -> None:
    busy = Counter(writer_of(TopicPartition("orders", n), writers) for n in range(4 * writers))
    assert set(busy.values()) == {4}
    assert len(busy) == writers


def test_topics_of_one_partition_spread_too() -> None:
    busy = Counter(writer_of(TopicPartition(f"topic-{n}", 0), 32) for n in range(3200))
    assert len(busy) == 32
    assert max(busy.values()) < 2 * min(busy.values())


def test_an_empty_range_is_a_range_all_the_same() -> None:
    assert bool(a_range(10, 10)) is True
