"""What a source has deleted of a window and the target does not have."""

from __future__ import annotations

import pytest

from kafka_ferry.model import Window
from kafka_ferry.model.ranges import Settled
from kafka_ferry.plan.backfill.deleted_offsets import deleted_offsets
from kafka_ferry.plan.backfill.windows import BEGINNING, FOREVER, Span

WINDOW = Window(1_000, 2_000)


def settled(start: int, end: int, since: int = BEGINNING, until: int = FOREVER) -> Settled:
    return Settled(start, end, since, until)


@pytest.mark.parametrize(
    ("known", "offsets", "deleted"),
    [
        ([], (0, 10), [(0, 10)]),
        ([], (10, 10), []),
        ([], (12, 10), []),
        ([settled(0, 30)], (0, 10), []),
        ([settled(0, 4)], (0, 10), [(4, 10)]),
        ([settled(4, 30)], (0, 10), [(0, 4)]),
        ([settled(2, 4), settled(6, 8)], (0, 10), [(0, 2), (4, 6), (8, 10)]),
        ([settled(0, 10, 1_000, 2_000)], (0, 10), []),
        ([settled(0, 10, 1_000, 1_999)], (0, 10), [(0, 10)]),
        ([settled(0, 10, 900, 1_500), settled(3, 10, 1_500, 2_000)], (0, 10), [(0, 3)]),
    ],
)
def test_what_the_ledger_has_for_all_of_the_window_is_not_missing(
    known: list[Settled], offsets: Span, deleted: list[Span]
) -> None:
    assert deleted_offsets(known, offsets, WINDOW) == deleted
