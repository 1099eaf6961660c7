"""What is known of groups whose source does not answer: by the state folder, and by the ledger."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove
from kafka_ferry.ledger import SyncedOffset
from kafka_ferry.ledger.queries.run_starts import RunStart
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.runs.failover import last_known as module
from kafka_ferry.runs.failover.last_known import known_groups, later_run
from kafka_ferry.state import StateFolder

ORDERS = TopicPartition("orders", 0)
SEEN_AT = 1_000
FLOW: Any = SimpleNamespace(target=None, group_filter=SimpleNamespace(matches=lambda _: True))


class NoGroups:
    """A target that has no group yet."""

    def __init__(self, cluster: object) -> None: ...

    def __enter__(self) -> NoGroups:
        return self

    def __exit__(self, *error: object) -> None: ...

    def describe(self, names: Any) -> dict[str, Group]:
        return {name: Group(name) for name in names}


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Any:
    """By the offset of ``billing`` that the state folder has, and what the ledger has: offset, and topic, as known."""

    def know(seen: int | None, synced: SyncedOffset) -> list[tuple[int, str]]:
        move = PartitionMove(ORDERS, Committed(seen or 0, metadata="mine"), topic_id="seen")
        groups = () if seen is None else (GroupMove(Group("billing"), (move,)),)
        monkeypatch.setattr(module, "seen_groups", lambda flow: GroupMoves(SEEN_AT, groups))
        monkeypatch.setattr(module, "GroupControl", NoGroups)
        ledger: Any = SimpleNamespace(
            marks=lambda: {"a.orders": SimpleNamespace(remote_topic_id="remote", topic="orders")},
            synced_groups=lambda: {"billing": {("remote", 0): synced}},
        )
        return [
            (one.committed.offset, one.topic_id)
            for _, one in known_groups(FLOW, ledger).partitions()
            if one.committed
        ]

    return know


def a_sync(source: int, at: int, *, refuted: bool = False) -> SyncedOffset:
    return SyncedOffset(
        source=source, target=source, source_topic_id="synced", at=at, refuted=refuted
    )


@pytest.mark.parametrize(
    ("seen", "synced", "expected"),
    [
        # The state folder is that of an older run: the group was set back since, or has read on.
        (90, a_sync(10, SEEN_AT + 1), 10),
        (90, a_sync(120, SEEN_AT + 1), 120),
        # The ledger's is older: what the run has seen was held, or was not to be committed.
        (90, a_sync(10, SEEN_AT), 90),
        (90, a_sync(10, 0), 90),
        # Deleted on the target, or committed by another mirror.
        (90, a_sync(-1, SEEN_AT + 1), 90),
        (90, a_sync(10, SEEN_AT + 1, refuted=True), 90),
        # No run has stored the group here.
        (None, a_sync(10, SEEN_AT), 10),
    ],
)
def test_the_newer_of_both_counts(
    known: Any, seen: int | None, synced: SyncedOffset, expected: int
) -> None:
    assert [offset for offset, _ in known(seen, synced)] == [expected]


def test_an_offset_of_the_ledger_is_of_the_topic_that_its_entry_names(known: Any) -> None:
    assert known(90, a_sync(10, SEEN_AT + 1)) == [(10, "synced")]


def test_what_a_run_has_seen_stays_as_it_is_where_the_ledger_agrees(known: Any) -> None:
    assert known(10, a_sync(10, SEEN_AT + 1)) == [(10, "seen")]


@pytest.mark.parametrize(
    ("began_at", "folders", "is_named"),
    [
        (SEEN_AT + 1, (), True),
        (SEEN_AT + 1, ("later",), False),
        (SEEN_AT, (), False),
        (None, (), False),
    ],
)
def test_a_later_run_that_the_state_folder_does_not_have_is_named(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    began_at: int | None,
    folders: tuple[str, ...],
    is_named: bool,
) -> None:
    state = StateFolder(str(tmp_path))
    for folder in folders:
        state.folder("runs").folder(folder).write("plan.json", "{}")
    start = None if began_at is None else RunStart(1, "later", began_at, 1)
    monkeypatch.setattr(module, "flow_state", lambda flow: state)
    monkeypatch.setattr(module, "last_run", lambda ledger: start)
    ledger: Any = None

    assert ("The run later began after that" in later_run(FLOW, ledger, SEEN_AT)) is is_named
