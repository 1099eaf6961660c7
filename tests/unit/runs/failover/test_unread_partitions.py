"""What a failover says of partitions in which no group has an offset."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove
from kafka_ferry.model import LogBounds, Position, Topic, TopicPartition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.runs.failover import unread_partitions as module
from kafka_ferry.runs.failover.unread_partitions import unread_partitions

READ, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
FLOW: Any = SimpleNamespace(
    source=SimpleNamespace(alias="primary"),
    target=SimpleNamespace(alias="backup"),
    isolation_level="read_committed",
)


@pytest.mark.parametrize(
    ("log", "begun", "copied_to", "note"),
    [
        (LogBounds(0, 5), False, {}, "orders-1 has 5 offsets that are not on backup"),
        (LogBounds(3, 5), True, {OTHER: 4}, "orders-1 has 1 offset that are not on backup"),
        (LogBounds(0, 5), True, {OTHER: 5}, ""),
        # Its topic was recreated, for example.
        (LogBounds(0, 5), True, {}, ""),
        (None, True, {OTHER: 5}, "orders-1 has no leader on primary: it may have records that are"),
        (None, False, {}, "orders-1 has no leader on primary: it may have records that are"),
    ],
    ids=["never copied", "in part", "whole", "unknown", "no leader", "no leader, never copied"],
)
def test_a_partition_that_is_not_copied_to_its_end_is_named(
    log: LogBounds | None,
    begun: bool,
    copied_to: dict[TopicPartition, int],
    note: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics = {"orders": Topic("orders", "id", 2)}
    bounds = {READ: LogBounds(0, 100)} | ({OTHER: log} if log else {})
    control = SimpleNamespace(readable_topics=lambda _: (topics, {}), log_bounds=lambda *_: bounds)
    monkeypatch.setattr(module, "ClusterControl", lambda _: control)
    positions = {TopicPartition("a.orders", 1): Position(5)} if begun else {}
    ledger: Any = SimpleNamespace(
        topics=lambda: {"orders": "a.orders"}, positions=lambda: positions
    )
    move = PartitionMove(READ, Committed(5), 10, TopicPartition("a.orders", 0))
    moves = GroupMoves(0, (GroupMove(Group("billing", "classic", "Empty", "consumer"), (move,)),))
    notes = list(unread_partitions(FLOW, ledger, moves, copied_to))
    assert len(notes) == bool(note)
    assert not note or notes[0].startswith(note)
