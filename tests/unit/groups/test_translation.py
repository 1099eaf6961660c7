"""Offset maps: examples, and properties against a model of both logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.groups.translation import OffsetMap, Translation
from kafka_ferry.ledger import CopiedRange
from kafka_ferry.ledger.queries.range_columns import RangeColumns
from tests.support.examples import examples
from tests.support.records.model_log import Mirror, TwoWay, a_range, read

ORDERS = OffsetMap.of([a_range(0, 9, [(0, 10, 5), (7, 16, 2)])])
LATER = OffsetMap.of([a_range(100, 110, [(100, 0, 10)])])
CUT_BACK = OffsetMap.of(
    [a_range(0, 100, [(0, 0, 100)]), a_range(60, 75, [(60, 101, 15)], rewound_from=100)]
)
BACKFILLED = OffsetMap.of([a_range(100, 110, [(100, 0, 10)]), a_range(0, 100, [(0, 11, 100)])])
NO_RECORDS = OffsetMap.of([a_range(0, 5)])
TAKEN_OVER = OffsetMap.of([a_range(0, 10, [(0, 0, 8)]), a_range(30, 40, [(30, 31, 10)])])
PRESERVED = OffsetMap.of(
    [
        a_range(5, 20, [(5, 5, 5), (12, 12, 4)], preserved=True),
        a_range(20, 30, [(20, 20, 10)], preserved=True),
    ]
)


@pytest.mark.parametrize(
    ("map_", "offset", "expected"),
    [
        (ORDERS, 0, (10, "exact")),
        (ORDERS, 4, (14, "exact")),
        (ORDERS, 5, (16, "gap")),
        (ORDERS, 6, (16, "gap")),
        (ORDERS, 8, (17, "exact")),
        (ORDERS, 9, (18, "exact")),
        (ORDERS, 10, (18, "clamped")),
        (ORDERS, 2**62, (18, "clamped")),
        (LATER, 99, (0, "clamped")),
        (LATER, 100, (0, "exact")),
        (CUT_BACK, 59, (59, "exact")),
        (CUT_BACK, 60, (101, "exact")),
        (CUT_BACK, 75, (116, "exact")),
        (CUT_BACK, 76, None),
        (CUT_BACK, 100, None),
        (CUT_BACK, 101, (116, "clamped")),
        (BACKFILLED, 0, (0, "gap")),
        (BACKFILLED, 99, (0, "gap")),
        (BACKFILLED, 105, (5, "exact")),
        (BACKFILLED, 110, (111, "exact")),
        (NO_RECORDS, 3, (0, "clamped")),
        (TAKEN_OVER, 7, (7, "exact")),
        (TAKEN_OVER, 8, None),
        (TAKEN_OVER, 29, None),
        (TAKEN_OVER, 30, (31, "exact")),
        (PRESERVED, 4, (0, "clamped")),
        (PRESERVED, 5, (5, "exact")),
        (PRESERVED, 10, (10, "exact")),
        (PRESERVED, 18, (18, "exact")),
        (PRESERVED, 30, (30, "exact")),
        (PRESERVED, 31, (30, "clamped")),
        (OffsetMap.of([]), 0, None),
    ],
)
def test_a_source_offset_is_the_first_place_of_what_was_not_read(
    map_: OffsetMap, offset: int, expected: tuple[int, str] | None
) -> None:
    assert map_.translate(offset) == expected


@pytest.mark.parametrize(
    ("map_", "offset", "expected"),
    [
        (ORDERS, 0, (0, "clamped")),
        (ORDERS, 10, (0, "exact")),
        (ORDERS, 15, (7, "gap")),
        (ORDERS, 17, (8, "exact")),
        (ORDERS, 18, (9, "exact")),
        (ORDERS, 19, (9, "clamped")),
        (CUT_BACK, 59, (59, "exact")),
        (CUT_BACK, 60, (60, "gap")),
        (CUT_BACK, 99, (60, "gap")),
        (CUT_BACK, 101, (60, "exact")),
        (BACKFILLED, 5, (0, "gap")),
        (BACKFILLED, 11, (0, "exact")),
        (BACKFILLED, 111, (110, "exact")),
        (TAKEN_OVER, 7, (7, "exact")),
        (TAKEN_OVER, 8, None),
        (TAKEN_OVER, 30, None),
        (TAKEN_OVER, 31, (30, "exact")),
        (NO_RECORDS, 3, (0, "clamped")),
        (PRESERVED, 11, (11, "exact")),
        (PRESERVED, 31, (30, "clamped")),
        (OffsetMap.of([]), 0, None),
    ],
)
def test_a_target_offset_is_found_on_the_source_by_the_same_rule(
    map_: OffsetMap, offset: int, expected: tuple[int, str] | None
) -> None:
    assert map_.reverse(offset) == expected


@pytest.mark.parametrize(
    ("map_", "span", "since", "accepted", "copies"),
    [
        # A marker is no copy, and what lies after the last one neither.
        (ORDERS, (10, 30), 0, [], 7),
        (ORDERS, (14, 17), 0, [], 2),
        (ORDERS, (15, 16), 0, [], 0),
        # What the group has read, or nobody expects there any more.
        (ORDERS, (10, 30), 4, [], 3),
        (ORDERS, (10, 30), 0, [(11, 13), (16, 17)], 4),
        # The source has lost what was copied from 60 to 99.
        (CUT_BACK, (50, 100), 0, [], 10),
        (CUT_BACK, (50, 116), 0, [], 25),
        # Copied late: the group has read what was before its offset.
        (BACKFILLED, (0, 111), 100, [], 10),
        (PRESERVED, (5, 20), 0, [], 9),
        (NO_RECORDS, (0, 9), 0, [], 0),
    ],
)
def test_copies_between_two_target_offsets_are_counted(
    map_: OffsetMap,
    span: tuple[int, int],
    since: int,
    accepted: list[tuple[int, int]],
    copies: int,
) -> None:
    assert map_.count_copies(*span, since=since, accepted=accepted) == copies


@pytest.mark.parametrize(
    ("offset", "bounds", "expected"),
    [
        (0, {"log_start": 12}, (12, "clamped")),
        (2, {"log_start": 12}, (12, "exact")),
        (8, {"log_end": 17}, (17, "exact")),
        (9, {"log_end": 17}, (17, "clamped")),
        (8, {"log_start": 20, "log_end": 20}, (20, "clamped")),
    ],
)
def test_no_answer_is_outside_of_the_log(
    offset: int, bounds: dict[str, int], expected: tuple[int, str]
) -> None:
    assert ORDERS.translate(offset, **bounds) == expected


def test_a_map_says_which_offsets_are_accounted_for() -> None:
    assert (ORDERS.start, ORDERS.end) == (0, 9)
    assert (LATER.start, LATER.end) == (100, 110)
    assert (CUT_BACK.start, CUT_BACK.end) == (0, 75)
    assert (BACKFILLED.start, BACKFILLED.end) == (0, 110)
    empty = OffsetMap.of([])
    assert (empty.start, empty.end) == (0, 0)


def test_an_empty_range_only_says_how_far_the_copy_is() -> None:
    begun_at_the_end = OffsetMap.of([a_range(1000, 1000)])
    assert (begun_at_the_end.start, begun_at_the_end.end) == (1000, 1000)
    assert begun_at_the_end.translate(1000, log_start=3) == (3, "clamped")


def test_offsets_that_were_copied_twice_are_where_they_came_first() -> None:
    twice = OffsetMap.of([a_range(0, 10, [(0, 0, 10)]), a_range(5, 15, [(5, 11, 10)])])
    assert [twice.translate(at) for at in (4, 5, 9, 10)] == [
        (4, "exact"),
        (5, "exact"),
        (9, "exact"),
        (16, "exact"),
    ]


# --- a partition that was copied in order

_COPYING = ("copy", "break_off")
_SOURCE = ("write", "abort", "commit", "compact", "expire")
_IN_ORDER = (*_SOURCE, *_COPYING, "begin_at_end")
_IN_ANY_ORDER = (*_IN_ORDER, "copy_earlier", "cut")


def histories(*events: str) -> st.SearchStrategy[Mirror]:
    """Mirrors with a history of such events, and something copied."""

    def lived(steps: Sequence[tuple[str, int]]) -> Mirror:
        mirror = Mirror()
        mirror.write(3)
        for event, number in steps:
            getattr(mirror, event)(number)
        mirror.copy(3)
        return mirror

    step = st.tuples(st.sampled_from(events), st.integers(0, 9))
    return st.lists(step, max_size=25).map(lived)


def offsets_of(mirror: Mirror) -> range:
    return range(len(mirror.source) + 3)


def targets_of(mirror: Mirror) -> range:
    return range(len(mirror.target) + 3)


@given(histories(*_IN_ORDER))
@examples(200)
def test_in_a_partition_copied_in_order_what_is_read_is_what_was_not_read(mirror: Mirror) -> None:
    map_ = OffsetMap.of(mirror.ranges)
    for offset in offsets_of(mirror):
        answer = map_.translate(offset)
        assert answer is not None
        assert read(mirror.target, answer.offset) == mirror.unread(offset)
        if answer.kind == "exact" and offset < map_.end:
            assert answer.offset == mirror.there[offset]
    for offset in targets_of(mirror):
        answer = map_.reverse(offset)
        assert answer is not None
        assert unread_from(mirror, answer.offset) == mirror.unread_on_target(offset)


def unread_from(mirror: Mirror, offset: int) -> list[int | None]:
    """What a consumer of the source reads from there that was copied."""
    return [mirror.target[t] for at, t in sorted(mirror.there.items()) if at >= offset]


@given(histories(*_IN_ANY_ORDER))
@examples(200)
def test_nothing_unread_is_skipped_and_the_first_record_read_is_unread(mirror: Mirror) -> None:
    map_ = OffsetMap.of(mirror.ranges)
    for offset in offsets_of(mirror):
        answer = map_.translate(offset)
        if answer is None:
            # Only who has read what the source has lost may have committed it.
            assert mirror.position < offset
            continue
        seen, unread = read(mirror.target, answer.offset), mirror.unread(offset)
        assert set(unread) <= set(seen)
        if seen and answer.kind != "clamped":
            assert seen[0] in unread
    for offset in targets_of(mirror):
        answer = map_.reverse(offset)
        assert answer is not None
        seen_, unread = unread_from(mirror, answer.offset), mirror.unread_on_target(offset)
        assert set(unread) <= set(seen_)
        if seen_ and answer.kind != "clamped":
            assert seen_[0] in unread
        # Nor anything that is still to be copied.
        assert answer.offset <= mirror.position


@given(histories(*_IN_ORDER, "cut", "copy_by_another"))
@examples(200)
def test_what_another_mirror_has_copied_is_skipped_by_no_answer(mirror: Mirror) -> None:
    map_ = OffsetMap.of(mirror.ranges)
    for offset in offsets_of(mirror):
        answer = map_.translate(offset)
        if answer is not None:
            assert set(mirror.unread(offset)) <= set(read(mirror.target, answer.offset))
    for offset in targets_of(mirror):
        answer = map_.reverse(offset)
        if answer is not None:
            unread = mirror.unread_on_target(offset)
            assert set(unread) <= set(unread_from(mirror, answer.offset))


@given(histories(*_IN_ANY_ORDER, "copy_by_another"))
def test_answers_ascend_with_offsets(mirror: Mirror) -> None:
    map_ = OffsetMap.of(mirror.ranges)
    ways: tuple[tuple[Callable[[int], Translation | None], range], ...] = (
        (map_.translate, offsets_of(mirror)),
        (map_.reverse, targets_of(mirror)),
    )
    for way, offsets in ways:
        answers = [answer.offset for offset in offsets if (answer := way(offset))]
        assert all(one <= following for one, following in pairwise(answers))


@given(histories(*_IN_ANY_ORDER), st.integers(0, 30), st.integers(0, 60))
def test_answers_stay_within_the_log(mirror: Mirror, log_start: int, length: int) -> None:
    map_ = OffsetMap.of(mirror.ranges)
    for offset in offsets_of(mirror):
        answer = map_.translate(offset, log_start=log_start, log_end=log_start + length)
        if answer is None:
            assert map_.translate(offset) is None
            continue
        assert log_start <= answer.offset <= log_start + length
        free = map_.translate(offset)
        assert answer == free or answer.kind == "clamped"


# --- a topic that is written on both clusters, and copied both ways


def histories_of_two() -> st.SearchStrategy[TwoWay]:
    """What applications and flows do on both sides."""
    events = ("write_here", "write_there", "copy_there", "copy_here")

    def lived(steps: Sequence[tuple[str, int]]) -> TwoWay:
        both = TwoWay()
        for event, number in steps:
            getattr(both, event)(number)
        return both

    return st.lists(st.tuples(st.sampled_from(events), st.integers(0, 6)), max_size=25).map(lived)


@given(histories_of_two())
@examples(200)
def test_where_records_go_both_ways_nothing_of_either_side_is_skipped(both: TwoWay) -> None:
    map_ = OffsetMap.of(both.to_there, both.to_here)
    for offset in range(len(both.here) + 2):
        answer = map_.translate(offset)
        assert answer is not None or not (both.to_there or both.to_here)
        if answer:
            assert set(both.there[: answer.offset]) - {None} <= set(both.here[:offset])
    for offset in range(len(both.there) + 2):
        answer = map_.reverse(offset)
        if answer:
            assert set(both.here[: answer.offset]) - {None} <= set(both.there[:offset])


@given(histories_of_two())
def test_when_both_flows_have_ended_the_first_record_read_is_unread(both: TwoWay) -> None:
    for _ in range(2):
        both.copy_there(len(both.here))
        both.copy_here(len(both.there))
    map_ = OffsetMap.of(both.to_there, both.to_here)
    answers = []
    for offset in range(len(both.here) + 1):
        answer = map_.translate(offset)
        assert answer is not None
        answers.append(answer.offset)
        seen = read(both.there, answer.offset)
        if seen and answer.kind != "clamped":
            assert seen[0] not in both.here[:offset]
    assert answers == sorted(answers)


def test_what_the_other_side_has_not_been_given_yet_is_read_first() -> None:
    # Failed over after 100 records, of 101; 50 were written there and copied back, after the 101st.
    reverse = OffsetMap.of([a_range(0, 150, [(100, 101, 50)])], [a_range(0, 100, [(0, 0, 100)])])
    assert reverse.translate(30) == (30, "exact")
    assert reverse.translate(120) == (100, "gap")
    assert reverse.translate(150) == (100, "gap")
    afterwards = OffsetMap.of(
        [a_range(0, 152, [(100, 101, 50)])],
        [a_range(0, 100, [(0, 0, 100)]), a_range(100, 152, [(100, 150, 1)])],
    )
    assert afterwards.translate(151) == (152, "gap")
    assert afterwards.translate(152) == (152, "exact")


# The other side's offsets 0 to 9 came from here, and it has copied back in several transactions since.
CAME = [a_range(0, 10, [(0, 0, 10)])]


def test_a_marker_between_two_transactions_is_nothing_unread() -> None:
    both = OffsetMap.of([a_range(0, 12, [(10, 10, 2)]), a_range(12, 15, [(12, 13, 3)])], CAME)
    assert [both.translate(at) for at in (9, 10, 12, 15)] == [
        (9, "exact"),
        (10, "exact"),
        (13, "exact"),
        (16, "exact"),
    ]


@pytest.mark.parametrize(
    "ranges",
    [
        [a_range(0, 12, [(10, 10, 2)], batches=0), a_range(12, 15, [(12, 13, 3)])],
        [a_range(0, 12, [(10, 10, 2)]), a_range(12, 15, [(12, 14, 3)])],
        [a_range(0, 15, [(10, 10, 2), (12, 13, 3)])],
    ],
    ids=[
        "one, after what a takeover found",
        "two, between transactions",
        "one, within a transaction",
    ],
)
def test_other_offsets_that_are_not_in_the_map_may_hold_a_record_that_came_here_never(
    ranges: list[CopiedRange],
) -> None:
    found = OffsetMap.of(ranges, CAME).translate(15)
    assert found
    assert found.offset == 12


def test_a_map_of_a_million_segments_answers_as_a_small_one_does() -> None:
    count = 1_000_000
    every_other, one = 2 * np.arange(count), np.ones(count, dtype=np.int64)
    starts = 2_000 * np.arange(1_000)
    map_ = OffsetMap(
        RangeColumns(
            start=starts,
            end=starts + 2_000,
            rewound_from=np.full(1_000, -1),
            lengths=np.full(1_000, 1_000),
            source=every_other,
            # A marker after each range.
            target=np.arange(count) + np.arange(count) // 1_000,
            records=one,
            batches=np.ones(1_000, dtype=np.int64),
        )
    )
    assert map_.translate(1_999_998) == (1_000_998, "exact")
    assert map_.reverse(1_000_998) == (1_999_998, "exact")
    answers = [map_.translate(offset) for offset in range(1, 2_000_000, 100)]
    assert all(answer and answer.kind == "gap" for answer in answers)


def test_what_others_have_written_between_copies_is_neither_a_copy_nor_its_marker() -> None:
    """Of ``kkkkkMkkkM``, and two records of another client after it."""
    copied = OffsetMap.of([a_range(0, 5, [(0, 100, 5)]), a_range(5, 8, [(5, 106, 3)])])
    counts = [copied.count_strangers(100, end) for end in (105, 110, 112)]
    assert counts == [0, 0, 2]
    assert copied.count_strangers(98, 110) == 2
