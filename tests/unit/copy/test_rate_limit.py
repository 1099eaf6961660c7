"""Keeping to a number of bytes a second; the clock is a stand-in that moves when code waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kafka_ferry.batches import BatchHeader, gap, split_batches
from kafka_ferry.copy import Limits, RateLimit, copy_ranges
from kafka_ferry.model import Range
from kafka_ferry.model.rate import Rate
from kafka_ferry.model.waits import Waits
from tests.support.records.batches import a_batch

from .fakes import Clock, FakeSource, FakeWriter

ORDERS = Range("orders", 0, 0, 1000, "id of orders", "primary.orders", 3)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("kafka_ferry.copy.copier.time", clock)
    monkeypatch.setattr("kafka_ferry.copy.rate_limit.time", clock)
    return clock


def test_what_was_sent_is_waited_for(clock: Clock) -> None:
    rate = RateLimit(Rate(100))
    assert rate.wait_s <= 0
    rate.spend(batch_of(250))
    assert rate.wait_s == pytest.approx(2.5)
    clock.now += 2.5
    assert rate.wait_s <= 0


@pytest.mark.parametrize(
    ("rate", "seconds"),
    [(Rate(100, 50), 2.5), (Rate(100, 10), 3.0), (Rate(0, 10), 3.0), (Rate(records_per_s=60), 0.5)],
)
def test_both_limits_are_kept(rate: Rate, seconds: float) -> None:
    limit = RateLimit(rate)
    limit.spend(batch_of(250, 30))
    assert limit.wait_s == pytest.approx(seconds)


def batch_of(size: int, records: int = 1) -> BatchHeader:
    (batch,) = split_batches(a_batch(1))
    header = batch.header
    return header._replace(length=header.length + size - header.size, records=records)


def test_of_a_pause_no_more_than_a_second_is_made_up_for(clock: Clock) -> None:
    rate = RateLimit(Rate(100))
    clock.now += 60
    rate.spend(batch_of(100))
    assert rate.wait_s <= 0
    rate.spend(batch_of(100))
    assert rate.wait_s == pytest.approx(1)


def test_without_a_limit_there_is_no_wait() -> None:
    rate = RateLimit()
    rate.spend(batch_of(10**9, 10**9))
    assert rate.wait_s <= 0


def test_a_copy_takes_as_long_as_its_limit_says_and_commits_in_time(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, sized_batches: Callable[[int], None]
) -> None:
    sized_batches(50)
    writer, commits = FakeWriter(), list[float]()
    commit = writer.commit

    def committed(waits: Waits) -> object:
        commits.append(clock.now)
        return commit(waits)

    monkeypatch.setattr(writer, "commit", committed)
    began = clock.now

    (outcome,) = copy_ranges(
        [ORDERS],
        FakeSource(clock, at_once=20),  # type: ignore[arg-type]
        writer,
        Limits(transaction_bytes=10**9, transaction_ms=10_000),
        RateLimit(Rate(100)),
    )

    # 100 converted batches of 50 bytes; there is no wait after the last one.
    assert clock.now - began == pytest.approx(49.5, abs=0.1)
    assert outcome.position == 1000 and outcome.failure is None
    assert writer.copied(ORDERS.source) == (0, 1000)
    pauses = [after - before for before, after in zip([began, *commits], commits, strict=False)]
    assert max(pauses) <= 10.6
    assert len(commits) >= 5


@pytest.fixture
def sized_batches(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Has each converted batch of the fake source hold a batch of so many bytes."""

    def sized(size: int) -> None:
        header = SimpleNamespace(size=size, records=0)
        batch = SimpleNamespace(header=header)
        monkeypatch.setattr(
            "tests.unit.copy.fakes.gap", lambda start, end: replace(gap(start, end), batch=batch)
        )
        for name in ("came", "note_write"):
            monkeypatch.setattr(f"kafka_ferry.copy.latency.RangeAges.{name}", lambda *_: None)

    return sized
