"""What is plotted of a flow's source offsets."""

from __future__ import annotations

from collections import Counter

import pytest

from kafka_ferry.ledger.accounts import Account
from kafka_ferry.report.offsets import UNACCOUNTED, OffsetsRow, bars, offset_rows

HOUR = 3_600_000


def runs(count: int, *, backfill: bool = False) -> list[Account]:
    """Hourly runs of 10 offsets each, of which one is lost and two are markers."""
    return [
        Account(
            f"run-{number}",
            backfill,
            first_at=number * HOUR,
            last_at=number * HOUR + 60_000,
            offsets=10,
            copied=7,
            reasons={"lost": 1, "control": 2},
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("count", "expected"), [(0, 0), (1, 1), (120, 120), (121, 120), (9_000, 120)]
)
def test_there_are_never_more_bars_than_fit_and_no_offset_is_left_out(
    count: int, expected: int
) -> None:
    accounts = runs(count)
    found = bars(accounts)
    assert len(found) <= 120
    assert abs(len(found) - expected) <= 60, "nor far fewer"
    assert sum(bar.runs for bar in found) == count
    assert sum(bar.offsets for bar in found) == 10 * count
    for bar in found:
        assert bar.offsets == bar.copied + sum(bar.reasons.values())
        assert bar.lost == bar.reasons["lost"] == bar.runs
    assert [bar.at for bar in found] == sorted(bar.at for bar in found)


def test_backfills_have_bars_of_their_own_since_they_read_offsets_again() -> None:
    found = bars([*runs(300), *runs(2, backfill=True)], most=10)
    assert Counter(bar.backfill for bar in found) == {False: 10, True: 2}


def test_what_the_ledger_does_not_account_for_is_told_in_the_place_of_a_reason() -> None:
    (bar,) = bars([Account("run", offsets=10, copied=7, rewinds=1, rewound=4, reasons={"lost": 1})])
    assert bar.reasons == {"lost": 1, UNACCOUNTED: 2}
    assert (bar.rewinds, bar.rewound) == (1, 4)


def test_rows_are_by_number_or_name_with_backfills_beside_them() -> None:
    accounts = [
        Account("10", offsets=5, copied=5, last_at=3),
        Account("2", offsets=9, copied=6, last_at=4, rewinds=1, reasons={"lost": 2, "control": 1}),
        Account("2", backfill=True, offsets=7, copied=7, last_at=8),
        Account("3", backfill=True, offsets=1, copied=1, last_at=9),
    ]
    found = offset_rows(accounts, are_partitions=True)
    assert found == [
        OffsetsRow("2", 2, 9, 6, 3, 2, 1, 7, 8, {"control": 1, "lost": 2}),
        OffsetsRow("3", 3, 0, 0, 0, 0, 0, 1, 9),
        OffsetsRow("10", 10, 5, 5, 0, 0, 0, 0, 3),
    ]
    topics = offset_rows([Account("b"), Account("a")], are_partitions=False)
    assert [(row.name, row.partition) for row in topics] == [("a", -1), ("b", -1)]
