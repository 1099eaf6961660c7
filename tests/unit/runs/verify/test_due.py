"""What a verification says of partitions in which the run had nothing to copy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_ferry.ledger import LedgerEnd
from kafka_ferry.model import LogBounds, Topic, TopicPartition
from kafka_ferry.runs.provenance.log_ends import LogEnds
from kafka_ferry.runs.verify import due as module
from kafka_ferry.runs.verify.due import find_written

QUIET, LOUD, DOWN = (TopicPartition("a.orders", number) for number in range(3))


@pytest.mark.parametrize("adopts", [False, True])
def test_a_partition_without_a_leader_is_unread_whoever_else_writes_there(
    monkeypatch: pytest.MonkeyPatch, *, adopts: bool
) -> None:
    """Nothing said so where others write too, and the run was complete until now."""
    end = LedgerEnd(5, is_own=True)
    ends = {QUIET: LogEnds(end, LogBounds(0, 6)), LOUD: LogEnds(end, LogBounds(0, 9))}
    monkeypatch.setattr(module, "log_ends_and_leaderless", lambda *_: (ends, frozenset({DOWN})))
    monkeypatch.setattr(module, "_short_logs", lambda *_: {})
    monkeypatch.setattr(module, "after_positions", lambda *_: ({}, frozenset()))
    flow: Any = SimpleNamespace(
        on_foreign_records="adopt" if adopts else "refuse", on_returned_records="skip"
    )
    plan: Any = SimpleNamespace(remarks=SimpleNamespace(refused=()), ranges=())
    due: Any = SimpleNamespace(ranges=[], topics={"a.orders": Topic("a.orders", "id", 3)})
    nothing: Any = None
    written = find_written(flow, nothing, nothing, plan, due)
    assert written.unread == {DOWN: "the partition has no leader."}
    assert written.after == ({} if adopts else {LOUD: end})
