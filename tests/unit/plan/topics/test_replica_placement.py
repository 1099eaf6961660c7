"""Where a plan places the replicas of remote topics, and which it finds elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.model import (
    ClusterState,
    Creation,
    Growth,
    Plan,
    Refusal,
    RunOptions,
    Topic,
    Window,
)
from kafka_ferry.model.changes import Misplacement
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.plan.backfill.make_plan import plan_backfill
from kafka_ferry.plan.backfill.topic_backfill import WindowFacts
from tests.unit.plan.builders import (
    NOW,
    P0,
    a_flow,
    a_remote,
    a_source,
    a_state,
    at,
    changed,
    planned,
)

RACKS = {1: "r1", 2: "r2", 3: "r3", 4: "r1"}
PLACED = {"r1": 2, "r2": 1}
OTHER = a_source("payments")


def placing(placement: object = None, **options: Any) -> Flow:
    """A flow that places the replicas of one of its topics."""
    said = {"orders": PLACED if placement is None else placement}
    return a_flow(topics_replica_placement=said, **options)


def remote(*replicas: tuple[int, ...]) -> Topic:
    return replace(a_remote(partitions=len(replicas)), replicas=replicas)


def state(
    *replicas: tuple[int, ...],
    partitions: int = 2,
    racks: Mapping[int, str] = RACKS,
    **more: Any,
) -> ClusterState:
    """A topic beside another one; the remote topic exists if it has replicas."""
    target = [remote(*replicas)] if replicas else []
    return a_state(a_source(partitions=partitions), OTHER, target=target, racks=racks, **more)


def refused(plan: Plan) -> list[tuple[str, int | None, str, str]]:
    return [(it.topic, it.partition, it.reason, it.advice) for it in plan.remarks.refused]


def test_a_new_remote_topic_is_created_on_the_racks_that_the_flow_says() -> None:
    plan = planned(state(), placing())
    placed, other = plan.topics.creations
    assert (placed.remote_topic, placed.replication_factor) == ("primary.orders", 3)
    assert placed.placement == PLACED
    assert [{*replicas} for replicas in placed.assignment] == [{1, 2, 4}] * 2
    assert other == Creation("primary.payments", 1, 2, {})
    assert Plan.from_json(plan.to_json()) == plan
    assert planned(state(), placing()) == plan


def test_added_partitions_are_placed_too() -> None:
    (growth,) = planned(state((1, 2, 4), partitions=3), placing()).topics.growths
    assert (growth.remote_topic, growth.partitions) == ("primary.orders", 3)
    assert [{*replicas} for replicas in growth.assignment] == [{1, 2, 4}] * 2
    assert growth.assignment[0][0] != 1
    (elsewhere,) = planned(state((1, 2, 4), partitions=3), a_flow()).topics.growths
    assert elsewhere == Growth("primary.orders", 3)


def test_a_topic_with_more_replicas_than_there_are_brokers_is_refused_before_the_run_creates_it() -> (
    None
):
    flow = a_flow(replication_factor=2, topics_replication_factor={"orders": 5})
    (refusal,) = planned(state(), flow).remarks.refused
    assert (refusal.topic, refusal.reason) == (
        "orders",
        "the flow gives primary.orders 5 replicas, and backup has 4 live brokers.",
    )
    assert "topics.replication.factor" in refusal.advice
    plan = planned(state(), flow)
    assert [it.remote_topic for it in plan.topics.creations] == ["primary.payments"]
    # Where they are not known, and where the topic exists, the brokers decide.
    assert not planned(state(racks={}), flow).remarks.refused
    assert not planned(state((1, 2), (3, 4)), flow).remarks.refused


NOT_DONE = [
    (
        {1: "r1", 3: "r3", 4: "r1"},
        "topics.replica.placement places 1 replica of each partition on the rack r2 of backup, which has "
        "no live broker.",
        "Start brokers there, or change topics.replica.placement: live brokers are on the racks r1, r3.",
    ),
    (
        {1: "r1", 2: "r2", 3: "r2"},
        "topics.replica.placement places 2 replicas of each partition on the rack r1 of backup, which has "
        "only 1 live broker.",
        "Start brokers there, or change topics.replica.placement: live brokers are on the racks r1, r2.",
    ),
    (
        {1: "", 2: "", 3: ""},
        "topics.replica.placement places 2 replicas of each partition on the rack r1 of backup, which has "
        "no live broker.",
        "Set broker.rack on the brokers without one (1, 2, 3), or change topics.replica.placement.",
    ),
]


@pytest.mark.parametrize(("racks", "reason", "advice"), NOT_DONE)
def test_a_topic_that_cannot_be_placed_is_refused_by_its_rack_and_the_others_are_copied(
    racks: dict[int, str], reason: str, advice: str
) -> None:
    plan = planned(state(racks=racks), placing())
    assert refused(plan) == [("orders", None, reason, advice)]
    assert {range_.topic for range_ in plan.ranges} == {"payments"}
    assert [it.remote_topic for it in plan.topics.creations] == ["primary.payments"]
    assert [choice.topic for choice in plan.choices] == ["payments"]


@pytest.mark.parametrize(("racks", "reason", "advice"), NOT_DONE)
def test_partitions_that_cannot_be_placed_do_not_hold_those_back_that_exist(
    racks: dict[int, str], reason: str, advice: str
) -> None:
    plan = planned(state((1, 2, 4), partitions=3, racks=racks), placing())
    assert refused(plan) == [("orders", number, reason, advice) for number in (1, 2)]
    assert plan.topics.growths == ()
    assert [it.source for it in plan.ranges if it.topic == "orders"] == [
        TopicPartition("orders", 0)
    ]


def test_partitions_are_not_added_with_another_number_of_replicas_than_the_others_have() -> None:
    plan = planned(state((1, 2), partitions=3), placing())
    assert [(it.topic, it.partition) for it in plan.remarks.refused] == [
        ("orders", 1),
        ("orders", 2),
    ]
    assert "places 3 replicas of each partition, and those of primary.orders have 2" in str(plan)
    assert "kafka-reassign-partitions.sh" in plan.remarks.refused[0].advice
    assert [it.partition for it in plan.ranges if it.topic == "orders"] == [0]
    (growth,) = planned(state((1, 2), partitions=3), a_flow()).topics.growths
    assert growth.partitions == 3


def test_partitions_that_only_the_flow_wants_are_a_note_while_a_rack_is_down() -> None:
    both = state((1, 2, 4), partitions=1, racks={1: "r1", 4: "r1"})
    plan = planned(both, placing(topics_partitions=4))
    assert (plan.remarks.refused, plan.topics.growths) == ((), ())
    assert [note.topic for note in plan.remarks.notes] == ["orders"]
    assert "which has no live broker" in str(plan.remarks.notes[0])
    assert {range_.topic for range_ in plan.ranges} == {"orders", "payments"}


@pytest.mark.parametrize(
    ("replicas", "racks"),
    [
        ((1, 2, 4), None),
        ((4, 1, 2), None),
        ((1, 2, 3), ("r1", "r2", "r3")),
        ((1, 4), ("r1", "r1")),
        ((1, 4, 2, 3), ("r1", "r1", "r2", "r3")),
        # Broker 9 is down: it may be on the rack that lacks a replica, but on no other one.
        ((1, 9, 2), None),
        ((1, 9, 9), None),
        ((1, 9, 3), ("r1", "?", "r3")),
        ((1, 9, 2, 4), ("r1", "?", "r2", "r1")),
        ((1, 4, 5), ("r1", "r1", "no rack")),
    ],
)
def test_replicas_on_other_racks_are_named(
    replicas: tuple[int, ...], racks: tuple[str, ...] | None
) -> None:
    both = state((1, 2, 4), replicas, racks={**RACKS, 5: ""})
    plan = planned(both, placing())
    wanted = Misplacement("orders", "primary.orders", PLACED, {1: racks}) if racks else None
    assert plan.topics.misplacements == ((wanted,) if wanted else ())
    # It is a thing to know: nothing is changed, nothing is refused.
    assert plan.topics.growths == plan.remarks.refused == plan.remarks.notes == ()
    assert "orders" in {range_.topic for range_ in plan.ranges}
    assert Plan.from_json(plan.to_json()) == plan


def test_without_the_option_replicas_may_be_anywhere() -> None:
    both = state((3, 2, 1), partitions=1)
    assert planned(both, a_flow()).topics.misplacements == ()
    assert planned(both, placing()).topics.misplacements != ()


def test_a_sentence_names_some_partitions_their_racks_and_the_tool_that_moves_them() -> None:
    elsewhere = dict.fromkeys(range(1, 9), ("r1", "r3"))
    said = str(Misplacement("orders", "primary.orders", PLACED, elsewhere))
    assert said == (
        "primary.orders has replicas on other racks than topics.replica.placement says (r1: 2, r2: 1): "
        "partition 1 is on r1, r3; partition 2 is on r1, r3; partition 3 is on r1, r3; partition 4 is on "
        "r1, r3; partition 5 is on r1, r3; and so on for 3 more. This flow moves none: use "
        "kafka-reassign-partitions.sh (docs/topic-configs.md)."
    )


def backfill(both: ClusterState, flow: Flow, **facts: Any) -> Plan:
    firsts = {TopicPartition("orders", 0): 12}
    return plan_backfill(
        flow,
        both,
        WindowFacts(firsts=firsts, **facts),
        run="backfill",
        at=NOW,
        options=RunOptions(window=Window(1_000, 2_000)),
    )


def test_a_backfills_separate_topic_is_placed_as_well() -> None:
    flow = placing(backfill_topic="separate")
    both = state((1, 2, 4), partitions=1, positions={P0: at(30)}, ledger_end=7)
    separate = "primary.orders.backfill"
    (creation,) = backfill(both, flow).topics.creations
    assert (creation.remote_topic, {*creation.assignment[0]}) == (separate, {1, 2, 4})

    there = {separate: Topic(separate, "id", 1, replicas=((1, 2, 4),))}
    wider = placing(backfill_topic="separate", topics_partitions=3)
    growths = backfill(both, wider, separate=there).topics.growths
    (grown,) = [growth for growth in growths if growth.remote_topic == separate]
    assert {*chain.from_iterable(grown.assignment)} == {1, 2, 4}

    plan = backfill(changed(both, racks={1: "r1", 4: "r1"}), flow)
    (refusal,) = plan.remarks.refused
    assert isinstance(refusal, Refusal)
    assert "the rack r2 of backup, which has no live broker" in refusal.reason
    assert (plan.topics.creations, plan.ranges) == ((), ())
