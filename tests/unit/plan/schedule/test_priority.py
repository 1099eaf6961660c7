from dataclasses import replace
from typing import Any

import pytest

from kafka_ferry.model import LogBounds, Range, TopicPartition
from kafka_ferry.plan.schedule.priority import by_urgency, waves
from tests.unit.plan.builders import (
    DAY,
    HOUR,
    NOW,
    a_flow,
    a_remote,
    a_source,
    a_state,
    at,
    changed,
    planned,
)

P0 = TopicPartition("orders", 0)
REMOTE = TopicPartition("primary.orders", 0)
# At NOW, the next run begins within the hour.
HOURLY = a_flow(schedule="@hourly")


def expiry(*, position: int = 10, configs: dict[str, str], **more: Any) -> int:
    """When the plan says that [position, 50) of a log [10, 50) expires."""
    state = a_state(
        replace(a_source(), configs=configs),
        target=[a_remote()],
        positions={REMOTE: at(position)},
        **more,
    )
    (range_,) = planned(state, HOURLY).ranges
    return range_.expires_at


WEEK = {"retention.ms": str(7 * DAY)}


@pytest.mark.parametrize(("position", "age"), [(10, 4 * DAY), (30, 2 * DAY), (40, DAY)])
def test_a_record_in_mid_log_is_taken_to_be_as_old_as_its_place_says(
    position: int, age: int
) -> None:
    when = expiry(position=position, configs=WEEK, oldest={P0: NOW - 4 * DAY})
    assert when == NOW - age + 7 * DAY


@pytest.mark.parametrize(
    "configs",
    [
        {"retention.ms": "-1"},
        {"retention.ms": str(2**63 - 1)},
        {"cleanup.policy": "compact", "retention.ms": "1"},
    ],
    ids=["kept for ever", "for ever in other words", "for their keys' sake"],
)
def test_records_that_are_kept_never_expire(configs: dict[str, str]) -> None:
    assert expiry(configs=configs, oldest={P0: NOW - DAY}) == -1


def test_nothing_is_known_of_a_log_whose_first_record_has_no_time() -> None:
    assert expiry(configs=WEEK) == -1


def test_a_log_that_is_full_is_cut_off_as_fast_as_it_grows() -> None:
    configs = {"retention.bytes": "1000", "retention.ms": "-1"}
    oldest = {P0: NOW - 10 * HOUR}
    full = expiry(configs=configs, oldest=oldest, sizes={P0: 1000})
    half = expiry(configs=configs, oldest=oldest, sizes={P0: 500})
    later = expiry(position=30, configs=configs, oldest=oldest, sizes={P0: 1000})
    assert (full, half, later) == (NOW, NOW + 10 * HOUR, NOW + 5 * HOUR)
    assert expiry(configs=configs, oldest=oldest) == -1


def test_the_sooner_of_both_counts() -> None:
    configs = {"retention.bytes": "1000", "retention.ms": str(11 * HOUR)}
    when = expiry(configs=configs, oldest={P0: NOW - 10 * HOUR}, sizes={P0: 500})
    assert when == NOW + HOUR


def test_what_is_known_to_go_before_the_next_run_stands_above_any_estimate() -> None:
    """A log that was idle for days and has filled up since looks younger than its first records are."""
    when = expiry(position=30, configs=WEEK, oldest={P0: NOW - 4 * DAY}, expiring={P0: 35})
    assert NOW < when <= NOW + HOUR


def test_an_empty_range_expires_never() -> None:
    state = a_state(
        replace(a_source(), configs=WEEK),
        target=[a_remote()],
        positions={REMOTE: at(50, at=0)},
        oldest={P0: 0},
    )
    assert [range_.expires_at for range_ in planned(state, HOURLY).ranges] == [-1]


# Taking turns


def a_range(partition: int, expires_at: int) -> Range:
    return Range("orders", partition, 0, 9, "id", "primary.orders", 0, expires_at=expires_at)


def turns(*lives: int | None) -> list[int]:
    """The waves of ranges that have so long to live, None for ever."""
    ranges = [
        a_range(number, -1 if life is None else NOW + life) for number, life in enumerate(lives)
    ]
    found = waves(ranges, NOW)
    return [found[range_.source] for range_ in ranges]


@pytest.mark.parametrize(
    ("lives", "expected"),
    [
        ([DAY, DAY, DAY], [0, 0, 0]),
        ([None, None], [0, 0]),
        ([None, DAY], [1, 0]),
        ([5 * DAY, DAY, 2 * DAY, 3 * DAY], [1, 0, 0, 1]),
        ([0, -DAY, HOUR, 2 * HOUR], [0, 0, 0, 0]),
        ([HOUR, 3 * HOUR, 7 * HOUR, None], [0, 1, 2, 3]),
        ([], []),
    ],
    ids=[
        "all alike",
        "none expires",
        "what never expires comes last",
        "twice as long is near enough",
        "within the hours nothing is more urgent than another",
        "one after the other",
        "nothing",
    ],
)
def test_ranges_take_turns_by_how_long_they_have(
    lives: list[int | None], expected: list[int]
) -> None:
    assert turns(*lives) == expected


def test_a_group_is_as_urgent_as_the_most_urgent_range_in_it() -> None:
    groups = [
        (a_range(0, -1),),
        (a_range(1, 50),),
        (a_range(2, -1), a_range(3, 20)),
    ]
    assert by_urgency(groups) == [groups[2], groups[1], groups[0]]


def test_the_bounds_of_a_partition_that_vanished_do_no_harm() -> None:
    state = a_state(replace(a_source(), configs=WEEK), target=[a_remote()], oldest={P0: NOW})
    state = changed(state, bounds={P0: LogBounds(10, 10)})
    assert [range_.expires_at for range_ in planned(state, HOURLY).ranges] == [-1]
