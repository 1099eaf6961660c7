"""Dividing what a micro-batch copies among tasks."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from kafka_ferry.model import Estimate, Plan, Range, TopicPartition, writer_of
from kafka_ferry.model.ranges import Backfill
from kafka_ferry.model.rate import UNLIMITED, Rate
from kafka_ferry.plan.schedule.sharding import Writers
from kafka_ferry.plan.schedule.tasks import TaskRanges, plan_again, task_ranges

WRITERS = 8
SHARDS = ((0, 2), (1,))


def a_range(topic: str, partition: int, start: int, end: int, writers: int = WRITERS) -> Range:
    target = TopicPartition(f"primary.{topic}", partition)
    return Range(
        topic, partition, start, end, f"id of {topic}", target.topic, writer_of(target, writers)
    )


def a_plan(*ranges: Range, **more: Any) -> Plan:
    return Plan("primary->backup", "run-1", 5, "S", "T", ranges=ranges, **more)


RANGES = [a_range("orders", 0, 0, 10), a_range("orders", 11, 5, 9), a_range("b", 2, 7, 7)]


def test_ranges_go_to_the_writers_that_there_are_now() -> None:
    """A micro-batch may be repeated after the number of writers was changed."""
    tasks = task_ranges(RANGES, Writers(5), a_plan(*RANGES))
    now = {it.source: it.writer for task in tasks for it in task.ranges}
    assert now == {it.source: writer_of(it.target, 5) for it in RANGES}
    assert now != {it.source: it.writer for it in RANGES}


def test_a_task_has_all_ranges_of_one_writer() -> None:
    ranges = [a_range("orders", n, 0, 10, 3) for n in range(10)]
    tasks = task_ranges(ranges, Writers(3), a_plan(*ranges))
    tasks = [pickle.loads(pickle.dumps(task)) for task in tasks]
    assert [{range_.writer for range_ in task.ranges} for task in tasks] == [{0}, {1}, {2}]
    assert sorted(range_ for task in tasks for range_ in task.ranges) == ranges


def test_the_writer_of_what_expires_first_is_the_first_task() -> None:
    lives = {0: 500, 4: -1, 8: 100, 12: 300}
    ranges = [
        replace(a_range("orders", number, 0, 10), expires_at=expires_at)
        for number, expires_at in lives.items()
    ]
    tasks = task_ranges(ranges, Writers(WRITERS), a_plan(*ranges))
    assert [task.ranges[0].partition for task in tasks] == [8, 12, 0, 4]


def test_a_shard_leaves_alone_what_an_earlier_start_had_of_other_shards() -> None:
    """Two that share a writer would fence each other."""
    ranges = [a_range("orders", number, 0, 10, 3) for number in range(12)]
    plan = a_plan(*ranges, shards=SHARDS)
    assert {it.writer for it in plan_again(ranges, plan, 1)} == {1}


def test_a_repeated_micro_batch_has_nothing_that_the_run_is_not_about() -> None:
    assert plan_again(RANGES, a_plan(RANGES[0]), None) == RANGES[:1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"topic_id": "of a topic that was recreated"},
        {"remote_topic": "elsewhere"},
        {"preserved": True},
        {"end": RANGES[0].end + 1},
        {"start": -1001, "end": -1001},
        {"backfill": Backfill(0, 5, 0)},
        {"transform": "another rule"},
        {"schema_ids": "value 12"},
    ],
)
def test_a_range_that_the_plan_does_not_have_is_not_repeated(wrong: dict[str, Any]) -> None:
    earlier = replace(RANGES[0], start=RANGES[0].start + 1)
    assert plan_again([earlier], a_plan(RANGES[0]), None) == [RANGES[0]]
    assert plan_again([replace(earlier, **wrong)], a_plan(RANGES[0]), None) == []


def test_of_an_earlier_range_nothing_but_its_end_is_believed() -> None:
    forged = replace(
        RANGES[0],
        start=RANGES[0].start + 1,
        end=RANGES[0].end - 1,
        log_start=RANGES[0].end,
        returned_since=0,
        origins=("elsewhere",),
        remote_topic_id="another",
    )
    assert plan_again([forged], a_plan(RANGES[0]), None) == [
        replace(RANGES[0], end=RANGES[0].end - 1)
    ]


# A limit


def a_plan_of_sizes(*sizes: int, writers: int, shards: Any = ()) -> Plan:
    """A topic for each size, each of one writer of its own."""
    ranges, estimates = [], []
    for writer, size in enumerate(sizes):
        names = (f"topic-{n}" for n in range(10_000))
        target = (name for name in names if a_range(name, 0, 0, 9, writers).writer == writer)
        ranges.append(a_range(next(target), 0, 0, 9, writers))
        estimates.append(Estimate(ranges[-1].topic, 0, 9, size))
    return a_plan(*ranges, estimates=tuple(estimates), shards=shards)


def tasks_of(plan: Plan, writers: int, shard: int | None = None) -> list[TaskRanges]:
    return task_ranges(
        plan.of_shard(shard), Writers(writers), plan, shard, rate=Rate(1000, 500), at_a_time=2
    )


def test_under_a_limit_no_more_tasks_are_made_than_run_at_a_time_and_they_share_it() -> None:
    plan = a_plan_of_sizes(800, 100, 100, 0, writers=4)
    tasks = tasks_of(plan, 4)
    assert sorted(len(task.ranges) for task in tasks) == [1, 3]
    assert sorted(task.rate.bytes_per_s for task in tasks) == pytest.approx([230, 770], abs=10)
    assert sum(task.rate.bytes_per_s for task in tasks) <= 1000
    assert sorted(task.rate.records_per_s for task in tasks) == pytest.approx([115, 385], abs=10)
    assert sorted(range_ for task in tasks for range_ in task.ranges) == sorted(plan.ranges)


def test_the_limit_is_that_of_all_shards_together() -> None:
    plan = a_plan_of_sizes(600, 200, 200, writers=3, shards=((0,), (1, 2)))
    limits = [[it.rate.bytes_per_s for it in tasks_of(plan, 3, shard)] for shard in range(2)]
    assert [len(of_shard) for of_shard in limits] == [1, 2]
    assert [sum(of_shard) for of_shard in limits] == pytest.approx([590, 410], abs=10)
    assert sum(map(sum, limits)) <= 1000


def test_without_a_limit_each_writer_is_a_task() -> None:
    plan = a_plan_of_sizes(5, 6, 7, writers=3)
    tasks = task_ranges(plan.ranges, Writers(3), plan, at_a_time=1)
    assert [task.rate for task in tasks] == [UNLIMITED] * 3
