"""Records without a key are compared one by one where only the target compacts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.audit.comparison.compacted import KeysCompared, compare_keys
from kafka_ferry.audit.comparison.findings import Differing
from tests.unit.audit.comparison.logs import MemoryLog, Written


def keyless(*numbers: int) -> list[Written]:
    return [Written(None, b"%d" % number, time=100 + number) for number in numbers]


def compared(
    ours: list[Written], theirs: list[Written], *, source_compacts: bool = False
) -> KeysCompared:
    logs = MemoryLog(ours), MemoryLog(theirs)
    return compare_keys(*logs, source_compacts=source_compacts, most_keys=3)


@given(st.lists(st.integers(0, 9), max_size=30))
def test_the_same_records_are_the_same(numbers: list[int]) -> None:
    found = compared(keyless(*numbers), keyless(*numbers))
    assert (found.differing, found.matched, found.superseded) == ([], len(numbers), 0)


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        # What the target's cleaner leaves: the newest records are not cleaned.
        ([4], [Differing("missing", offset, -1) for offset in range(4)]),
        ([0, 1, 2, 4], [Differing("missing", 3, -1)]),
        ([0, 1, 2, 3, 4, 7], [Differing("foreign", -1, 5)]),
        ([0, 1, 2, 3, 4, 2], [Differing("doubled", 2, 5)]),
    ],
)
def test_what_one_side_lacks_is_found_unless_the_source_may_have_removed_it(
    there: list[int], expected: list[Differing]
) -> None:
    source = keyless(0, 1, 2, 3, 4)
    assert compared(source, keyless(*there)).differing == expected
    found = compared(source, keyless(*there), source_compacts=True)
    assert found.differing == []
    assert found.superseded == 5 + len(there) - 2 * found.matched


def test_of_records_that_are_alike_the_target_has_as_many() -> None:
    assert compared(keyless(7, 7, 7), keyless(7, 7)).differing == [Differing("missing", 2, -1)]


def test_a_log_that_starts_later_explains_as_many_as_it_may_have_deleted() -> None:
    source, target = keyless(0, 1, 2, 3), MemoryLog(keyless(3), since=2, lost_head=True)
    found = compare_keys(MemoryLog(source), target, source_compacts=False)
    assert (found.removed, found.differing) == (2, [Differing("missing", 2, -1)])


def test_a_log_start_explains_nothing_after_a_record_that_both_have() -> None:
    target = MemoryLog(keyless(1, 3), since=2, lost_head=True)
    found = compare_keys(MemoryLog(keyless(0, 1, 2, 3)), target, source_compacts=False)
    assert (found.removed, found.differing) == (1, [Differing("missing", 2, -1)])
    alike = MemoryLog(keyless(7, 7), since=1, lost_head=True)
    found = compare_keys(MemoryLog(keyless(7, 7, 7)), alike, source_compacts=False)
    assert (found.removed, found.differing) == (1, [])
