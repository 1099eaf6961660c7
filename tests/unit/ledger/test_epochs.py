"""The epochs of what was copied, from the ledger's ranges."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_ferry.batches.epochs import EpochHistory, EpochSpan
from kafka_ferry.ledger import CopiedRange
from kafka_ferry.ledger.epochs import epoch_history
from tests.unit.ledger.entries import a_copied_range


def copied(start: int, end: int, epoch: int, **more: Any) -> CopiedRange:
    return a_copied_range(start, end, leader_epoch=epoch, **more)


@pytest.mark.parametrize(
    ("ranges", "history"),
    [
        ([], EpochHistory()),
        (
            [copied(0, 10, 3), copied(10, 20, 3), copied(20, 30, 5)],
            EpochHistory((EpochSpan(0, 20, 3), EpochSpan(20, 30, 5))),
        ),
        (
            [copied(0, 30, 5, epochs=(EpochSpan(0, 12, 3), EpochSpan(12, 30, 5)))],
            EpochHistory((EpochSpan(0, 12, 3), EpochSpan(12, 30, 5))),
        ),
        # Offsets without a batch have no epoch.
        ([copied(0, 10, 3), copied(10, 20, -1)], EpochHistory((EpochSpan(0, 10, 3),))),
        # The branch from 15 on is lost.
        (
            [copied(0, 10, 3), copied(10, 30, 5), copied(15, 40, 7, rewound_from=30)],
            EpochHistory((EpochSpan(0, 10, 3), EpochSpan(10, 15, 5), EpochSpan(15, 40, 7))),
        ),
        # It began where the log ended, in epoch 3.
        ([copied(20, 20, 3)], EpochHistory((EpochSpan(20, 20, 3),), is_whole=False)),
        (
            [copied(20, 20, 3), copied(20, 30, 5)],
            EpochHistory((EpochSpan(20, 20, 3), EpochSpan(20, 30, 5)), is_whole=False),
        ),
        # What another mirror has copied is of unknown epochs.
        (
            [copied(0, 10, 3, digest=""), copied(10, 20, 4)],
            EpochHistory((EpochSpan(10, 20, 4),), is_whole=False),
        ),
    ],
)
def test_they_are_those_of_the_branch_that_was_copied_last(
    ranges: list[CopiedRange], history: EpochHistory
) -> None:
    assert epoch_history(ranges) == history
