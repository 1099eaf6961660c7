"""What a failover says of records in the dead letter topic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.runs.failover import unread_letters as module
from kafka_ferry.runs.failover.unread_letters import unread_letters

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("a.orders", 0)


@pytest.mark.parametrize(
    ("offsets", "note"),
    [
        ({"billing": 2}, "billing has not read 3 records of orders-0"),
        ({"billing": 6}, "billing has not read 1 record of orders-0"),
        ({"billing": 7}, None),
        ({"billing": 6, "done": 9, "slow": 0}, "slow (and 1 more) has not read 3 records"),
    ],
)
def test_dead_letters_that_a_group_has_not_read_are_counted(
    offsets: dict[str, int], note: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "dead_letters", lambda *_: {SOURCE: [(2, 3), (5, 7)]})
    flow: Any = SimpleNamespace(dead_letter_name="letters", target=SimpleNamespace(alias="backup"))
    groups = tuple(
        GroupMove(
            Group(name, "classic", "Empty", "consumer"),
            (PartitionMove(SOURCE, Committed(offset), 10, TARGET),),
        )
        for name, offset in offsets.items()
    )
    ledger: Any = None
    notes = list(unread_letters(flow, ledger, GroupMoves(0, groups)))
    assert len(notes) == (note is not None)
    assert not note or f"{note}" in notes[0]


def test_groups_that_go_home_leave_none_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their offsets are of copies, in which dead letters are gaps."""
    monkeypatch.setattr(module, "dead_letters", lambda *_: {SOURCE: [(2, 3)]})
    group = Group("billing", "classic", "Empty", "consumer")
    move = PartitionMove(SOURCE, Committed(0), 10, TARGET, home=True)
    nothing: Any = None
    assert not list(unread_letters(nothing, nothing, GroupMoves(0, (GroupMove(group, (move,)),))))
