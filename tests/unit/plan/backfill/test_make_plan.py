"""A backfill's plan: what lies below the flow's positions, and what is said of the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.model import ClusterState, Plan, RunOptions, TopicPartition, Window
from kafka_ferry.model.ranges import Backfill, Settled
from kafka_ferry.plan.backfill.make_plan import plan_backfill
from kafka_ferry.plan.backfill.topic_backfill import WindowFacts
from kafka_ferry.plan.backfill.windows import BEGINNING, FOREVER
from tests.unit.plan.builders import (
    NOW,
    P0,
    a_flow,
    a_remote,
    a_source,
    a_state,
    at,
    changed,
    intervals,
    planned,
)

WINDOW = Window(1_000, 2_000)
SOURCE = TopicPartition("orders", 0)
ORDINARY = Settled(0, 20, BEGINNING, FOREVER)
LATEST = a_flow(auto_offset_reset="latest")


def backfill(
    state: ClusterState, flow: Flow | None = None, *, topics: tuple[str, ...] = (), **facts: Any
) -> Plan:
    return plan_backfill(
        flow or a_flow(),
        state,
        WindowFacts(**({"firsts": {SOURCE: 12}} | facts)),
        run="backfill",
        at=NOW,
        options=RunOptions(window=WINDOW, topics=topics),
    )


def copied(position: int = 30, **more: Any) -> ClusterState:
    """A flow that has come to a position."""
    return a_state(
        a_source(), target=[a_remote()], positions={P0: at(position)}, ledger_end=7, **more
    )


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, (12, 30)),
        ({"lasts": {SOURCE: 25}}, (12, 25)),
        ({"lasts": {SOURCE: 45}}, (12, 30)),
        ({"settled": {SOURCE: [ORDINARY]}}, (20, 30)),
        ({"settled": {SOURCE: [Settled(15, 20, BEGINNING, FOREVER)]}}, (12, 30)),
        ({"settled": {SOURCE: [Settled(0, 20, 1_000, 1_999)]}}, (12, 30)),
    ],
    ids=[
        "to the position",
        "to the first record that is too young",
        "never beyond the position",
        "without what was copied at its edge",
        "with what was copied in its midst, which is left out then",
        "with what was backfilled for a part of the window",
    ],
)
def test_a_backfill_looks_at_what_may_be_missing(
    facts: dict[str, Any], expected: tuple[int, int]
) -> None:
    plan = backfill(copied(), **facts)
    assert intervals(plan) == [("orders", 0, *expected)]
    (range_,) = plan.ranges
    assert isinstance(range_.backfill, Backfill)
    assert range_.backfill.ledger_since == 7
    assert range_.remote_topic_id == "id of primary.orders"
    assert (plan.pins, plan.topics.config_changes, plan.access.acl_changes) == ((), (), ())


def test_a_partition_whose_window_cannot_be_found_is_refused_alone() -> None:
    two = a_state(
        a_source(partitions=2),
        target=[a_remote(partitions=2)],
        positions={P0: at(30), replace(P0, partition=1): at(30)},
        ledger_end=7,
    )
    plan = backfill(two, unread={TopicPartition("orders", 1): "It has no leader."})
    assert [str(it) for it in plan.remarks.refused] == ["orders-1: It has no leader."]
    assert intervals(plan) == [("orders", 0, 12, 30)]


def test_the_leader_epoch_before_the_position_travels_with_the_range() -> None:
    known = a_state(
        a_source(), target=[a_remote()], positions={P0: at(30, leader_epoch=4)}, ledger_end=7
    )
    (range_,) = backfill(known).ranges
    assert range_.backfill
    assert range_.backfill.leader_epoch == 4


def test_a_group_that_the_source_lacks_is_noted_where_groups_are_moved() -> None:
    flow, state = a_flow(groups=["ap"]), copied(groups=frozenset({"app"}))
    (note,) = planned(state, flow).remarks.notes
    assert str(note).startswith("groups has 'ap', which matches no group of primary")
    assert "groups" not in str(backfill(state, flow).remarks.notes)


def test_a_backfill_copies_by_the_isolation_level_of_the_flow() -> None:
    plan = backfill(copied(), a_flow(isolation_level="read_uncommitted"))
    assert (len(plan.ranges), plan.isolation_level) == (1, "read_uncommitted")


def test_what_is_settled_travels_with_the_range_clipped_to_it() -> None:
    plan = backfill(copied(), settled={SOURCE: [Settled(15, 40, 1_500, 9_999)]})
    assert plan.ranges[0].backfill == Backfill(1_000, 2_000, 7, (Settled(15, 30, 1_500, 2_000),))


@pytest.mark.parametrize(
    ("state", "facts", "note"),
    [
        (copied(), {"firsts": {}}, "the source has no record in the window"),
        (
            copied(),
            {"lasts": {SOURCE: 20}, "settled": {SOURCE: [ORDINARY]}},
            "Not looked at: 10 offsets below the flow's positions, in 1 topic(s), after",
        ),
        (
            copied(),
            {"firsts": {SOURCE: 20}, "lasts": {SOURCE: 20}},
            "is newer than it by more than backfill.disorder.ms.",
        ),
        (
            copied(),
            {"settled": {SOURCE: [replace(ORDINARY, end=30)]}},
            "by the ledger all of the source's records of the window",
        ),
        (copied(12), {}, "38 offsets that may be in the window are not below"),
        (a_state(a_source()), {"firsts": {SOURCE: 10}}, "40 offsets that may be"),
    ],
    ids=[
        "none",
        "all there but what is late",
        "none before much newer ones",
        "all there",
        "all still to come",
        "never copied",
    ],
)
def test_a_backfill_without_anything_to_do_says_why(
    state: ClusterState, facts: dict[str, Any], note: str
) -> None:
    plan = backfill(state, **facts)
    assert plan.is_idle_backfill
    assert (plan.topics.creations, plan.choices, plan.remarks.refused) == ((), (), ())
    assert note in " ".join(map(str, plan.remarks.notes))


CUT = frozenset({SOURCE})
GONE = {"firsts": {SOURCE: 10}, "lasts": {SOURCE: 10}, "cut": CUT}
"""The log starts at 10, with a record that is newer than the window."""


@pytest.mark.parametrize(
    ("facts", "copied_offsets", "deleted"),
    [
        (GONE, [], "the offsets [0, 10),"),
        ({"firsts": {}, "cut": CUT}, [], "the offsets [0, 10),"),
        (GONE | {"settled": {SOURCE: [Settled(4, 6, BEGINNING, FOREVER)]}}, [], "[0, 4), [6, 10),"),
        (GONE | {"settled": {SOURCE: [Settled(0, 10, 1_500, 2_000)]}}, [], "[0, 10),"),
        (GONE | {"older": {SOURCE: 7}}, [], "the offsets [7, 10),"),
        ({"firsts": {SOURCE: 10}, "cut": CUT}, [("orders", 0, 10, 30)], "[0, 10),"),
        (GONE | {"settled": {SOURCE: [ORDINARY]}}, [], ""),
        (GONE | {"older": {SOURCE: 10}}, [], ""),
        (GONE | {"cut": frozenset()}, [], ""),
    ],
    ids=[
        "none of the window is left",
        "no record is left",
        "but for what was copied",
        "of which a part of the window was backfilled",
        "but for what was there before the window",
        "its end is left",
        "all were copied",
        "all were there before the window",
        "an older record is left",
    ],
)
@pytest.mark.parametrize("goes_on", [False, True])
def test_what_the_source_has_deleted_of_the_window_is_named_by_partition(
    facts: dict[str, Any], copied_offsets: list[Any], deleted: str, *, goes_on: bool
) -> None:
    plan = backfill(
        copied(), a_flow(on_source_truncation="continue" if goes_on else "fail"), **facts
    )
    assert intervals(plan) == copied_offsets
    notes = [note for note in plan.remarks.notes if note.of_deleted]
    is_refused = bool(deleted) and not copied_offsets and not goes_on
    assert (len(plan.remarks.refused), len(notes)) == (is_refused, bool(deleted) and not is_refused)
    for said in (*plan.remarks.refused, *notes):
        assert str(said).startswith("orders-0: the source's log starts at 10")
        assert deleted in str(said)
    assert "newer than it by more" not in str(plan.remarks.notes) or not facts.get("cut")


def test_a_flow_that_has_never_run_is_pinned_where_it_would_begin() -> None:
    state = a_state(a_source(), a_source("payments"))
    plan = backfill(state, LATEST, topics=("orders",))
    assert intervals(plan) == [("orders", 0, 12, 50)]
    assert {(pin.topic, pin.start, pin.end) for pin in plan.pins} == {
        ("orders", 50, 50),
        ("payments", 50, 50),
    }
    assert all(pin.backfill is None for pin in plan.pins)
    assert {it.remote_topic for it in plan.topics.creations} == {
        "primary.orders",
        "primary.payments",
    }
    assert set(plan.pins) <= set(planned(state, LATEST).ranges)
    # It copies of what an ordinary run leaves out, and notes nothing about that.
    assert any("older offsets" in str(note) for note in planned(state, LATEST).remarks.notes)
    assert not any("older offsets" in str(note) for note in plan.remarks.notes)


def test_a_flow_that_has_never_run_is_left_alone_where_there_is_nothing_to_backfill() -> None:
    assert backfill(a_state(a_source()), LATEST, firsts={}).is_idle_backfill


def test_what_the_flow_refuses_is_refused_to_a_backfill_too() -> None:
    state = a_state(a_source(), target=[a_remote()], positions={P0: at(5)})
    plan = backfill(state)
    assert "were deleted on the source" in str(plan.remarks.refused[0])
    assert plan.ranges == ()


def test_a_compacted_topic_takes_nothing_that_is_late_and_a_separate_one_is_created() -> None:
    state = changed(copied(), target_topics={"primary.orders": a_remote(cleanup_policy="compact")})
    compacted = replace(
        state.target.topics["primary.orders"], configs={"cleanup.policy": "delete,compact"}
    )
    state = changed(state, target_topics={"primary.orders": compacted})
    assert "is compacted" in str(backfill(state).remarks.refused[0])
    plan = backfill(state, a_flow(backfill_topic="separate"))
    assert plan.remarks.refused == ()
    assert [it.remote_topic for it in plan.topics.creations] == ["primary.orders.backfill"]
    assert plan.ranges[0].remote_topic == "primary.orders.backfill"


def test_a_separate_topic_that_is_anothers_is_refused() -> None:
    flow = a_flow(backfill_topic="separate")
    foreign = backfill(copied(), flow, foreign=frozenset({"primary.orders.backfill"}))
    assert "has not copied" in str(foreign.remarks.refused[0])
    taken = backfill(copied(copied={"orders.backfill": "primary.orders.backfill"}), flow)
    assert "of another topic of the flow" in str(taken.remarks.refused[0])
    assert (foreign.ranges, foreign.topics.creations, taken.ranges) == ((), (), ())


def test_a_separate_topic_that_has_lost_records_is_refused_though_nothing_else_is_missing() -> None:
    plan = backfill(
        copied(),
        a_flow(backfill_topic="separate"),
        settled={SOURCE: [replace(ORDINARY, end=30)]},
        mismatched=frozenset({"primary.orders.backfill"}),
    )
    assert "has lost records that the ledger has" in str(plan.remarks.refused[0])
    assert plan.remarks.notes == ()


def test_a_window_is_told_in_utc() -> None:
    assert str(Window(1_767_225_600_000, 1_767_225_660_001)) == (
        "[2026-01-01T00:00Z, 2026-01-01T00:01:00.001Z)"
    )
    assert str(2**62) in str(Window(0, 2**62))
