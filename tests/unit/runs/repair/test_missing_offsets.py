"""A source offset is missing if the target has no record at any offset that the ledger names for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import Segment
from kafka_ferry.runs.repair.missing_offsets import Span, missing_offsets, spans_of, without

CLAIMS = [Segment(10, 100, 5), Segment(20, 105, 5)]


@pytest.mark.parametrize(
    ("present", "again", "missing"),
    [
        ([(100, 110)], [], []),
        ([(100, 103), (104, 110)], [], [(13, 14)]),
        ([], [], [(10, 15), (20, 25)]),
        # Below the log's start.
        ([(-1, 107)], [], [(22, 25)]),
        # Appended before, and there; appended before, and lost again.
        ([(100, 105), (200, 205)], [Segment(20, 200, 5)], []),
        ([(100, 105), (200, 202)], [Segment(20, 200, 5)], [(22, 25)]),
    ],
)
def test_what_is_missing(present: list[Span], again: list[Segment], missing: list[Span]) -> None:
    assert missing_offsets(CLAIMS, again, present) == missing


@given(st.sets(st.integers(0, 30)), st.integers(0, 15), st.integers(16, 30))
def test_what_is_left_of_a_span(taken: set[int], start: int, end: int) -> None:
    left = without((start, end), spans_of(sorted(taken)))

    assert [at for first, last in left for at in range(first, last)] == [
        at for at in range(start, end) if at not in taken
    ]
