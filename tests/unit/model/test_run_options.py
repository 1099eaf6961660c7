from __future__ import annotations

import pytest

from kafka_ferry.model.rate import Rate
from kafka_ferry.model.run_options import RunOptions, Window, rate_of
from tests.unit.plan.builders import a_flow

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("window", "shown"),
    [
        (Window(0, HOUR), "[1970-01-01T00:00Z, 1970-01-01T01:00Z)"),
        (Window(1, HOUR + 1), "[1970-01-01T00:00:00.001Z, 1970-01-01T01:00:00.001Z)"),
        # Outside the calendar.
        (Window(0, 2**62), f"[1970-01-01T00:00Z, {2**62})"),
    ],
)
def test_a_window_is_shown_in_utc_as_exactly_as_it_is_given(window: Window, shown: str) -> None:
    assert str(window) == shown


@pytest.mark.parametrize("until", [4, 5])
def test_a_window_has_a_length(until: int) -> None:
    with pytest.raises(ValueError, match="must end after it begins"):
        Window(5, until)


@pytest.mark.parametrize(
    ("of_flow", "of_run", "most"), [(0, 0, 0), (5, 0, 5), (0, 7, 7), (5, 7, 5), (9, 7, 7)]
)
def test_the_lower_limit_counts(of_flow: int, of_run: int, most: int) -> None:
    flow = a_flow(rate_limit_bytes=of_flow, rate_limit_records=3)
    assert rate_of(flow, RunOptions(max_bytes_per_s=of_run)) == Rate(most, 3)


@pytest.mark.parametrize(
    ("options", "is_whole"),
    [
        (RunOptions(), True),
        (RunOptions(dry_run=True, verify_all=True, max_bytes_per_s=1), True),
        (RunOptions(topics=(".*",)), False),
        (RunOptions(window=Window(0, HOUR)), False),
    ],
)
def test_a_run_of_some_topics_or_of_a_window_is_not_whole(
    options: RunOptions, is_whole: bool
) -> None:
    assert options.is_whole == is_whole
    assert (options.topic_filter is None) == (not options.topics)
