"""Which proved ranges a run reads back again."""

from __future__ import annotations

import random

import pytest

from kafka_ferry.verify.rotation import ProvedEntry, due_again, intervals

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = 1_700_000_000_000


def proved(*ages_d: float, size: int = 100) -> list[ProvedEntry]:
    """Entries of the same size by the ages of their proofs in days, at ledger offsets 0, 1, ..."""
    return [ProvedEntry(at, size, int(NOW - age * DAY)) for at, age in enumerate(ages_d)]


def due(entries: list[ProvedEntry], *, within_d: float = 30, pause_d: float = 0) -> list[int]:
    found = due_again(entries, now=NOW, within_ms=int(within_d * DAY), pause_ms=int(pause_d * DAY))
    return [entry.ledger_offset for entry in found]


@pytest.mark.parametrize(
    ("entries", "pause_d", "expected"),
    [
        ([], 1, []),
        # Just proved: nothing is due, however soon the next run is.
        (proved(0, 0, 0), 0, []),
        # Past its time, or past it by the next run.
        (proved(31, 1), 0, [0]),
        (proved(29.5, 1), 1, [0]),
        # Of what was proved at the same time, a share for each day.
        (proved(*[1] * 30), 0, [0]),
        (proved(*[10] * 30), 0, list(range(10))),
        (proved(*[10] * 30), 1, list(range(11))),
        # The oldest proof first, not the first in the ledger.
        (proved(1, 2, 20, *[15] * 3), 1, [2]),
        # What expired on the target, or holds no bytes, costs nothing.
        (proved(40, 1, size=0), 0, [0]),
        # Dated by a clock that was a year ahead; one that is minutes ahead is no wrong one.
        (proved(-365, -0.01, 1), 0, [0]),
        # A run after a long rest reads all that is late at once.
        (proved(*[90] * 5), 1, [0, 1, 2, 3, 4]),
    ],
)
def test_the_oldest_proofs_are_due_as_many_as_the_pace_needs(
    entries: list[ProvedEntry], pause_d: float, expected: list[int]
) -> None:
    assert due(entries, pause_d=pause_d) == expected


def test_a_large_range_is_read_at_its_deadline_and_not_at_each_run() -> None:
    def at(age_d: float) -> list[ProvedEntry]:
        large = ProvedEntry(0, 10_000_000, NOW - int(age_d * DAY))
        return [large, ProvedEntry(1, 1_000, NOW - DAY)]

    assert [due(at(age), pause_d=1 / 24) for age in (2, 12, 28)] == [[], [], []]
    assert due(at(29.97), pause_d=1 / 24) == [0]


@pytest.mark.parametrize("seed", range(5))
def test_each_range_is_read_within_the_period_and_about_as_much_in_each_run(seed: int) -> None:
    """An hourly flow that copies unequal amounts, for three periods of five days."""
    chosen = random.Random(seed)
    within, now = 5 * DAY, NOW
    entries = [ProvedEntry(at, chosen.randint(1, 2_000_000), now) for at in range(200)]
    read_bytes, oldest = [], 0
    for _ in range(3 * 5 * 24):
        now += HOUR
        again = due_again(entries, now=now, within_ms=within, pause_ms=HOUR)
        offsets = {entry.ledger_offset for entry in again}
        oldest = max(oldest, now - min(entry.proved_at for entry in entries))
        read_bytes.append(sum(entry.bytes for entry in again))
        entries = [
            entry._replace(proved_at=now) if entry.ledger_offset in offsets else entry
            for entry in entries
        ]
        entries.append(ProvedEntry(len(entries), chosen.randint(1, 200_000), now))
    assert oldest <= within
    even = sum(entry.bytes for entry in entries) * HOUR / within
    assert max(read_bytes) <= 2 * even + 2_000_000, "no run reads far more than the others"


def test_intervals_join_where_nothing_else_that_is_proved_lies_between() -> None:
    assert intervals({2, 7, 3, 12}, {9}) == [(2, 8), (12, 13)]
    assert intervals(set(), {9}) == []
