"""Which batches hold records that came from the target, and what becomes of them."""

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
from tests.support.records.batches import a_batch, a_marker

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


@given(SPANS, st.integers(0, 90))
def test_a_stretch_ends_where_the_next_offset_is_not_among_them(
    spans: list[tuple[int, int]], offset: int
) -> None:
    returned = Returned((start, start + count) for start, count in spans)
    held = {at for start, count in spans for at in range(start, start + count)}
    end = returned.end_at(offset)
    assert set(range(offset, end)) <= held
    assert end not in held


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], None),
        ([(10, 13)], Reason.RETURNED),
        ([(0, 11), (11, 20)], Reason.RETURNED),
        ([(0, 10)], None),
        ([(13, 20)], None),
    ],
)
def test_a_batch_is_among_them_whole_or_not_at_all(
    spans: list[tuple[int, int]], expected: Reason | None
) -> None:
    (batch,) = split_batches(a_batch(3, at=10))
    assert Returned(spans).reason(batch, 10, 13) is expected


@pytest.mark.parametrize("span", [(9, 11), (12, 14), (11, 12)])
def test_a_ledger_that_names_a_part_of_a_batch_speaks_of_another_log(span: tuple[int, int]) -> None:
    (batch,) = split_batches(a_batch(3, at=10))
    with pytest.raises(MalformedBatch, match="a batch at offset 10 of which a part alone"):
        Returned([span]).reason(batch, 10, 13)


def test_offsets_are_records_or_have_one_reason_each() -> None:
    log = a_batch(2, at=0) + a_batch(3, at=2) + a_marker(at=5, producer_id=4, commit=True)
    log += a_batch(1, at=6)
    (converted,) = converted_batches(log, AbortFilter(()), 0, 7, filters=[Returned([(2, 5)])])
    assert converted.runs == ((0, 2), (6, 1))
    assert converted.reasons == {Reason.RETURNED: 3, Reason.CONTROL: 1}
