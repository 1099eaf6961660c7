"""How long a partition is waited for that is read from remote storage."""

from __future__ import annotations

from typing import cast

import pytest

from kafka_ferry.copy.source import remote_reads
from kafka_ferry.copy.source.cursor import Cursor
from kafka_ferry.copy.source.remote_reads import RemoteReads
from kafka_ferry.model.ranges import Range
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.partitions.absence import REMOTE_PATIENCE
from tests.unit.copy.fakes import Clock

WAIT_S = 60.0
LEADER, OTHER = 1, 2
CLUSTER = cast(WireCluster, None)


def cursor_of(partition: int = 0, *, at: int = 100, is_silent: bool = True) -> Cursor:
    range_ = Range("orders", partition, 0, 1_000, "id", "to.orders", 0)
    return Cursor(range_, at, -1, must_be_alone=is_silent)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(remote_reads, "time", clock)
    return clock


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The local log starts that the broker tells, one after the other."""
    starts = list[int]()
    monkeypatch.setattr(
        remote_reads, "local_starts", lambda _, nodes: dict.fromkeys(nodes, starts.pop(0))
    )
    return starts


def fail(cursor: Cursor, clock: Clock) -> Cursor:
    cursor.transient_failures, cursor.failing_since = 1, clock.now
    return cursor


def test_the_broker_is_not_asked_what_is_remote_before_the_ordinary_time_is_over(
    clock: Clock, starts: list[int]
) -> None:
    reads, cursor = RemoteReads(CLUSTER, WAIT_S), cursor_of()
    assert reads.wait_s(cursor, LEADER) == WAIT_S
    fail(cursor, clock)
    clock.now += WAIT_S - 2
    assert reads.wait_s(cursor, LEADER) == WAIT_S
    # No other try would be made in its last second.
    clock.now += 1
    starts.append(500)
    assert reads.wait_s(cursor, LEADER) == REMOTE_PATIENCE * WAIT_S
    # Once is enough, until the cursor is past it.
    assert reads.wait_s(cursor, LEADER) == REMOTE_PATIENCE * WAIT_S


@pytest.mark.parametrize("start", [0, 100])
def test_what_the_broker_has_itself_or_does_not_tell_has_the_ordinary_time(
    clock: Clock, starts: list[int], start: int
) -> None:
    reads, cursor = RemoteReads(CLUSTER, WAIT_S), fail(cursor_of(), clock)
    clock.now += WAIT_S
    starts.append(start)
    assert reads.wait_s(cursor, LEADER) == WAIT_S


def test_the_time_does_not_run_while_the_same_broker_serves_others_that_waited(
    clock: Clock, starts: list[int]
) -> None:
    reads, cursor = RemoteReads(CLUSTER, WAIT_S), fail(cursor_of(), clock)
    starts.append(500)
    clock.now += 200
    reads.note_recovery(cursor_of(1), OTHER)
    reads.note_recovery(fail(cursor_of(2), clock), OTHER)
    reads.note_recovery(cursor_of(3, is_silent=False), LEADER)
    assert reads.wait_s(cursor, LEADER) == REMOTE_PATIENCE * WAIT_S
    reads.note_recovery(fail(cursor_of(4), clock), LEADER)
    assert reads.wait_s(cursor, LEADER) == 200 + REMOTE_PATIENCE * WAIT_S
