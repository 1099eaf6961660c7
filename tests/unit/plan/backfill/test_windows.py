"""The arithmetic of what a backfill has still to copy."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.model import Window
from kafka_ferry.model.ranges import Settled
from kafka_ferry.plan.backfill.windows import (
    Accounted,
    common,
    gaps,
    hull,
    merge_spans,
    settled_spans,
    whole_spans,
    within,
)

_OFFSETS, _TIMES = 24, 12


def _spans(highest: int) -> st.SearchStrategy[tuple[int, int]]:
    ends = st.lists(st.integers(0, highest), min_size=2, max_size=2, unique=True)
    return ends.map(lambda two: (min(two), max(two)))


WINDOWS = _spans(_TIMES).map(lambda span: Window(*span))
RANGES = st.lists(
    st.builds(
        lambda span, window, rewinds: Accounted(*span, window, rewinds and window is None),
        _spans(_OFFSETS),
        st.none() | WINDOWS,
        st.booleans(),
    ),
    max_size=8,
)


def _model(ranges: Sequence[Accounted]) -> set[tuple[int, int]]:
    """Every settled pair of offset and timestamp, one by one."""
    settled: set[tuple[int, int]] = set()
    for range_ in ranges:
        if range_.is_rewind:
            settled = {pair for pair in settled if pair[0] < range_.start}
        window = range_.window or Window(-1, _TIMES + 1)
        settled |= {
            (offset, time)
            for offset in range(range_.start, range_.end)
            for time in range(max(window.since_ms, 0), min(window.until_ms, _TIMES))
        }
    return settled


@given(RANGES, _spans(_OFFSETS), WINDOWS)
def test_each_offset_and_timestamp_is_settled_exactly_if_a_range_says_so(
    ranges: Sequence[Accounted], offsets: tuple[int, int], window: Window
) -> None:
    wanted = {
        (offset, time)
        for offset, time in _model(ranges)
        if offsets[0] <= offset < offsets[1] and window.since_ms <= time < window.until_ms
    }
    found = [
        (offset, time)
        for it in within(settled_spans(ranges), offsets, window)
        for offset in range(it.start, it.end)
        for time in range(it.since, it.until)
    ]
    assert len(found) == len(set(found))
    assert set(found) == wanted


@given(RANGES, _spans(_OFFSETS), WINDOWS)
def test_a_backfill_looks_from_the_first_offset_with_something_missing_to_the_last(
    ranges: Sequence[Accounted], offsets: tuple[int, int], window: Window
) -> None:
    settled = _model(ranges)
    missing = [
        offset
        for offset in range(*offsets)
        if any((offset, time) not in settled for time in range(window.since_ms, window.until_ms))
    ]
    found = within(settled_spans(ranges), offsets, window)
    expected = (missing[0], missing[-1] + 1) if missing else None
    assert hull(found, offsets, window) == expected
    whole = {offset for span in whole_spans(found, window) for offset in range(*span)}
    assert whole == set(range(*offsets)) - set(missing)


@given(RANGES, _spans(_OFFSETS), WINDOWS)
def test_what_is_settled_takes_as_few_pieces_whatever_the_ledger_was_written_in(
    ranges: Sequence[Accounted], offsets: tuple[int, int], window: Window
) -> None:
    found = within(settled_spans(ranges), offsets, window)
    assert within(found, offsets, window) == found


@given(st.lists(_spans(_OFFSETS)), st.lists(_spans(_OFFSETS)))
def test_common_offsets_are_counted_once(
    left: list[tuple[int, int]], right: list[tuple[int, int]]
) -> None:
    both = {o for s in left for o in range(*s)} & {o for s in right for o in range(*s)}
    assert common(merge_spans(left), merge_spans(right)) == len(both)


@given(st.lists(_spans(_OFFSETS)), _spans(_OFFSETS))
def test_an_offset_that_is_in_no_span_is_uncovered(
    spans: list[tuple[int, int]], offsets: tuple[int, int]
) -> None:
    covered = {o for span in spans for o in range(*span)}
    parts = gaps(merge_spans(spans), offsets)
    assert [o for part in parts for o in range(*part)] == sorted({*range(*offsets)} - covered)
    assert merge_spans(parts) == parts


def test_two_days_backfilled_one_by_one_are_both_days() -> None:
    ranges = [Accounted(0, 10, Window(0, 5)), Accounted(2, 12, Window(5, 9))]
    both = Window(0, 9)
    found = within(settled_spans(ranges), (0, 12), both)
    assert Settled(2, 10, 0, 9) in found
    assert list(whole_spans(found, both)) == [(2, 10)]


def test_a_backfill_settles_nothing_outside_of_its_window() -> None:
    settled = settled_spans([Accounted(0, 10, Window(0, 5))])
    assert hull(within(settled, (0, 10), Window(4, 6)), (0, 10), Window(4, 6)) == (0, 10)
    assert hull(within(settled, (0, 10), Window(4, 5)), (0, 10), Window(4, 5)) is None
