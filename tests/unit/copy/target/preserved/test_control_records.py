"""Which coordinator epoch fences the writers before."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.copy.target.preserved.control_records import later_epoch
from kafka_ferry.errors import FerryError


@given(
    own=st.integers(0, 32_000),
    ago=st.integers(0, 32_000),
    cycles=st.integers(0, 60_000),
    takeovers=st.lists(st.tuples(st.booleans(), st.integers(1, 9)), min_size=2, max_size=9),
)
def test_each_take_over_has_a_higher_one_whatever_earlier_writers_have_chosen_or_written(
    own: int, ago: int, cycles: int, takeovers: list[tuple[bool, int]]
) -> None:
    """Also of writers that have seen the same last one."""
    last, chosen = cycles * 32_768 + max(0, own - ago), []
    for has_written, later in takeovers:
        own += later
        epoch = later_epoch(last, own)
        assert all(epoch > other for other in (last, *chosen))
        chosen.append(epoch)
        last = epoch if has_written else last


@given(last=st.integers(-1, 2**31 - 2**17), own=st.integers(0, 32_766))
def test_it_is_higher_than_any_that_was_written_by_whatever_rule(last: int, own: int) -> None:
    assert later_epoch(last, own) > last


@pytest.mark.parametrize("last", [2**31 - 1, 65_535 * 2**15 + 9])
def test_where_there_is_none_that_is_higher_that_is_said(last: int) -> None:
    with pytest.raises(FerryError, match="hardly any is left"):
        later_epoch(last, 8)


def test_it_grows_by_what_the_producers_epoch_grows() -> None:
    last = 217_000_000
    for own in itertools.islice(itertools.cycle(range(32_767)), 100_000):
        last = later_epoch(last, own)
    assert last < 217_000_000 + 5 * 32_768
