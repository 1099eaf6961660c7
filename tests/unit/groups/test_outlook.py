"""Where groups go on, whether they can, and how that is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_ferry.groups.moves import GroupMove, PartitionMove
from kafka_ferry.groups.outlook import GroupOutlook, Outlook, key_text, outlook_of
from kafka_ferry.model import LogBounds
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.model.ranges import TopicPartition

HERE, THERE = TopicPartition("orders", 0), TopicPartition("a.orders", 0)
IDLE = Group("app", state="Empty")
LOG = LogBounds(0, 30)
MOVED = PartitionMove(HERE, Committed(7), 10, THERE, 8, "exact", "written")
HELD = PartitionMove(HERE, Committed(7), 10, THERE, None, None, "held", "nothing is copied.")


def looked(
    *moves: PartitionMove,
    there: Group | None = IDLE,
    committed: int | None = 8,
    is_done: bool = True,
    reason: str = "",
    log: LogBounds | None = LOG,
    logs: dict[TopicPartition, LogBounds] | None = None,
    hidden: tuple[TopicPartition, ...] = (),
) -> GroupOutlook:
    offsets = {} if committed is None else {THERE: Committed(committed)}
    return outlook_of(
        GroupMove(Group("app"), moves, reason),
        there,
        offsets,
        {HERE: 9},
        logs or ({THERE: log} if log else {}),
        is_done=is_done,
        goes_to="b",
        hidden=hidden,
    )


def test_one_whose_log_hides_what_was_copied_is_stuck() -> None:
    found = looked(MOVED, hidden=(THERE,))
    assert found.state == "stuck"
    assert "an open transaction in a.orders-0 on b hides records" in found.reason
    assert looked(MOVED, hidden=(HERE,)).state == "ready"


def test_a_group_whose_offsets_are_there_is_ready() -> None:
    found = looked(MOVED)
    assert (found.state, found.lag, found.not_copied) == ("ready", 3, 1)
    assert (found.partitions[0].offset, found.partitions[0].kind) == (8, "exact")


def test_one_that_has_an_offset_further_ahead_goes_on_there() -> None:
    found = looked(replace(MOVED, action="held", reason="further ahead."), committed=20)
    assert (found.state, found.partitions[0].offset, found.partitions[0].kind) == (
        "ready",
        20,
        None,
    )


def test_one_without_an_offset_is_stuck_and_the_reason_is_the_partitions() -> None:
    found = looked(HELD, committed=None)
    assert found.state == "stuck"
    assert found.reason == "orders-0 would begin by auto.offset.reset: nothing is copied."


@pytest.mark.parametrize("log", [LogBounds(0, 19), LogBounds(21, 30)])
def test_one_whose_offset_is_outside_of_the_log_there_is_stuck(log: LogBounds) -> None:
    lost = replace(HELD, reason="it has lost records.")
    found = looked(lost, committed=20, log=log)
    assert found.state == "stuck"
    assert found.reason == (
        f"orders-0 would begin by auto.offset.reset: its offset 20 is outside of the log there, [{log.start}, "
        f"{log.end}): it has lost records."
    )
    assert looked(lost, committed=20, log=LogBounds(20, 20)).state == "ready"


@pytest.mark.parametrize("is_done", [True, False])
def test_one_that_would_never_get_what_it_has_not_read_is_stuck(is_done: bool) -> None:
    move = replace(MOVED, kind="clamped", missing=95)
    found = looked(move, is_done=is_done)
    assert (found.state, found.not_copied) == ("stuck", 96)
    assert found.reason == (
        "95 offsets of orders-0 that it has not read are not on b: it would begin there at 8, and miss them."
    )
    # There it has read further.
    assert looked(replace(move, action="held"), committed=9).state == "ready"


def test_one_whose_log_there_is_not_known_is_stuck() -> None:
    found = looked(replace(MOVED, action="unchanged"), log=None)
    assert (found.state, found.not_copied) == ("stuck", 1)
    assert found.reason == (
        "where the log of a.orders-0 on b starts and ends is not known, such as while it has no leader: whether the "
        "group can continue there at 8 is not either."
    )


def test_one_that_would_not_get_what_the_log_there_has_lost_is_stuck() -> None:
    found = looked(replace(HELD, reason="It has lost records.", is_lost=True))
    assert (found.state, found.not_copied) == ("stuck", -1)
    assert found.reason == "It has lost records. It would continue at 8, and miss records."
    before = replace(MOVED, offset=5, kind="clamped", reason="It parts at 5.", is_lost=True)
    assert [looked(before, committed=at).state for at in (5, 6)] == ["ready", "stuck"]


def test_one_without_any_partition_is_stuck() -> None:
    assert looked().state == "stuck"
    assert looked(reason="no right.").reason == "no right."


def test_one_with_members_there_is_in_use_and_fails_nothing() -> None:
    found = looked(MOVED, there=Group("app", state="Stable"), committed=None)
    assert found.state == "in use"
    assert "already in use on b" in found.reason


def test_a_dry_run_says_where_it_would_go_on() -> None:
    assert looked(MOVED, committed=None, is_done=False).partitions[0].offset == 8
    kept = replace(MOVED, action="held", reason="further ahead.")
    assert looked(kept, committed=9, is_done=False).partitions[0].offset == 9
    set_back = looked(MOVED, committed=9, is_done=False)
    assert set_back.partitions[0].offset == 8


def test_what_the_source_does_not_say_is_unknown() -> None:
    found = looked(replace(MOVED, end=-1))
    assert (found.lag, found.not_copied) == (-1, -1)


def test_of_what_has_no_place_there_nothing_is_said_to_be_copied() -> None:
    assert (looked(HELD).state, looked(HELD).not_copied) == ("ready", -1)
    has_read_all = replace(HELD, committed=Committed(9))
    assert looked(has_read_all).not_copied == 1


def test_what_came_from_the_other_cluster_and_an_empty_log_have_nothing_to_copy() -> None:
    elsewhere = TopicPartition("b.orders", 0)
    for move in (replace(MOVED, home=True), replace(MOVED, start=10)):
        assert looked(replace(move, source=elsewhere)).not_copied == 0


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (None, None),
        (b"", ""),
        (b"c-1", "c-1"),
        ("ä".encode(), "ä"),
        (b"\xff\x00", "0xff00"),
        (b"\x1b[2J", "0x1b5b324a"),
        (b"x" * 61, "x" * 60 + "..."),
    ],
)
def test_a_key_does_a_terminal_no_harm(key: bytes | None, shown: str | None) -> None:
    assert key_text(key) == shown


def report(*groups: GroupOutlook, **more: object) -> Outlook:
    return replace(Outlook("a->b", "run", "a", "b", 0, groups=groups), **more)  # type: ignore[arg-type]


def test_it_is_a_failure_if_anything_failed_or_is_stuck() -> None:
    assert report(looked(MOVED)).all_can_start
    assert report(looked(HELD, committed=None)).problems[0].startswith("app: orders-0")
    assert report(looked(MOVED), failures=("no right.",)).problems == ("no right.",)


def test_it_is_stored_as_json() -> None:
    found = report(looked(MOVED))
    assert Outlook.from_json(found.to_json()) == found
