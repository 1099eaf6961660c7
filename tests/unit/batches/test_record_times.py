"""How old records are is read from the headers of their batches."""

from __future__ import annotations

import pytest

from kafka_ferry.batches import NO_AGES, BatchHeader, Spread, Times, first_time

_LOG_APPEND_TIME, _DELETE_HORIZON = 0x08, 0x40


def a_header(first: int, newest: int, *, records: int = 1, attributes: int = 0) -> BatchHeader:
    return BatchHeader(0, 61, 0, 2, 0, attributes, records - 1, first, newest, -1, -1, -1, records)


def ages(*headers: BatchHeader, now: int = 1_000) -> Spread:
    times = Times()
    for header in headers:
        times.add(header)
    return times.ages(now)


def test_a_batch_has_the_ages_of_its_first_and_its_newest_record() -> None:
    assert ages(a_header(400, 600, records=10)) == Spread(10, 400, 600, 5_000, 400)


def test_of_several_batches_the_least_the_most_and_the_last_count() -> None:
    found = ages(a_header(100, 100), a_header(700, 900, records=2), a_header(500, 500))
    assert found == Spread(4, 100, 900, 900 + 2 * 200 + 500, 500)
    assert found.average == 450


def test_a_record_from_the_future_has_a_negative_age() -> None:
    assert ages(a_header(1_500, 1_500)).least == -500


def test_batches_without_times_or_records_have_no_ages() -> None:
    assert ages(a_header(-1, -1), a_header(1, 1, records=0)) == NO_AGES
    assert NO_AGES.average == 0


def test_one_batch_without_a_time_does_not_hide_the_others() -> None:
    assert ages(a_header(-1, -1), a_header(400, 400)) == Spread(1, 600, 600, 600, 600)


@pytest.mark.parametrize(
    ("header", "time"),
    [
        (a_header(400, 600), 400),
        (a_header(400, 600, attributes=_LOG_APPEND_TIME), 600),
        (a_header(9_999, 600, attributes=_DELETE_HORIZON), 600),
        (a_header(-1, 600), 600),
    ],
    ids=["as sent", "stamped by the broker", "rewritten by the cleaner", "first without a time"],
)
def test_the_first_records_time_is_where_the_header_has_it(header: BatchHeader, time: int) -> None:
    assert first_time(header) == time


def test_ages_are_added_up_and_none_change_nothing() -> None:
    early, late = Spread(2, 5, 9, 14, 6), Spread(1, 1, 1, 1, 1)
    assert early + late == Spread(3, 1, 9, 15, 1)
    assert early + NO_AGES == NO_AGES + early == early
