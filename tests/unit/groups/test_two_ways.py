"""Offsets where the opposite flow has copied back in several transactions."""

from kafka_ferry.groups.translation import OffsetMap
from tests.support.model_log import a_range

CAME = [a_range(0, 10, [(0, 0, 10)])]


def test_a_marker_between_two_transactions_is_nothing_that_somebody_has_not_read() -> None:
    both = OffsetMap.of([a_range(0, 12, [(10, 10, 2)]), a_range(12, 15, [(12, 13, 3)])], CAME)
    assert [both.translate(at) for at in (9, 10, 12, 15)] == [
        (9, "exact"),
        (10, "exact"),
        (13, "exact"),
        (16, "exact"),
    ]


def test_after_what_a_takeover_has_found_one_offset_may_hold_such_a_record() -> None:
    found_there = a_range(0, 12, [(10, 10, 2)], batches=0)
    both = OffsetMap.of([found_there, a_range(12, 15, [(12, 13, 3)])], CAME)
    found = both.translate(15)
    assert found
    assert found.offset == 12


def test_two_offsets_between_them_may_hold_a_record_that_nobody_has_copied_here() -> None:
    both = OffsetMap.of([a_range(0, 12, [(10, 10, 2)]), a_range(12, 15, [(12, 14, 3)])], CAME)
    found = both.translate(15)
    assert found
    assert found.offset == 12


def test_one_offset_within_a_transaction_may_too() -> None:
    both = OffsetMap.of([a_range(0, 15, [(10, 10, 2), (12, 13, 3)])], CAME)
    found = both.translate(15)
    assert found
    assert found.offset == 12
