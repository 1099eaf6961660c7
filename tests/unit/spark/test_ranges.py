import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.plan import Plan, Range, TopicPartition, save_plan, writer_of
from kafka_ferry.spark.ranges import RangeStreamReader, offset_of, ranges_in
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
]


@pytest.mark.parametrize("ranges", [[], RANGES[:1], RANGES])
def test_an_offset_of_the_stream_holds_the_plans_ranges(ranges: list[Range]) -> None:
    offset = offset_of(a_plan(*ranges), "attempt-1")
    kept = json.loads(json.dumps(offset))
    assert kept == offset
    assert ranges_in(kept, WRITERS) == ranges
    assert (kept["run"], kept["attempt"]) == ("run-1", "attempt-1")


def test_ranges_go_to_the_writers_that_there_are_now() -> None:
    """A micro-batch may be repeated after the number of writers was changed."""
    offset = offset_of(a_plan(*RANGES), "attempt-1")
    now = ranges_in(offset, 5)
    assert [range_.writer for range_ in now] == [writer_of(range_.target, 5) for range_ in RANGES]
    assert [range_.source for range_ in now] == [range_.source for range_ in RANGES]
    assert [range_.writer for range_ in now] != [range_.writer for range_ in RANGES]


def test_another_attempt_at_the_same_ranges_is_another_offset() -> None:
    plan = a_plan(*RANGES)
    assert offset_of(plan, "attempt-1") != offset_of(plan, "attempt-2")


# The stream, without Spark


def a_reader(folder: Path, attempt: str = "attempt-1", writers: int = WRITERS) -> RangeStreamReader:
    options = {"run_folder": str(folder), "attempt": attempt, "writers": str(writers)}
    return RangeStreamReader(options, None)  # type: ignore[arg-type]


def latest(reader: RangeStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return reader.latestOffset(start, None)  # type: ignore[arg-type]


def test_a_plan_is_given_out_once_by_each_attempt(tmp_path: Path) -> None:
    plan = a_plan(*RANGES)
    save_plan(StateFolder(str(tmp_path)), plan)
    reader = a_reader(tmp_path)
    given = latest(reader, reader.initialOffset())
    assert given == offset_of(plan, "attempt-1")
    assert latest(reader, given) == given
    again = latest(a_reader(tmp_path, "attempt-2"), given)
    assert ranges_in(again, WRITERS) == RANGES
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
    tasks = reader.partitions(reader.initialOffset(), offset_of(a_plan(*ranges), "attempt-1"))
    tasks = [pickle.loads(pickle.dumps(task)) for task in tasks]
    assert [{range_.writer for range_ in task.ranges} for task in tasks] == [{0}, {1}, {2}]
    assert sorted(range_ for task in tasks for range_ in task.ranges) == ranges
