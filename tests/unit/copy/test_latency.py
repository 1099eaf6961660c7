"""How old a range's records are when they are read, and when they are on the target."""

from __future__ import annotations

import pytest

from kafka_ferry.batches import NO_AGES, Batch, BatchHeader, ConvertedBatch, Spread, gap
from kafka_ferry.copy import Limits, copy_ranges
from kafka_ferry.copy.latency import RangeAges
from kafka_ferry.copy.source.cursor import Read
from kafka_ferry.copy.target.writer import StartOver
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.results.failures import Failure

from .fakes import FakeReader, FakeSource, FakeWriter
from .test_copier import ORDERS, once


class Now:
    """Stands for the clock: it moves only when it is told to."""

    def __init__(self) -> None:
        self.ms = 1_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    clock = Now()
    monkeypatch.setattr("kafka_ferry.copy.latency.now_ms", clock)
    return clock


def converted(start: int, time: int, records: int = 1) -> ConvertedBatch:
    """Records of one time, at offsets in a row."""
    header = BatchHeader(
        *(start, 61, 0, 2, 0, 0, records - 1, time, time, -1, -1, -1),
        records,
    )
    return ConvertedBatch(start, start + records, Batch(header, b""), ((start, records),))


def test_records_age_until_they_are_committed(now: Now) -> None:
    ages = RangeAges()
    for at in (converted(0, 900, records=2), gap(2, 5), converted(5, 950)):
        ages.came([at])
        ages.note_write(at)
    now.ms = 1_500
    ages.note_commit()
    assert ages.read == Spread(3, 50, 100, 250, 50)
    assert ages.stored == Spread(3, 550, 600, 1_750, 550)


def test_what_is_void_is_not_stored_until_it_is_written_again(now: Now) -> None:
    ages = RangeAges()
    ages.note_write(converted(0, 900))
    ages.void()
    ages.note_commit()
    assert ages.stored == NO_AGES
    ages.note_write(converted(0, 900))
    now.ms = 2_000
    ages.note_commit()
    assert ages.stored == Spread(1, 1_100, 1_100, 1_100, 1_100)


class RecordSource(FakeSource):
    """Gives the records of a range one by one, all of the time 400."""

    def __call__(self, starts: object) -> FakeReader:
        reader = super().__call__(starts)  # type: ignore[arg-type]
        offsets = [(r, at) for r, s in reader.starts.items() for at in range(s.offset, r.end)]
        turns = iter(offsets)

        def next_(_: float) -> list[Read] | None:
            turn = next(turns, None)
            return [Read(turn[0], (converted(turn[1], 400),))] if turn else None

        reader.next = next_  # type: ignore[method-assign, assignment]
        return reader


def test_a_copy_tells_the_ages_of_each_range_and_counts_no_record_twice(now: Now) -> None:
    writer = FakeWriter(on_commit=once(StartOver("aborted"), 0))
    (outcome,) = copy_ranges([ORDERS], RecordSource(), writer, Limits(10**9, 10**9))  # type: ignore[arg-type]
    assert outcome.position == ORDERS.end
    assert outcome.stored_ages == Spread(40, 600, 600, 24_000, 600)
    # What is read again is read twice.
    assert outcome.read_ages.count == 80


def test_a_range_that_the_target_does_not_take_has_stored_nothing(now: Now) -> None:
    failure = Failure.of(ORDERS, 0, "refused.", transient=False)
    writer = FakeWriter(not_taken={TopicPartition("orders", 0): failure})
    (outcome,) = copy_ranges([ORDERS], RecordSource(), writer, Limits(10**9, 10**9))  # type: ignore[arg-type]
    assert outcome.failure == failure
    assert outcome.stored_ages == NO_AGES
