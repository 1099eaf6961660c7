"""Once a day, each group's offsets are written again, at a time of its own."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.groups.renewal import is_due

HOUR = 60 * 60 * 1000
DAY = 24 * HOUR
NOON = 20_000 * DAY + 12 * HOUR
GROUPS = [f"group-{number}" for number in range(1_000)]


@given(st.text(), st.integers(0, 3 * DAY), st.integers(60_000, DAY))
def test_no_day_goes_by_without_a_renewal(group: str, start: int, every: int) -> None:
    runs = [NOON + start + n * every for n in range(DAY // every + 2)]
    assert any(is_due(group, since=a, now=b) for a, b in pairwise(runs))


def test_a_groups_first_run_and_the_first_one_after_a_day_renew_it() -> None:
    assert all(is_due(group, since=0, now=NOON) for group in GROUPS)
    assert all(is_due(group, since=NOON, now=NOON + DAY) for group in GROUPS)


def test_an_hourly_run_renews_about_one_group_in_24_and_each_once_a_day() -> None:
    hours = [NOON + n * HOUR for n in range(25)]
    counts = [sum(is_due(group, since=a, now=b) for group in GROUPS) for a, b in pairwise(hours)]
    assert sum(counts) == len(GROUPS)
    assert max(counts) < 80


def test_a_run_that_is_repeated_at_once_renews_nothing() -> None:
    assert not any(is_due(group, since=NOON, now=NOON) for group in GROUPS)
