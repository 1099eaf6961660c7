"""Which batches hold records that came from the target, and what becomes of them."""

from contextlib import nullcontext
from itertools import starmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import (
    AbortFilter,
    MalformedBatch,
    Reason,
    Returned,
    converted_batches,
    split_batches,
)
from kafka_ferry.batches.returned_records import ANY_PRODUCER, LogSeen, ReturnedSpan
from tests.support.records.batches import a_batch, a_marker

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


@given(SPANS, st.integers(0, 90))
def test_a_stretch_ends_where_the_next_offset_is_not_among_them(
    spans: list[tuple[int, int]], offset: int
) -> None:
    returned = Returned(ReturnedSpan(start, start + count, 7) for start, count in spans)
    held = {at for start, count in spans for at in range(start, start + count)}
    absent = returned.left_out_from(offset)
    end = absent.end if absent else offset
    assert set(range(offset, end)) <= held
    assert end not in held


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], None),
        ([(10, 13, 7)], Reason.RETURNED),
        ([(10, 13, ANY_PRODUCER)], Reason.RETURNED),
        ([(0, 11, 7), (11, 20, 7)], Reason.RETURNED),
        ([(0, 10, 7)], None),
        ([(13, 20, 7)], None),
        # The log was truncated, and another producer has written there since.
        ([(10, 13, 8)], None),
        ([(9, 11, 8)], None),
        ([(10, 20, 8), (10, 13, 7)], Reason.RETURNED),
    ],
)
def test_a_batch_is_among_them_whole_or_not_at_all(
    spans: list[tuple[int, int, int]], expected: Reason | None
) -> None:
    (batch,) = split_batches(a_batch(3, at=10, producer_id=7))
    assert Returned(starmap(ReturnedSpan, spans)).reason(batch, 10, 13) is expected


@pytest.mark.parametrize(
    ("adopted_epoch", "expected"), [(-1, Reason.RETURNED), (5, Reason.RETURNED), (4, None)]
)
def test_what_was_written_after_another_mirrors_log_was_cut_is_not_that_mirrors(
    adopted_epoch: int, expected: Reason | None
) -> None:
    (batch,) = split_batches(a_batch(3, at=10, leader_epoch=5))
    spans = [ReturnedSpan(0, 20, ANY_PRODUCER)]
    returned = Returned(spans, lambda _, __: adopted_epoch >= 5, adopted_epoch)
    assert returned.reason(batch, 10, 13) is expected
    absent = returned.left_out_from(10)
    assert absent
    assert returned.is_sure(absent) is (expected is not None)


@pytest.mark.parametrize("span", [(9, 11), (12, 14), (11, 12)])
def test_a_ledger_that_names_a_part_of_a_batch_speaks_of_another_log(span: tuple[int, int]) -> None:
    (batch,) = split_batches(a_batch(3, at=10, producer_id=7))
    with pytest.raises(MalformedBatch, match="a batch at offset 10 of which a part alone"):
        Returned([ReturnedSpan(*span, 7)]).reason(batch, 10, 13)


@pytest.mark.parametrize(
    ("seen", "is_sure"),
    [
        (LogSeen(13, 4), True),
        (LogSeen(99, -1), True),
        # An unclean leader election has taken what was there, and something else has come in its place.
        (LogSeen(12, 4), False),
        (LogSeen(99, 3), False),
    ],
)
def test_of_what_has_come_since_the_ledger_was_read_nothing_is_known(
    seen: LogSeen, is_sure: bool
) -> None:
    (batch,) = split_batches(a_batch(3, at=10, leader_epoch=4))
    with nullcontext() if is_sure else pytest.raises(MalformedBatch, match="the next run asks"):
        assert Returned(seen=seen).reason(batch, 10, 13) is None


@pytest.mark.parametrize("spans", [[], [(0, 9, 7)], [(10, 13, 8)]])
def test_what_a_writer_of_the_opposite_flow_has_written_is_in_its_ledger(
    spans: list[tuple[int, int, int]],
) -> None:
    (batch,) = split_batches(a_batch(3, at=10, producer_id=7, transactional=True))
    returned = Returned(starmap(ReturnedSpan, spans), is_writers=[7].__contains__)
    with pytest.raises(MalformedBatch, match="has lost records"):
        returned.reason(batch, 10, 13)
    assert Returned(starmap(ReturnedSpan, spans)).reason(batch, 10, 13) is None


@pytest.mark.parametrize("writer", [7, 8])
def test_many_records_are_passed_over_only_if_the_log_still_has_the_last_one(writer: int) -> None:
    asked: list[int] = []

    def is_by(offset: int, producer_id: int) -> bool:
        asked.append(offset)
        return producer_id == writer

    returned = Returned([ReturnedSpan(0, 20_000, 7)], is_by)
    absent = returned.left_out_from(5)
    assert absent
    assert returned.is_sure(absent) is (writer == 7)
    assert asked == [19_999]
    assert (returned.left_out_from(6) is not None) is (writer == 7)


@pytest.mark.parametrize(
    ("lost", "copied", "returned"),
    [
        ([], [], 6),
        ([(4, 6)], [4, 5], 4),
        ([(2, 8)], [2, 3, 4, 5, 6, 7], 0),
        ([(3, 4), (7, 20)], [3, 7], 4),
    ],
)
def test_what_the_target_has_lost_since_is_copied(
    lost: list[tuple[int, int]], copied: list[int], returned: int
) -> None:
    log = a_batch(2, at=0) + a_batch(6, at=2, producer_id=4) + a_batch(1, at=8)
    known = Returned([ReturnedSpan(2, 8, 4)], lost=lost)
    found = list(converted_batches(log, AbortFilter(()), 0, 9, filters=[known]))
    offsets = [
        offset for it in found for first, count in it.runs for offset in range(first, first + count)
    ]
    assert offsets == [0, 1, *copied, 8]
    assert sum(it.reasons.get(Reason.RETURNED, 0) for it in found) == returned
    absent = known.left_out_from(2)
    assert (absent.end if absent else 2) == min([8, *copied])


def test_nothing_is_decided_where_what_the_target_has_lost_is_unknown() -> None:
    log = a_batch(2, at=0) + a_batch(6, at=2, producer_id=4)
    known = Returned([ReturnedSpan(2, 8, 4)], lost=None)
    assert known.left_out_from(2) is None
    found = converted_batches(log, AbortFilter(()), 0, 8, filters=[known])
    assert next(found).runs == ((0, 2),)
    with pytest.raises(MalformedBatch, match="whose log was truncated since"):
        next(found)


def test_a_batch_in_the_place_of_what_the_target_has_lost_is_copied_whole() -> None:
    log = a_batch(6, at=2, producer_id=9)
    known = Returned([ReturnedSpan(2, 8, 4)], lost=[(4, 6)])
    (converted,) = converted_batches(log, AbortFilter(()), 2, 8, filters=[known])
    assert converted.runs == ((2, 6),)


def test_offsets_are_records_or_have_one_reason_each() -> None:
    log = (
        a_batch(2, at=0)
        + a_batch(3, at=2, producer_id=4)
        + a_marker(at=5, producer_id=4, commit=True)
    )
    log += a_batch(1, at=6)
    (converted,) = converted_batches(
        log, AbortFilter(()), 0, 7, filters=[Returned([ReturnedSpan(2, 5, 4)])]
    )
    assert converted.runs == ((0, 2), (6, 1))
    assert converted.reasons == {Reason.RETURNED: 3, Reason.CONTROL: 1}
