"""What a failback says of records that a group gets on neither cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove
from kafka_ferry.ledger import SyncedOffset
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.runs.failover import passed_records as module
from kafka_ferry.runs.failover.passed_records import passed_records
from tests.unit.ledger.entries import a_copied_range

HOME, COPY = TopicPartition("orders", 0), TopicPartition("a.orders", 0)
FLOW: Any = SimpleNamespace(
    dead_letter_name="letters",
    source=SimpleNamespace(alias="primary"),
    target=SimpleNamespace(alias="backup"),
)


def a_group(name: str, offset: int | None) -> GroupMove:
    move = PartitionMove(COPY, Committed(9), 10, HOME, offset=offset, home=True)
    return GroupMove(Group(name, "classic", "Empty", "consumer"), (move,))


def a_ledger(**left_at: int) -> Any:
    return SimpleNamespace(
        synced_groups=lambda: {
            name: {("id", 0): SyncedOffset(source=offset, target=offset)}
            for name, offset in left_at.items()
        },
        topic_ids=lambda: {"orders": "id of orders"},
        remote_ids=lambda: {"a.orders": "id", "primary.orders": "id of primary.orders"},
    )


@pytest.mark.parametrize(
    ("left_at", "offsets", "note"),
    [
        ({"billing": 2}, {"billing": 9}, "billing did not get 3 records of orders-0"),
        ({"billing": 2}, {"billing": 9}, "it has to read again from 2 on."),
        ({"billing": 3}, {"billing": 6}, "billing did not get 1 record of orders-0"),
        ({"billing": 3}, {"billing": 6}, "it has to read again from 5 on."),
        # Read before it left, or not passed yet, or not moved.
        ({"billing": 7}, {"billing": 9}, ""),
        ({"billing": 0}, {"billing": 2}, ""),
        ({"billing": 0}, {"billing": None}, ""),
        # It was never at home, or a run has deleted its offset.
        ({}, {"billing": 9}, "billing did not get 3 records"),
        ({"billing": -1}, {"billing": 9}, "billing did not get 3 records"),
        ({"billing": 6, "slow": 0}, {"billing": 9, "slow": 9}, "slow (and 1 more) did not get 3"),
    ],
)
def test_dead_letters_that_a_group_has_passed_are_counted(
    left_at: dict[str, int],
    offsets: dict[str, int | None],
    note: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "dead_letters", lambda *_: {HOME: [(2, 3), (5, 7)]})
    monkeypatch.setattr(module, "accepted_losses", lambda *_, **__: ())
    moves = GroupMoves(0, tuple(a_group(*one) for one in offsets.items()))
    notes = list(passed_records(FLOW, a_ledger(**left_at), moves))
    assert len(notes) == bool(note)
    assert not note or (note in notes[0] and "on backup, where they went to letters" in notes[0])


def test_what_was_accepted_as_missing_is_passed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    loss = SimpleNamespace(
        entry=SimpleNamespace(copied=a_copied_range()), sources=[(2, 5)], reason="a disk"
    )
    monkeypatch.setattr(module, "dead_letters", lambda *_: {})
    monkeypatch.setattr(module, "accepted_losses", lambda *_, **__: [loss])
    moves = GroupMoves(0, (a_group("billing", 9),))
    (note,) = passed_records(FLOW, a_ledger(billing=0), moves)
    assert note.startswith("billing did not get 3 records of orders-0 on backup, where they were")
    assert "accepted as missing (a disk)" in note
