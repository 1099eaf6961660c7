import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.plan import Estimate, Plan, Range, TopicPartition, save_plan, writer_of
from kafka_ferry.plan.ranges import Backfill, Settled
from kafka_ferry.plan.sharding import Writers
from kafka_ferry.spark.ranges import RangeStreamReader, WriterRanges, offset_of, ranges_in
from kafka_ferry.state import StateFolder

WRITERS = 8


def a_range(topic: str, partition: int, start: int, end: int, writers: int = WRITERS) -> Range:
    target = TopicPartition(f"primary.{topic}", partition)
    return Range(
        topic, partition, start, end, f"id of {topic}", target.topic, writer_of(target, writers)
    )


def a_plan(*ranges: Range) -> Plan:
    return Plan("primary->backup", "run-1", 5, "S", "T", ranges=ranges)


RANGES = [
    a_range("orders", 0, 0, 10),
    a_range("orders", 11, 2**60, 2**60 + 5),
    a_range("a-b-3", 2, 7, 7),
    a_range("täglich", 0, 1, 2),
    replace(a_range("both-ways", 0, 1, 2), returned_since=17),
    replace(a_range("short-lived", 0, 1, 2), expires_at=2**40),
    replace(
        a_range("late", 0, 1, 2), backfill=Backfill(5, 2**62, 7, (Settled(1, 2, -(2**63), 2**62),))
    ),
]


@pytest.mark.parametrize("ranges", [[], RANGES[:1], RANGES])
def test_an_offset_of_the_stream_holds_the_plans_ranges(ranges: list[Range]) -> None:
    offset = offset_of("run-1", ranges, "attempt-1")
    kept = json.loads(json.dumps(offset))
    assert kept == offset
    assert ranges_in(kept, Writers(WRITERS)) == ranges
    assert (kept["run"], kept["attempt"]) == ("run-1", "attempt-1")


def test_ranges_go_to_the_writers_that_there_are_now() -> None:
    """A micro-batch may be repeated after the number of writers was changed."""
    offset = offset_of("run-1", RANGES, "attempt-1")
    now = ranges_in(offset, Writers(5))
    assert [range_.writer for range_ in now] == [writer_of(range_.target, 5) for range_ in RANGES]
    assert [range_.source for range_ in now] == [range_.source for range_ in RANGES]
    assert [range_.writer for range_ in now] != [range_.writer for range_ in RANGES]


def test_another_attempt_at_the_same_ranges_is_another_offset() -> None:
    assert offset_of("run-1", RANGES, "attempt-1") != offset_of("run-1", RANGES, "attempt-2")


# The stream, without Spark


def a_reader(
    folder: Path,
    attempt: str = "attempt-1",
    writers: int = WRITERS,
    *,
    groups: int = 1,
    shard: int | None = None,
    bytes_per_s: int = 0,
    tasks: int = 2,
) -> RangeStreamReader:
    options = {
        "run_folder": str(folder),
        "attempt": attempt,
        "writers": str(writers),
        "groups": str(groups),
        "shard": "" if shard is None else str(shard),
        "bytes_per_s": str(bytes_per_s),
        "tasks": str(tasks),
    }
    return RangeStreamReader(options, None)  # type: ignore[arg-type]


def latest(reader: RangeStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return reader.latestOffset(start, None)  # type: ignore[arg-type]


def tasks_of(
    reader: RangeStreamReader, ranges: list[Range], attempt: str = "attempt-1"
) -> list[WriterRanges]:
    offset = offset_of("run-1", ranges, attempt)
    return list(reader.partitions(reader.initialOffset(), offset))


def test_a_plan_is_given_out_once_by_each_attempt(tmp_path: Path) -> None:
    plan = a_plan(*RANGES)
    save_plan(StateFolder(str(tmp_path)), plan)
    reader = a_reader(tmp_path)
    given = latest(reader, reader.initialOffset())
    assert given == offset_of("run-1", RANGES, "attempt-1")
    assert latest(reader, given) == given
    again = latest(a_reader(tmp_path, "attempt-2"), given)
    assert ranges_in(again, Writers(WRITERS)) == RANGES
    assert again != given


def test_what_was_given_out_does_not_change_with_the_plan(tmp_path: Path) -> None:
    save_plan(StateFolder(str(tmp_path)), a_plan(*RANGES))
    reader = a_reader(tmp_path)
    given = latest(reader, reader.initialOffset())
    save_plan(StateFolder(str(tmp_path)), a_plan(*RANGES[:1]))
    assert latest(reader, given) == given


def test_a_plan_without_ranges_is_no_micro_batch(tmp_path: Path) -> None:
    save_plan(StateFolder(str(tmp_path)), a_plan())
    reader = a_reader(tmp_path)
    assert latest(reader, reader.initialOffset()) == reader.initialOffset()


def test_a_task_has_all_ranges_of_one_writer(tmp_path: Path) -> None:
    ranges = [a_range("orders", n, 0, 10, 3) for n in range(10)]
    reader = a_reader(tmp_path, writers=3)
    tasks = tasks_of(reader, ranges)
    tasks = [pickle.loads(pickle.dumps(task)) for task in tasks]
    assert [{range_.writer for range_ in task.ranges} for task in tasks] == [{0}, {1}, {2}]
    assert sorted(range_ for task in tasks for range_ in task.ranges) == ranges


def test_the_writer_of_what_expires_first_is_the_first_task(tmp_path: Path) -> None:
    lives = {0: 500, 4: -1, 8: 100, 12: 300}
    ranges = [
        replace(a_range("orders", number, 0, 10), expires_at=expires_at)
        for number, expires_at in lives.items()
    ]
    tasks = tasks_of(a_reader(tmp_path), ranges)
    assert [task.ranges[0].partition for task in tasks] == [8, 12, 0, 4]


# Shards

SHARDS = ((0, 2), (1,))


def a_sharded_plan() -> Plan:
    ranges = [a_range("orders", number, 0, 10, 3) for number in range(12)]
    return replace(a_plan(*ranges), shards=SHARDS)


def test_a_shard_is_given_the_ranges_of_its_writers_and_no_others(tmp_path: Path) -> None:
    plan = a_sharded_plan()
    save_plan(StateFolder(str(tmp_path)), plan)
    given = []
    for shard, writers in enumerate(SHARDS):
        reader = a_reader(tmp_path, writers=3, shard=shard)
        ranges = ranges_in(latest(reader, reader.initialOffset()), Writers(3))
        assert {range_.writer for range_ in ranges} == set(writers)
        given += ranges
    assert sorted(given) == sorted(plan.ranges)


def test_a_shard_leaves_alone_what_an_earlier_attempt_had_of_other_shards(tmp_path: Path) -> None:
    """Two that share a writer would fence each other."""
    plan = a_sharded_plan()
    save_plan(StateFolder(str(tmp_path)), plan)
    reader = a_reader(tmp_path, "attempt-2", writers=3, shard=1)
    (task,) = tasks_of(reader, list(plan.ranges), "attempt-1")
    assert {range_.writer for range_ in task.ranges} == {1}


def test_a_repeated_micro_batch_has_nothing_that_the_run_is_not_about(tmp_path: Path) -> None:
    save_plan(StateFolder(str(tmp_path)), a_plan(RANGES[0]))
    (task,) = tasks_of(a_reader(tmp_path, "attempt-2"), RANGES, "attempt-1")
    assert task.ranges == (RANGES[0],)


# A limit


def a_plan_of_sizes(*sizes: int, writers: int, shards: Any = ()) -> Plan:
    """A topic for each size, each of one writer of its own."""
    ranges, estimates = [], []
    for writer, size in enumerate(sizes):
        names = (f"topic-{n}" for n in range(10_000))
        target = (name for name in names if a_range(name, 0, 0, 9, writers).writer == writer)
        ranges.append(a_range(next(target), 0, 0, 9, writers))
        estimates.append(Estimate(ranges[-1].topic, 0, 9, size))
    return replace(a_plan(*ranges), estimates=tuple(estimates), shards=shards)


def test_under_a_limit_no_more_tasks_are_made_than_run_at_a_time_and_they_share_it(
    tmp_path: Path,
) -> None:
    plan = a_plan_of_sizes(800, 100, 100, 0, writers=4)
    save_plan(StateFolder(str(tmp_path)), plan)
    tasks = tasks_of(a_reader(tmp_path, writers=4, bytes_per_s=1000, tasks=2), list(plan.ranges))
    assert sorted(len(task.ranges) for task in tasks) == [1, 3]
    assert sorted(task.bytes_per_s for task in tasks) == pytest.approx([230, 770], abs=10)
    assert sum(task.bytes_per_s for task in tasks) <= 1000
    assert sorted(range_ for task in tasks for range_ in task.ranges) == sorted(plan.ranges)


def test_the_limit_is_that_of_all_shards_together(tmp_path: Path) -> None:
    plan = a_plan_of_sizes(600, 200, 200, writers=3, shards=((0,), (1, 2)))
    save_plan(StateFolder(str(tmp_path)), plan)
    limits = []
    for shard in range(2):
        reader = a_reader(tmp_path, writers=3, shard=shard, bytes_per_s=1000, tasks=2)
        limits.append([it.bytes_per_s for it in tasks_of(reader, list(plan.of_shard(shard)))])
    assert [len(of_shard) for of_shard in limits] == [1, 2]
    assert [sum(of_shard) for of_shard in limits] == pytest.approx([590, 410], abs=10)
    assert sum(map(sum, limits)) <= 1000


def test_without_a_limit_each_writer_is_a_task(tmp_path: Path) -> None:
    plan = a_plan_of_sizes(5, 6, 7, writers=3)
    tasks = tasks_of(a_reader(tmp_path, writers=3, tasks=1), list(plan.ranges))
    assert [task.bytes_per_s for task in tasks] == [0, 0, 0]
