"""How many requests are in flight, and which offsets they ask for."""

from __future__ import annotations

import math

import pytest

from kafka_ferry.wire.partitions.read_ahead import MOST_AHEAD, Depth, Reach, answer_bytes

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("busy_s", "round_trip_s", "brokers", "wanted"),
    [
        (0.1, 0.0, 1, 1),
        (0.1, 0.004, 1, 1),
        (0.1, 0.05, 1, 2),
        (0.1, 0.2, 1, 3),
        (0.1, 0.2, 2, 2),
        (0.1, 0.2, 30, 1),
        (0.001, 0.2, 1, 1 + MOST_AHEAD),
        (5e-324, 0.2, 1, 1 + MOST_AHEAD),
    ],
    ids=[
        "not known",
        "near",
        "not far",
        "far",
        "two brokers",
        "thirty brokers",
        "a quick reader",
        "no time",
    ],
)
def test_a_distant_broker_gets_as_many_requests_as_its_answers_take(
    busy_s: float, round_trip_s: float, brokers: int, wanted: int
) -> None:
    depth = Depth()
    depth.took(busy_s)
    assert depth.request_count(round_trip_s, brokers) == wanted


@pytest.mark.parametrize(
    ("max_bytes", "round_trip_s", "size"),
    [
        (8 * MIB, 0.2, 8 * MIB),
        (8 * MIB, 0.002, 8 * MIB),
        (8 * MIB, 0.001, 4 * MIB),
        (8 * MIB, 0.0, 4 * MIB),
        (8 * MIB, math.inf, 4 * MIB),
        (MIB, 0.0, MIB),
    ],
    ids=["far", "not far", "next door", "not known", "no answer yet", "the user wants less"],
)
def test_a_broker_next_door_is_asked_for_less(
    max_bytes: int, round_trip_s: float, size: int
) -> None:
    assert answer_bytes(max_bytes, round_trip_s) == size


def test_before_the_first_answer_one_request_is_sent() -> None:
    assert Depth().request_count(0.2, 1) == 1


def test_a_guess_leaves_room_for_the_batch_that_it_begins_in() -> None:
    reach = Reach()
    assert reach.of(MIB) == 0
    reach.learn(10_000, largest=1_000, max_bytes=MIB)
    assert 8_000 < reach.of(MIB) < 9_000
    assert reach.of(2 * MIB) == pytest.approx(2 * reach.of(MIB), abs=1)


def test_one_short_answer_is_the_end_of_a_segment_and_two_are_not() -> None:
    reach = Reach()
    for offsets in (10_000, 10_000, 1_500):
        reach.learn(offsets, largest=1_000, max_bytes=MIB)
    assert reach.of(MIB) > 8_000
    reach.learn(1_500, largest=1_000, max_bytes=MIB)
    assert reach.of(MIB) < 500


def test_nothing_is_guessed_after_a_guess_that_went_too_far() -> None:
    reach = Reach()
    reach.learn(10_000, largest=1_000, max_bytes=MIB)
    reach.forget()
    assert reach.of(MIB) == 0


def test_nothing_is_guessed_where_an_answer_has_room_for_one_batch() -> None:
    reach = Reach()
    reach.learn(1_000, largest=1_000, max_bytes=MIB)
    assert reach.of(MIB) == 0
