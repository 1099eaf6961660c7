"""A target offset is claimed by the range that was written there last."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import Segment
from kafka_ferry.verify.claim import RangeClaim, without_overwritten
from kafka_ferry.verify.shared_topics import everything_after


def claim(*segments: tuple[int, int, int]) -> RangeClaim:
    return RangeClaim(tuple(map(Segment._make, segments)), 0, 9_999)


def test_claims_that_do_not_overlap_stay_as_they_are() -> None:
    claims = [claim((0, 0, 5), (5, 6, 2)), claim(), claim((7, 9, 3))]
    assert without_overwritten(claims) == claims


@pytest.mark.parametrize(
    ("more", "log_end"),
    [({}, 15), ({"producer_id": 7}, 16), ({"preserved": True, "producer_id": 7}, 40)],
    ids=["of another mirror", "of a transaction", "preserved"],
)
def test_a_log_reaches_as_far_as_what_is_claimed_and_its_marker(
    more: dict[str, Any], log_end: int
) -> None:
    assert RangeClaim((Segment(0, 10, 5),), 0, 40, **more).log_end == log_end
    assert everything_after(10).log_end == 0


def test_a_truncated_log_holds_what_was_written_after_it_was_truncated() -> None:
    old, new = claim((0, 10, 500), (500, 600, 2_400)), claim((3_000, 550, 100))
    assert without_overwritten([old, new]) == [
        claim((0, 10, 500), (550, 650, 2_350)),
        new,
    ]
    assert without_overwritten([claim((0, 0, 3_000)), claim((3_000, 925, 100))]) == [
        claim((0, 0, 925), (1_025, 1_025, 1_975)),
        claim((3_000, 925, 100)),
    ]


@given(st.lists(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6)), max_size=4), max_size=4))
def test_each_offset_belongs_to_the_last_claim_that_has_it(
    spans: list[list[tuple[int, int]]],
) -> None:
    claims = []
    for of_claim in spans:
        segments, at = [], 0
        for gap, records in of_claim:
            segments.append((1_000 + at + gap, at + gap, records))
            at += gap + records
        claims.append(claim(*segments))

    def owners(of: list[RangeClaim]) -> dict[int, tuple[int, int]]:
        return {
            target + i: (number, source + i)
            for number, one in enumerate(of)
            for source, target, records in one.segments
            for i in range(records)
        }

    left = without_overwritten(claims)
    assert owners(left) == owners(claims)
    assert sum(records for one in left for _, _, records in one.segments) == len(owners(claims))
