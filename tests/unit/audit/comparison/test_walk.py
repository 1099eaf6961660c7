"""A walk keeps nothing of what is the same, and can be interrupted anywhere."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.audit.comparison import walk
from kafka_ferry.audit.comparison.unmatched import judge_unmatched
from kafka_ferry.audit.comparison.walk import LogWalk, WalkState
from tests.unit.audit.comparison.logs import MemoryLog, many, plant
from tests.unit.audit.comparison.test_unmatched import compared, findings


@given(st.integers(20, 120), st.integers(0, 5), st.integers(), st.integers(1, 9))
def test_an_interrupted_walk_finds_the_same(
    count_: int, faults: int, seed: int, block: int
) -> None:
    source = many(count_)
    planted = plant(source, faults, seed)
    ours, theirs = MemoryLog(source), MemoryLog(planted.copy)
    state = WalkState(0, 0)
    while not state.is_over:
        steps = count()
        LogWalk(ours, theirs, state, block=block).go(lambda steps=steps: next(steps) < 2)
    found = judge_unmatched(ours, theirs, state)
    assert findings(found) == planted.expected


def test_equal_logs_are_read_once_and_leave_nothing() -> None:
    source, target = MemoryLog(many(1_000)), MemoryLog(many(1_000))
    state, found = compared(source, target, block=100)
    assert state.matched == 1_000
    assert not findings(found)
    assert source.reads == target.reads == 1_000


def test_a_sample_counts_everything_and_compares_one_block_in_n() -> None:
    source, target = MemoryLog(many(1_000)), MemoryLog(many(1_000))
    state, found = compared(source, target, block=10, one_in=5)
    assert state.skipped + state.matched == 1_000
    # The first block, then the last one of each five.
    assert source.reads == target.reads == 10 * (1 + 990 // 50)
    assert not findings(found)


@given(st.integers(30, 200), st.integers(1, 3), st.integers(), st.integers(2, 4))
def test_a_sample_finds_all_that_changes_a_count(
    records: int, gone: int, seed: int, one_in: int
) -> None:
    source = many(records)
    first = 5 + seed % (records - 10)
    target = source[:first] + source[first + gone :]
    _, found = compared(source, target, block=4, one_in=one_in)
    assert found.missing.offsets.tolist() == list(range(first, min(first + gone, records)))
    assert not found.differing
    assert not len(found.foreign)


def test_a_sample_does_not_see_an_altered_record_of_a_block_that_is_only_counted() -> None:
    source = many(100)
    target = [*source]
    for number in (25, 55, 88):
        target[number] = target[number]._replace(value=b"another")
    _, found = compared(source, target, block=10, one_in=5, most_ahead=10)
    # Block 5 is compared and differs, so that all since the last one are read again; 88 is not.
    assert [one.source for one in found.differing] == [25, 55]


def test_a_walk_gives_up_where_a_record_shows_late_that_the_target_has_deleted_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(walk, "_MOST_OF_HEAD", 1)
    source = MemoryLog(many(100, since=5), since=5, lost_head=True)
    target = MemoryLog([*many(1, since=4), *source.records[80:]], since=90, lost_head=True)
    state = WalkState(source.since, target.since)
    LogWalk(source, target, state, block=8, most_ahead=10).go()
    assert state.is_lost


def test_a_walk_among_strangers_gives_up() -> None:
    state = WalkState(0, 0)
    LogWalk(MemoryLog(many(500)), MemoryLog(many(500, since=900)), state, block=10, most=100).go()
    assert state.is_lost
    assert not state.is_over
