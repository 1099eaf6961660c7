"""The arithmetic over intervals and runs of offsets, against sets of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.groups.columns import FOREVER, Runs, disjoint, gaps, least_from
from kafka_ferry.ledger.queries.range_columns import Offsets

pieces = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(1, 8)), max_size=6)


def column(*numbers: int) -> Offsets:
    return np.array(numbers, dtype=np.int64)


def runs_of(found: list[tuple[int, int, int]]) -> Runs:
    return Runs(*(column(*numbers) for numbers in zip(*found, strict=True))) if found else NONE


NONE = Runs(column(), column(), column())


def pairs(runs: Runs) -> list[tuple[int, int]]:
    """Each offset with its image, run by run."""
    listed = zip(*(part.tolist() for part in runs), strict=True)
    return [(at + i, image + i) for at, image, length in listed for i in range(length)]


@given(pieces)
def test_disjoint_runs_have_each_offset_once_with_its_first_image(
    found: list[tuple[int, int, int]],
) -> None:
    least: dict[int, int] = {}
    for at, image in pairs(runs_of(found)):
        least[at] = min(least.get(at, FOREVER), image)
    assert pairs(disjoint(runs_of(found))) == sorted(least.items())


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), min_size=1, max_size=6))
def test_gaps_are_what_no_interval_covers_between_the_first_and_the_last(
    found: list[tuple[int, int]],
) -> None:
    covered = {offset for start, length in found for offset in range(start, start + length)}
    starts, ends = column(*(s for s, _ in found)), column(*(s + n for s, n in found))
    between = [offset for first, last in gaps(starts, ends) for offset in range(first, last)]
    assert between == sorted(set(range(min(covered), max(covered))) - covered)


@pytest.mark.parametrize(
    ("runs", "first", "end"), [([], FOREVER, 0), ([(5, 0, 3), (2, 9, 1)], 2, 8)]
)
def test_runs_know_their_first_offset_and_the_one_after_their_last(
    runs: list[tuple[int, int, int]], first: int, end: int
) -> None:
    assert (runs_of(runs).first, runs_of(runs).end) == (first, end)
    assert pairs(runs_of(runs).reverse()) == [(image, at) for at, image in pairs(runs_of(runs))]


def test_the_least_from_each_place_on() -> None:
    assert least_from(column(3, 1, 2, 5)).tolist() == [1, 1, 2, 5]
