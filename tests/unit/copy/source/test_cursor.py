"""What a cursor says of the batches that it meets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_ferry.batches import ConvertedBatch, gap
from kafka_ferry.copy.source.cursor import Cursor, Read
from kafka_ferry.model.ranges import Backfill, Range

ORDINARY = Range("orders", 0, 0, 20, "id of orders", "primary.orders", 1)


@pytest.mark.parametrize(
    ("backfill", "epochs", "is_newer"),
    [
        (None, (9,), False),
        (Backfill(0, 9, 0), (9,), False),
        (Backfill(0, 9, 0, leader_epoch=4), (), False),
        (Backfill(0, 9, 0, leader_epoch=4), (-1, 3, 4), False),
        (Backfill(0, 9, 0, leader_epoch=4), (4, 5), True),
    ],
    ids=["ordinary", "epoch not known", "no batch", "up to the position's epoch", "later"],
)
def test_below_the_position_a_later_epoch_is_of_a_branch_that_ordinary_runs_copy(
    backfill: Backfill | None, epochs: tuple[int, ...], *, is_newer: bool
) -> None:
    cursor = Cursor(replace(ORDINARY, backfill=backfill), 0, -1)
    batches = [ConvertedBatch(at, at + 1, leader_epoch=it) for at, it in enumerate(epochs)]
    assert bool(cursor.newer_branch(batches)) == is_newer


@pytest.mark.parametrize(
    ("batches", "by_epoch"),
    [
        ((), {}),
        ((gap(0, 10, 3),), {3: {4: "why"}}),
        ((gap(0, 4, 3), gap(4, 9, 5)), {5: {4: "why"}}),
        ((gap(5, 9, 5),), {}),
    ],
    ids=["a later filter dropped it", "alone", "at the start of a branch", "before all of them"],
)
def test_what_is_set_aside_is_known_by_the_branch_that_it_is_of(
    batches: tuple[ConvertedBatch, ...], by_epoch: dict[int, dict[int, str]]
) -> None:
    read = Read(ORDINARY, batches, set_aside={4: "why"})
    assert read.set_aside_by_epoch() == by_epoch
