"""Each fault that is planted into a copy is found, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.audit.comparison import altered as altered_records
from kafka_ferry.audit.comparison import walk
from kafka_ferry.audit.comparison.findings import Differing
from kafka_ferry.audit.comparison.unmatched import Judged, as_findings, judge_unmatched
from kafka_ferry.audit.comparison.walk import LogWalk, WalkState
from tests.unit.audit.comparison.logs import MemoryLog, Written, altered, many, plant


def compared(
    source: MemoryLog | Sequence[Written],
    target: MemoryLog | Sequence[Written],
    recent: tuple[int, int] | None = None,
    **options: Any,
) -> tuple[WalkState, Judged]:
    ours = source if isinstance(source, MemoryLog) else MemoryLog(source)
    theirs = target if isinstance(target, MemoryLog) else MemoryLog(target)
    state = WalkState(ours.since, theirs.since)
    LogWalk(ours, theirs, state, **options).go()
    assert state.is_over
    found = judge_unmatched(ours, theirs, state, times=ours.times, recent=recent)
    assert_accounted(state, found, len(ours.records), len(theirs.records))
    return state, found


def assert_accounted(state: WalkState, found: Judged, ours: int, theirs: int) -> None:
    """Each record of both sides counts exactly once."""
    both = state.passed + found.in_order
    both += sum(one.kind in ("reordered", "altered") for one in found.differing)
    doubled = sum(one.kind == "doubled" for one in found.differing)
    assert state.source_records == ours
    assert state.target_records == theirs
    assert both + len(found.missing) + found.removed + found.pending == ours
    assert both + doubled + len(found.foreign) + found.expired == theirs


def findings(found: Judged) -> set[Differing]:
    return {*found.differing, *as_findings(found.missing, found.foreign)}


@given(st.integers(12, 120), st.integers(0, 6), st.integers(), st.integers(1, 40))
def test_every_fault_is_found_and_nothing_else(
    count: int, faults: int, seed: int, block: int
) -> None:
    source = many(count)
    planted = plant(source, faults, seed)
    _, found = compared(source, planted.copy, block=block)
    assert findings(found) == planted.expected


@given(
    st.lists(st.integers(0, 3), max_size=40),
    st.lists(st.integers(0, 4), max_size=40),
    st.integers(1, 9),
    st.integers(4, 20),
)
def test_every_record_counts_once_whatever_the_logs_hold(
    ours: list[int], theirs: list[int], block: int, ahead: int
) -> None:
    source = [Written(None, b"%d" % value, time=value) for value in ours]
    target = [Written(None, b"%d" % value, time=value) for value in theirs]
    _, found = compared(source, target, block=block, most_ahead=ahead)
    kinds = [one.kind for one in findings(found)]
    for value in range(5):
        surplus = theirs.count(value) - ours.count(value)
        if ours.count(value):
            assert sum(
                one.kind == "doubled" and theirs[one.target] == value for one in found.differing
            ) == max(surplus, 0)
    assert ("missing" in kinds or "altered" in kinds) == any(
        ours.count(value) > theirs.count(value) for value in range(5)
    )


def test_a_mirror_that_went_back_has_doubled_what_it_wrote_since() -> None:
    source = many(500)
    target = source[:300] + source[120:]
    state, found = compared(source, target, block=50)
    assert findings(found) == {Differing("doubled", 120 + i, 300 + i) for i in range(180)}
    assert state.matched == 500


@pytest.mark.parametrize("by_time", [True, False])
def test_a_long_repetition_is_found_in_small_windows(by_time: bool) -> None:
    source = many(600)
    target = source[:500] + source[:500] + source[500:]
    _, found = compared(source, target, block=20, most_ahead=64, by_time=by_time)
    assert {one.kind for one in findings(found)} == {"doubled"}
    assert len(findings(found)) == 500


def test_a_long_hole_is_found_in_small_windows() -> None:
    source = many(600)
    _, found = compared(source, source[:100] + source[450:], block=20, most_ahead=64)
    assert found.missing.offsets.tolist() == list(range(100, 450))
    assert not found.differing


def test_records_before_the_sources_log_start_are_not_foreign() -> None:
    source = many(100)
    target = source[:60] + source[40:]
    _, found = compared(MemoryLog(source[50:], since=50, lost_head=True), target, block=8)
    # 60 to 69 repeat 40 to 49, which the source has deleted; 70 to 79 repeat 50 to 59.
    assert found.expired == 50
    expected = {Differing("doubled", -1, 60 + i) for i in range(10)}
    expected |= {Differing("doubled", 50 + i, 70 + i) for i in range(10)}
    assert findings(found) == expected


@pytest.mark.parametrize("backfilled", [0, 40, 50])
def test_records_that_a_backfill_put_after_newer_ones_are_not_missing(backfilled: int) -> None:
    """The source has deleted the first 50 since, of which the backfill has found those from ``backfilled`` on."""
    source = many(100)
    target = source[95:] + source[backfilled:95]
    _, found = compared(MemoryLog(source[50:], since=50, lost_head=True), target, block=8)
    assert findings(found) == {Differing("reordered", 95 + i, i) for i in range(5)}
    assert found.expired == 50 - backfilled


def test_records_that_the_target_has_deleted_are_not_missing() -> None:
    source = many(100)
    target = MemoryLog(source[30:70] + source[71:], since=30, lost_head=True)
    _, found = compared(source, target, block=8)
    assert found.removed == 30
    assert findings(found) == {Differing("missing", 70, -1)}


def test_what_was_appended_is_not_what_the_target_has_deleted() -> None:
    """A flow that began at 20 has copied [0, 20) late, or a repair [20, 40) again: the target has deleted others."""
    source = many(100)
    for appended, deleted in ((source[:20], 40), (source[20:40], 50)):
        target = MemoryLog(source[deleted:] + appended, since=deleted, lost_head=True)
        _, found = compared(source, target, block=8)
        assert found.removed == deleted - 20
        at = source.index(appended[0])
        assert findings(found) == {Differing("reordered", at + i, 100 + i) for i in range(20)}


def test_no_more_records_are_deleted_on_the_target_than_its_log_start_says() -> None:
    source = many(100)
    _, found = compared(source, MemoryLog(source[33:], since=30, lost_head=True), block=8)
    assert found.removed == 30
    assert found.missing.offsets.tolist() == [30, 31, 32]


@pytest.mark.parametrize("most_of_head", [1, 100_000])
def test_a_log_start_explains_no_more_than_its_offset_whatever_the_source_has_lost(
    monkeypatch: pytest.MonkeyPatch, most_of_head: int
) -> None:
    monkeypatch.setattr(walk, "_MOST_OF_HEAD", most_of_head)
    source = MemoryLog(many(100, since=1), since=1, lost_head=True)
    target = MemoryLog(source.records[18:], since=2, lost_head=True)
    _, found = compared(source, target, block=8)
    assert (found.removed, len(found.missing)) == (2, 16)
    _, found = compared(source, MemoryLog([], since=2, lost_head=True), block=8, most_ahead=10)
    assert (found.removed, len(found.missing)) == (2, 98)


def test_no_more_records_are_expired_on_the_source_than_its_log_start_says() -> None:
    source = MemoryLog(many(60, since=5), since=5, lost_head=True)
    target = [*many(5), *many(50, since=1_000), *source.records]
    _, found = compared(source, target, block=8, most_ahead=10)
    assert (found.expired, found.foreign.offsets.tolist()) == (5, list(range(5, 55)))


@pytest.mark.parametrize("start", [10, 20])
def test_what_the_source_still_has_is_no_copy_of_what_it_has_deleted(start: int) -> None:
    """A mirror was killed at 70 and went on at 20; retention has taken some of both sides since."""
    source = many(100)
    target = MemoryLog(source[50:70] + source[20:], since=50, lost_head=True)
    _, found = compared(MemoryLog(source[start:], since=start, lost_head=True), target, block=8)
    assert findings(found) == {Differing("doubled", 50 + i, 50 + i) for i in range(20)}
    assert (found.expired, found.removed) == (0, 20 - start)


def test_what_was_doubled_after_the_source_had_deleted_it_is_told_as_doubled() -> None:
    source = MemoryLog(many(60, since=50), since=50, lost_head=True)
    target = [*many(50), *many(20, since=30), *source.records]
    _, found = compared(source, target, block=8)
    assert found.expired == 50
    assert findings(found) == {Differing("doubled", -1, 50 + i) for i in range(20)}


def test_a_target_that_reaches_further_back_than_the_source_has_deleted_none_of_its_records() -> (
    None
):
    source = MemoryLog(many(60, since=5), since=5, lost_head=True)
    target = MemoryLog([*many(1, since=4), *source.records[40:]], since=50, lost_head=True)
    _, found = compared(source, target, block=8)
    assert (found.expired, found.removed, len(found.missing)) == (1, 0, 40)


def test_a_source_that_was_recreated_leaves_foreign_records_on_the_target() -> None:
    before, source = many(40), many(60, since=1_000)
    _, found = compared(source, before + source, block=8)
    assert found.foreign.offsets.tolist() == list(range(40))
    assert not found.differing


def test_what_is_recent_at_the_end_may_not_have_been_copied_yet() -> None:
    source = many(50)
    recent = source[45].time, source[48].time
    _, found = compared(source, source[:20] + source[21:40], recent=recent)
    assert found.pending == 3
    assert found.missing.offsets.tolist() == [20, *range(40, 45), 48, 49]


def test_times_that_are_not_compared_make_no_difference() -> None:
    source = many(50)
    target = [record._replace(time=9_999) for record in source]
    target[10] = altered(target[10], ["value", "headers"])
    target[20] = altered(target[20], ["key"])
    _, found = compared(MemoryLog(source, times=False), MemoryLog(target, times=False))
    assert Differing("altered", 20, 20, ("key",)) in findings(found)
    assert {one.kind for one in findings(found)} == {"altered", "missing", "foreign"}


def test_a_log_with_holes_in_its_offsets_is_compared_by_its_records() -> None:
    source = many(30)
    holes = MemoryLog(source, offsets=[2 * i for i in range(30)])
    _, found = compared(holes, MemoryLog(source[:9] + source[10:]))
    assert findings(found) == {Differing("missing", 18, -1)}


def test_many_alterations_are_looked_at_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(altered_records, "AT_ONCE", 7)
    source = many(300)
    target = list(source)
    for place in range(1, 300, 3):
        target[place] = altered(target[place], ["value"])
    _, found = compared(source, target)
    assert findings(found) == {
        Differing("altered", place, place, ("value",)) for place in range(1, 300, 3)
    }
    everything = [altered(record, ["headers"]) for record in source]
    _, found = compared(source, everything, block=10, most_ahead=20)
    assert findings(found) == {
        Differing("altered", place, place, ("headers",)) for place in range(300)
    }
