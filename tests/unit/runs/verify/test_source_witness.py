"""Which stretches without a record a run asks the source for."""

from __future__ import annotations

import pytest

from kafka_ferry.batches import Segment
from kafka_ferry.ledger import LedgerRange
from kafka_ferry.runs.verify.source_witness import stretches
from tests.unit.ledger.entries import a_copied_range


def entry(
    start: int, end: int, *segments: tuple[int, int], partition: int = 0, **reasons: int
) -> LedgerRange:
    """A range with records at ``segments``: first source offset, count."""
    copied = a_copied_range(
        start,
        end,
        partition=partition,
        reasons={name.replace("_", "-"): offsets for name, offsets in reasons.items()},
        segments=tuple(Segment(first, first, count) for first, count in segments),
    )
    return LedgerRange(start, "run-1", copied)


def chosen(*entries: LedgerRange, run: str = "run-1") -> list[tuple[int, int, int]]:
    return [(it.entry.copied.partition, it.start, it.end) for it in stretches(run, entries)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (entry(0, 10, (0, 10)), []),
        (entry(0, 10, aborted=10), [(0, 0, 10)]),
        (entry(0, 10, (0, 9), control=1), [(0, 9, 10)]),
        (entry(0, 10, (1, 3), (6, 4), compacted=3), [(0, 0, 1), (0, 4, 6)]),
        (entry(0, 10, (5, 5), lost=5), [(0, 0, 5)]),
        (entry(0, 10, (5, 4), filtered=5, control=1), []),
        (entry(0, 10, (5, 4), dead_lettered=0, control=6), [(0, 0, 5), (0, 9, 10)]),
    ],
)
def test_what_has_no_record_for_the_sources_reasons(
    given: LedgerRange, expected: list[tuple[int, int, int]]
) -> None:
    assert sorted(chosen(given)) == expected


def test_dead_letters_whose_places_are_known_hide_nothing() -> None:
    known = entry(0, 10, (0, 5), dead_lettered=2, control=3)
    letters = known.copied.model_copy(update={"letters": (Segment(6, 40, 2),)})
    assert chosen(known) == []
    assert sorted(chosen(known._replace(copied=letters))) == [(0, 5, 6), (0, 8, 10)]


def test_each_partition_has_its_turn_before_one_has_two_and_runs_ask_for_others() -> None:
    many = [entry(at, at + 10, (at, 9), control=1) for at in range(0, 1_000, 10)]
    one = entry(0, 10, (0, 9), partition=1, control=1)
    found = chosen(*many, one)
    assert len(found) == 16
    assert {partition for partition, *_ in found[:2]} == {0, 1}
    assert found == chosen(*many, one)
    assert found != chosen(*many, one, run="run-2")


def test_of_a_long_stretch_each_run_asks_for_another_part() -> None:
    long = entry(100, 1_000_100, aborted=1_000_000)
    parts = {run: chosen(long, run=run)[0] for run in ("run-1", "run-2")}
    assert all(end - start == 10_000 and start >= 100 for _, start, end in parts.values())
    assert parts["run-1"] != parts["run-2"]
