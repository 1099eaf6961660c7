"""Which records a person has accepted as missing, by the ledger."""

from __future__ import annotations

import pytest

from kafka_ferry.batches import Segment
from kafka_ferry.ledger import AcceptedRange, VerificationEntry
from kafka_ferry.ledger.queries.accepted_losses import accepted_losses
from tests.unit.ledger.entries import (
    a_backfill,
    a_copied_range,
    a_transaction,
    a_verification,
)
from tests.unit.ledger.queries.conftest import Ledger

COPIED = a_copied_range(0, 20, segments=(Segment(0, 100, 5), Segment(8, 105, 12)))


def accept(*missing: tuple[int, int]) -> VerificationEntry:
    accepted = AcceptedRange(
        ledger_offset=0,
        topic="orders",
        partition=0,
        start=0,
        records=0,
        digest="",
        reason="a disk",
        missing=missing,
    )
    return a_verification(1).model_copy(update={"accepted": (accepted,)})


@pytest.mark.parametrize(
    ("missing", "sources"),
    [
        ([(102, 107), (110, 111)], [(2, 5), (8, 10), (13, 14)]),
        # What lies beside its records is none of the range.
        ([(0, 101), (116, 900)], [(0, 1), (19, 20)]),
        ([], []),
    ],
)
def test_the_newest_decision_on_each_range_counts(
    missing: list[tuple[int, int]], sources: list[tuple[int, int]], ledger: Ledger
) -> None:
    table = ledger(a_transaction(COPIED), a_transaction(), accept((100, 101)), accept(*missing))
    losses = list(accepted_losses(table))
    assert [(loss.entry.key, loss.reason) for loss in losses] == [
        ((0, "orders", 0, 0), "a disk")
    ] * bool(missing)
    assert [span for loss in losses for span in loss.sources] == sources


def test_what_was_appended_since_is_missing_no_more(ledger: Ledger) -> None:
    appended = a_copied_range(3, 9, segments=(Segment(3, 200, 2), Segment(8, 202, 1)))
    table = ledger(a_transaction(COPIED), accept((102, 107)), a_backfill(appended))
    ((every,), (lasting,)) = (list(accepted_losses(table, lasting=it)) for it in (False, True))
    assert every.sources == [(2, 5), (8, 10)]
    assert (lasting.sources, lasting.targets) == ([(2, 3), (9, 10)], [(102, 103), (106, 107)])
