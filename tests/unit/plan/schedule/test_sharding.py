from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.model import Estimate, Range, TopicPartition, writer_of
from kafka_ferry.plan.schedule.sharding import (
    Writers,
    divide,
    load_of,
    loads_of,
    shards_of,
    shares,
    writers_of,
)
from tests.unit.plan.builders import a_flow, a_remote, a_source, a_state, planned


def a_range(writers: Writers, topic: str, partition: int = 0, size: int = 9) -> Range:
    target = TopicPartition(f"primary.{topic}", partition)
    return Range(topic, partition, 0, size, "id", target.topic, writers.of(target))


def sized(ranges: list[Range], *sizes: int | None) -> list[Estimate]:
    return [
        Estimate(range_.topic, range_.partition, 9, size)
        for range_, size in zip(ranges, sizes, strict=True)
    ]


# Which writer a partition belongs to


@given(topic=st.text(min_size=1), partition=st.integers(0, 10_000), writers=st.integers(1, 100))
def test_without_groups_a_partition_belongs_to_the_writer_that_it_always_had(
    topic: str, partition: int, writers: int
) -> None:
    target = TopicPartition(topic, partition)
    assert Writers(writers).of(target) == writer_of(target, writers)


@given(
    topic=st.text(min_size=1),
    partitions=st.integers(1, 300),
    groups=st.integers(2, 40),
    more=st.integers(0, 40),
)
def test_all_partitions_of_a_topic_have_writers_of_one_group(
    topic: str, partitions: int, groups: int, more: int
) -> None:
    writers = Writers(groups + more, groups)
    found = {writers.of(TopicPartition(topic, number)) for number in range(partitions)}
    assert len({writers.group_of(writer) for writer in found}) == 1
    assert found <= set(range(writers.count))


@pytest.mark.parametrize(("count", "groups"), [(32, 3), (7, 7), (10, 4), (1000, 1)])
def test_each_writer_is_in_one_group_and_no_group_is_empty(count: int, groups: int) -> None:
    writers = Writers(count, groups)
    sizes = Counter(map(writers.group_of, range(count)))
    assert sizes.keys() == set(range(groups))
    assert max(sizes.values()) - min(sizes.values()) <= 1


def test_a_large_topic_keeps_all_writers_of_its_group_busy() -> None:
    writers = Writers(32, 4)
    busy = Counter(writers.of(TopicPartition("orders", number)) for number in range(320))
    assert len(busy) == 8
    assert set(busy.values()) == {40}


@pytest.mark.parametrize(
    ("options", "writers", "assignment"),
    [
        ({}, Writers(32), ""),
        ({"shards": 4}, Writers(32), ""),
        ({"shard_by": "topic"}, Writers(32), ""),
        ({"shards": 4, "shard_by": "topic"}, Writers(32, 4), "topic/4"),
        ({"shards": 9, "shard_by": "topic", "writers": 5}, Writers(5, 5), "topic/5"),
    ],
)
def test_only_shards_by_topic_give_partitions_to_other_writers(
    options: dict[str, object], writers: Writers, assignment: str
) -> None:
    found = writers_of(a_flow(**options))
    assert (found, found.assignment) == (writers, assignment)


# What a shard is made of


@given(sizes=st.lists(st.integers(0, 1000), min_size=1, max_size=60), shards=st.integers(2, 9))
def test_no_two_shards_share_a_writer_and_each_one_with_work_is_in_a_shard(
    sizes: list[int], shards: int
) -> None:
    flow = a_flow(shards=shards)
    ranges = [a_range(writers_of(flow), f"topic-{at}") for at in range(len(sizes))]
    made = shards_of(flow, ranges, sized(ranges, *sizes))
    assert 1 <= len(made) <= shards
    every = [writer for shard in made for writer in shard]
    assert sorted(every) == sorted({range_.writer for range_ in ranges})
    assert all(made)


@given(sizes=st.lists(st.integers(0, 1000), min_size=1, max_size=60), shards=st.integers(2, 9))
def test_by_size_no_shard_is_much_heavier_than_it_has_to_be(sizes: list[int], shards: int) -> None:
    flow = a_flow(shards=shards)
    ranges = [a_range(writers_of(flow), f"topic-{at}") for at in range(len(sizes))]
    estimates = sized(ranges, *sizes)
    loads = loads_of(ranges, estimates)
    heaviest = max(load_of(shard, loads) for shard in shards_of(flow, ranges, estimates))
    # Graham's bound of list scheduling.
    assert heaviest <= sum(loads.values()) / shards + max(loads.values())


def test_by_topic_a_topic_is_in_the_same_shard_whatever_there_is_to_copy() -> None:
    flow = a_flow(shards=3, shard_by="topic")
    names = [f"topic-{number}" for number in range(20)]
    ranges = [a_range(writers_of(flow), name, number) for name in names for number in range(9)]
    shard_of = defaultdict(set)
    for shard in shards_of(flow, ranges, []):
        for range_ in ranges:
            if range_.writer in shard:
                shard_of[range_.topic].add(writers_of(flow).group_of(range_.writer))
    assert {len(groups) for groups in shard_of.values()} == {1}
    assert shard_of.keys() == set(names)


def test_a_flow_with_one_shard_has_none_and_an_idle_one_has_one_without_writers() -> None:
    assert shards_of(a_flow(), [a_range(Writers(32), "orders")], []) == ()
    assert shards_of(a_flow(shards=4), [], []) == ((),)
    assert shards_of(a_flow(shards=4, shard_by="topic"), [], []) == ((),)


def test_records_count_where_the_bytes_of_a_partition_are_not_known() -> None:
    ranges = [a_range(Writers(1), topic) for topic in ("orders", "payments")]
    assert loads_of(ranges, sized(ranges, 100, 200)) == {0: 302}
    assert loads_of(ranges, sized(ranges, 100, None)) == {0: 20}


# Dividing


def test_the_heaviest_go_first_and_to_the_shard_that_has_the_least() -> None:
    assert divide([5, 3, 3, 2, 2], 2) == [[0, 3], [1, 2, 4]]
    assert divide([], 3) == []
    assert divide([7], 3) == [[0]]


@given(
    whole=st.integers(1_000, 10**12),
    loads=st.lists(st.integers(0, 10**12), min_size=1, max_size=90),
)
def test_shares_are_never_more_than_the_whole_and_none_is_empty(
    whole: int, loads: list[int]
) -> None:
    found = shares(whole, loads)
    assert sum(found) <= whole
    assert min(found) >= whole // (10 * len(loads)) > 0
    assert [found[at] for at in sorted(range(len(loads)), key=loads.__getitem__)] == sorted(found)


# In a plan


def test_a_plan_knows_the_ranges_and_the_name_of_each_shard() -> None:
    topics = [f"topic-{number:02}" for number in range(30)]
    state = a_state(
        *(a_source(name) for name in topics),
        target=[a_remote(f"primary.{name}") for name in topics],
    )
    plan = planned(state, a_flow(shards=2))
    parts = [plan.of_shard(shard) for shard in range(2)]
    assert sorted(parts[0] + parts[1]) == sorted(plan.ranges)
    assert plan.of_shard(None) == plan.ranges
    first = [range_.topic for range_ in parts[1]][:4]
    assert plan.shard_names[1] == f"shard 1: {', '.join(first)} and {len(parts[1]) - 4} more"


@pytest.mark.parametrize(
    ("topics", "name"),
    [
        ([], "shard 0"),
        (["orders"], "shard 0: orders"),
        (["x" * 60], f"shard 0: {'x' * 40}..."),
        (["x" * 60, "y"], f"shard 0: {'x' * 40}... and 1 more"),
        (["orders", "x" * 60, "y"], "shard 0: orders and 2 more"),
    ],
)
def test_the_name_of_a_shard_is_short(topics: list[str], name: str) -> None:
    state = a_state(
        *(a_source(topic) for topic in topics),
        target=[a_remote(f"primary.{topic}") for topic in topics],
    )
    assert planned(state, a_flow(shards=2, writers=1)).shard_names == (name,)
