"""Spans of time, in words, by a letter, and as ISO 8601 has them."""

from __future__ import annotations

from datetime import timedelta
from time import process_time

import pytest

from kafka_ferry.config.types.durations import (
    is_duration,
    is_span,
    near_duration,
    read_duration,
    read_span,
)

DAY_MS = 24 * 3_600_000


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("15 minutes", timedelta(minutes=15)),
        ("1 minute", timedelta(minutes=1)),
        ("1 day 12 hours", timedelta(days=1, hours=12)),
        ("2weeks", timedelta(weeks=2)),
        (" PT15M ", timedelta(minutes=15)),
        ("P1DT12H", timedelta(days=1, hours=12)),
    ],
)
def test_a_span_of_time_is_in_words_or_iso_8601(text: str, span: timedelta) -> None:
    assert is_duration(text)
    assert is_span(text)
    assert read_duration(text) == span
    assert read_span(text) == span / timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("text", "ms"), [("7d", 7 * DAY_MS), ("90s", 90_000), ("2w", 14 * DAY_MS), ("0m", 0)]
)
def test_a_letter_is_a_unit_for_spans_only(text: str, ms: int) -> None:
    assert read_span(text) == ms
    assert not is_duration(text)
    with pytest.raises(ValueError, match="must be a span of time"):
        read_duration(text)


@pytest.mark.parametrize(
    "text",
    ["", "15", "minutes", "0 minutes", "-5 minutes", "1 month", "PT", "PT0S", "P1Y2Q", "P-1D"],
)
def test_what_names_no_time_is_refused(text: str) -> None:
    for read in (read_duration, read_span):
        with pytest.raises(ValueError, match="must be a span of time such as 15 minutes"):
            read(text)


def test_a_bare_number_is_told_that_it_needs_a_unit() -> None:
    with pytest.raises(ValueError, match="needs its unit, such as '10 minutes'"):
        read_span("10")


@pytest.mark.parametrize("text", ["36501 days", "P36501D", "999999999 days"])
def test_a_span_has_100_years_at_most(text: str) -> None:
    with pytest.raises(ValueError, match="must be 100 years"):
        read_duration(text)


def test_a_span_may_be_longer_than_any() -> None:
    with pytest.raises(ValueError, match="999999999w is too long"):
        read_span("999999999w")
    with pytest.raises(ValueError, match="must be a span of time"):
        read_duration("9" * 20 + " weeks")


@pytest.mark.parametrize("text", ["1" * 200_000 + "x", "1 minute " * 20_000 + "!", "1s" * 100_000])
def test_a_long_text_is_refused_at_once(text: str) -> None:
    began = process_time()
    assert not near_duration(text)
    with pytest.raises(ValueError, match="must be a span of time"):
        read_span(text)
    assert process_time() - began < 1
