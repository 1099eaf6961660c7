from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.config import Cluster, Flow
from kafka_ferry.errors import FerryError
from kafka_ferry.plan import (
    Creation,
    Found,
    Growth,
    LogBounds,
    Plan,
    Position,
    Range,
    Refusal,
    Skipped,
    Topic,
    TopicPartition,
    make_plan,
    read_plan,
    save_plan,
    select_topics,
    writer_of,
)
from kafka_ferry.state import StateFolder

NOW = 1_700_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR


def a_flow(**options: Any) -> Flow:
    return Flow(
        source=Cluster(alias="primary", properties={"bootstrap.servers": "source:9092"}),
        target=Cluster(alias="backup", properties={"bootstrap.servers": "target:9092"}),
        **options,
    )


def a_source(name: str = "orders", partitions: int = 1, **more: Any) -> Topic:
    return Topic(name, f"id of {name}", partitions, **more)


def a_remote(name: str = "primary.orders", partitions: int = 1, **configs: str) -> Topic:
    dotted = {key.replace("_", "."): value for key, value in configs.items()}
    return Topic(name, f"id of {name}", partitions, dotted)


def found(
    *source: Topic,
    target: Iterable[Topic] = (),
    bounds: tuple[int, int] = (10, 50),
    positions: Mapping[TopicPartition, Position] | None = None,
    vanished: Iterable[str] = (),
    **more: Any,
) -> Found:
    """Both clusters, with the same bounds for every partition of the source."""
    return Found(
        source_cluster_id="S",
        target_cluster_id="T",
        source_names=frozenset([topic.name for topic in source]).union(vanished),
        source_topics={topic.name: topic for topic in source},
        target_topics={topic.name: topic for topic in target},
        bounds={
            TopicPartition(topic.name, number): LogBounds(*bounds)
            for topic in source
            for number in range(topic.partitions)
        },
        positions=positions or {},
        **more,
    )


def planned(state: Found, flow: Flow | None = None) -> Plan:
    return make_plan(flow or a_flow(), state, run="run-1", at=NOW)


def intervals(plan: Plan) -> list[tuple[str, int, int, int]]:
    return [(r.topic, r.partition, r.start, r.end) for r in plan.ranges]


# One partition whose source holds [10, 50)

P0 = TopicPartition("primary.orders", 0)
KNOWN = Position(30, "id of orders", "id of primary.orders", NOW - HOUR)


def at(offset: int, **more: Any) -> Position:
    return replace(KNOWN, offset=offset, **more)


REMOTE = a_remote()


def plan_of_one(position: Position | None, remote: Topic | None = REMOTE) -> Plan:
    return planned(
        found(
            a_source(),
            target=[remote] if remote else [],
            positions={P0: position} if position else {},
        )
    )


@pytest.mark.parametrize(
    ("position", "start"),
    [
        (None, 10),
        (at(30), 30),
        (at(30, origin="ledger"), 30),
        (at(10), 10),
        (at(49), 49),
        (at(30, at=0), 30),
        (at(30, topic_id=""), 30),
        (at(30, remote_topic_id=""), 30),
        (Position(30), 30),
    ],
    ids=[
        "never copied: from the log's start",
        "from the group's position",
        "from the ledger's, where the group forgot it",
        "nothing was lost yet",
        "one offset",
        "a position of unknown age",
        "of an unknown topic id",
        "of an unknown remote topic id",
        "of which nothing is known",
    ],
)
def test_a_partition_is_copied_from_its_position_to_the_stable_end(
    position: Position | None, start: int
) -> None:
    plan = plan_of_one(position)
    assert intervals(plan) == [("orders", 0, start, 50)]
    assert (plan.refused, plan.creations, plan.growths) == ((), (), ())
    assert plan.offsets == 50 - start


def test_a_range_says_where_it_goes_and_who_writes_it() -> None:
    state = found(a_source(partitions=40), target=[a_remote(partitions=40)])
    for number, range_ in enumerate(planned(state, a_flow(writers=7)).ranges):
        target = TopicPartition("primary.orders", number)
        assert range_ == Range(
            "orders", number, 10, 50, "id of orders", "primary.orders", writer_of(target, 7)
        )


@pytest.mark.parametrize(
    ("position", "refreshed"),
    [
        (at(50), False),
        (at(50, at=NOW - DAY), False),
        (at(50, at=NOW - DAY - 1), True),
        (at(50, at=0), True),
        (at(50, origin="ledger"), True),
        (Position(50), True),
    ],
    ids=["an hour old", "a day old", "older", "of unknown age", "forgotten by the group", "bare"],
)
def test_an_idle_partition_is_only_refreshed_before_the_broker_forgets_it(
    position: Position, refreshed: bool
) -> None:
    plan = plan_of_one(position)
    assert intervals(plan) == ([("orders", 0, 50, 50)] if refreshed else [])
    assert (plan.offsets, plan.refused) == (0, ())


@pytest.mark.parametrize("bounds", [(0, 0), (50, 50)])
def test_an_empty_partition_that_was_never_copied_needs_nothing(bounds: tuple[int, int]) -> None:
    plan = planned(found(a_source(), target=[a_remote()], bounds=bounds))
    assert (plan.ranges, plan.refused) == ((), ())


@pytest.mark.parametrize(
    ("position", "remote", "reason", "advice"),
    [
        (
            at(30, topic_id="another id"),
            a_remote(),
            "the source's topic was deleted and made anew",
            "Delete the remote topic",
        ),
        (
            at(30),
            None,
            "the target's topic was deleted since it was last copied",
            "delete the ledger's topic too",
        ),
        (
            at(30, remote_topic_id="another id"),
            a_remote(),
            "the target's topic was deleted since it was last copied",
            "delete the ledger's topic too",
        ),
        (at(9), a_remote(), "offsets [9, 10) were deleted on the source", "Mirror more often"),
        (at(0), a_remote(), "offsets [0, 10) were deleted on the source", "longer"),
        (
            at(51),
            a_remote(),
            "the source's log ends at 50, before the position 51",
            "unclean leader election",
        ),
        (at(60), None, "the target's topic was deleted", "delete the ledger's topic too"),
        (at(50, topic_id="another id"), a_remote(), "made anew", "Delete the remote topic"),
        (at(50, remote_topic_id="another id"), a_remote(), "history there is gone", "delete"),
        (
            at(30, origin="ledger", remote_topic_id="another id"),
            a_remote(),
            "history there is gone",
            "ledger's topic",
        ),
    ],
    ids=[
        "the source's topic was made anew",
        "the target's topic vanished",
        "the target's topic was made anew",
        "an offset was lost before it was copied",
        "offsets were lost before they were copied",
        "the source lost what was copied",
        "the target's topic vanished and the source lost records",
        "the source's topic was made anew and has nothing new",
        "the target's topic was made anew and there is nothing new",
        "the ledger knows the target's topic by another id",
    ],
)
def test_a_position_that_does_not_fit_is_refused_by_name(
    position: Position, remote: Topic | None, reason: str, advice: str
) -> None:
    plan = plan_of_one(position, remote)
    assert plan.ranges == ()
    [refusal] = plan.refused
    assert (refusal.topic, refusal.partition) == ("orders", 0 if remote else None)
    assert reason in refusal.reason
    assert advice in refusal.advice


@pytest.mark.parametrize("remote", [None, a_remote()], ids=["deleted", "made anew"])
def test_a_new_topic_begins_at_its_start_once_the_remote_topic_of_the_old_one_is_gone(
    remote: Topic | None,
) -> None:
    old = at(30, topic_id="another id", remote_topic_id="another id")
    plan = plan_of_one(old, remote)
    assert intervals(plan) == [("orders", 0, 10, 50)]
    assert (len(plan.creations), plan.refused) == (0 if remote else 1, ())


def test_a_vanished_target_topic_is_not_made_anew_behind_its_refusal() -> None:
    """Else the next plan goes on in the new one, if the position does not name the old one."""
    first = plan_of_one(Position(30), remote=None)
    assert "history there is gone" in first.refused[0].reason
    made = {creation.remote_topic for creation in first.creations}
    second = plan_of_one(Position(30), remote=a_remote() if P0.topic in made else None)
    assert second.ranges == ()
    assert "history there is gone" in second.refused[0].reason


def test_a_partition_without_a_leader_is_refused_and_the_others_are_copied() -> None:
    state = found(a_source(partitions=3), target=[a_remote(partitions=3)])
    bounds = {tp: log for tp, log in state.bounds.items() if tp.partition != 1}
    plan = planned(replace(state, bounds=bounds))
    assert [r.partition for r in plan.ranges] == [0, 2]
    [refusal] = plan.refused
    assert (refusal.topic, refusal.partition) == ("orders", 1)
    assert "no leader" in refusal.reason
    assert "down?" in refusal.advice


def test_a_refused_partition_does_not_hold_the_others_back() -> None:
    positions = {TopicPartition("primary.orders", 1): at(5)}
    state = found(a_source(partitions=3), target=[a_remote(partitions=3)], positions=positions)
    plan = planned(state)
    assert [r.partition for r in plan.ranges] == [0, 2]
    assert [r.partition for r in plan.refused] == [1]


def test_positions_are_those_of_the_target_partition() -> None:
    positions = {
        TopicPartition("orders", 0): at(20),
        TopicPartition("primary.orders", 1): at(30),
    }
    state = found(a_source(partitions=2), target=[a_remote(partitions=2)], positions=positions)
    assert intervals(planned(state)) == [("orders", 0, 10, 50), ("orders", 1, 30, 50)]


# The remote topic


@pytest.mark.parametrize(
    ("partitions", "remote", "creations", "growths"),
    [
        (3, None, [Creation("primary.orders", 3, 2, {})], []),
        (3, 3, [], []),
        (3, 1, [], [Growth("primary.orders", 3)]),
        (3, 5, [], []),
    ],
    ids=["missing", "the same", "too small", "larger"],
)
def test_the_remote_topic_gets_as_many_partitions_as_the_sources(
    partitions: int, remote: int | None, creations: list[Creation], growths: list[Growth]
) -> None:
    target = [a_remote(partitions=remote)] if remote else []
    plan = planned(found(a_source(partitions=partitions), target=target))
    assert list(plan.creations) == creations
    assert list(plan.growths) == growths
    assert [r.partition for r in plan.ranges] == list(range(partitions))


def test_an_empty_topic_is_created_too() -> None:
    plan = planned(found(a_source(), bounds=(0, 0)))
    assert [creation.remote_topic for creation in plan.creations] == ["primary.orders"]
    assert plan.ranges == ()


def test_a_remote_topic_is_created_with_the_configs_that_somebody_set() -> None:
    copied = {"cleanup.policy": "compact", "retention.ms": "1000", "max.message.bytes": "5"}
    left_out = {
        "compression.type": "zstd",
        "follower.replication.throttled.replicas": "*",
        "leader.replication.throttled.replicas": "*",
        "message.timestamp.after.max.ms": "1",
        "message.timestamp.before.max.ms": "1",
        "message.timestamp.difference.max.ms": "1",
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "true",
    }
    topic = a_source(
        configs=copied | left_out | {"segment.bytes": "a default"},
        overrides=frozenset(copied | left_out),
    )
    [creation] = planned(found(topic), a_flow(replication_factor=3)).creations
    assert creation == Creation("primary.orders", 1, 3, copied)
    assert list(creation.configs) == sorted(copied)


LONG = "x" * 242


@pytest.mark.parametrize(
    ("topic", "target", "reason", "advice"),
    [
        (a_source(LONG), None, f"primary.{LONG} is longer than 249 characters", "Rename it."),
        (
            a_source(),
            a_remote(message_timestamp_type="LogAppendTime"),
            "primary.orders on the target has message.timestamp.type=LogAppendTime",
            "Set it to CreateTime.",
        ),
        (
            a_source(),
            a_remote(compression_type="zstd"),
            "primary.orders on the target has compression.type=zstd",
            "Set it to producer.",
        ),
    ],
    ids=["name", "timestamps", "compression"],
)
def test_a_topic_that_cannot_be_a_faithful_copy_is_refused_whole(
    topic: Topic, target: Topic | None, reason: str, advice: str
) -> None:
    topic = replace(topic, partitions=2)
    plan = planned(found(topic, a_source("payments"), target=[target] if target else []))
    [refusal] = plan.refused
    assert (refusal.topic, refusal.partition, refusal.advice) == (topic.name, None, advice)
    assert refusal.reason.startswith(reason)
    assert [r.topic for r in plan.ranges] == ["payments"]
    assert [creation.remote_topic for creation in plan.creations] == ["primary.payments"]
    assert plan.growths == ()


@pytest.mark.parametrize(
    ("topic", "target"),
    [
        (a_source(LONG[:-1]), None),
        (a_source(), a_remote(message_timestamp_type="CreateTime", compression_type="producer")),
    ],
    ids=["a name of 249 characters", "the configs that are wanted"],
)
def test_a_topic_that_can_be_a_faithful_copy_is_not_refused(
    topic: Topic, target: Topic | None
) -> None:
    plan = planned(found(topic, target=[target] if target else []))
    assert plan.refused == ()
    assert len(plan.ranges) == 1


# Which topics


@pytest.mark.parametrize(
    ("options", "topic", "reason"),
    [
        ({}, "__consumer_offsets", "an internal topic"),
        ({}, "mm2-offset-syncs.backup.internal", "an internal topic"),
        ({}, "primary.checkpoints.internal", "an internal topic"),
        ({}, ".hidden", "an internal topic"),
        ({"topics_exclude": []}, "__consumer_offsets", "an internal topic"),
        ({}, "backup.orders", "it came from backup itself"),
        ({}, "other.backup.orders", "it came from backup itself"),
        ({}, "backup.heartbeats", "it came from backup itself"),
        (
            {"replication_policy_class": "IdentityReplicationPolicy"},
            "backup.heartbeats",
            "it came from backup itself",
        ),
        ({}, "orders.replica", r"excluded by '.*\\.replica'"),
        ({}, "ferry-ledger.other.internal", r"excluded by 'ferry-ledger\\..*\\.internal'"),
        ({"topics": ["payments"]}, "orders", "matched by no pattern of 'payments'"),
        ({"topics": ["orders"], "topics_exclude": ["ord.*"]}, "orders", "excluded by 'ord.*'"),
        ({"topics": []}, "orders", "matched by no pattern of an empty list"),
    ],
)
def test_a_topic_is_skipped_with_a_reason(options: dict[str, Any], topic: str, reason: str) -> None:
    plan = planned(found(a_source(topic)), a_flow(**options))
    [skipped] = plan.skipped
    assert skipped.topic == topic
    assert reason in skipped.reason
    assert (plan.ranges, plan.creations, plan.refused) == ((), (), ())


@pytest.mark.parametrize(
    ("options", "topic", "remote"),
    [
        ({}, "orders", "primary.orders"),
        ({}, "other.orders", "primary.other.orders"),
        ({}, "primary.orders", "primary.primary.orders"),
        ({}, "heartbeats", "primary.heartbeats"),
        ({"replication_policy_separator": "_"}, "backup.orders", "primary_backup.orders"),
        ({"replication_policy_class": "IdentityReplicationPolicy"}, "orders", "orders"),
        (
            {"replication_policy_class": "IdentityReplicationPolicy"},
            "backup.orders",
            "backup.orders",
        ),
    ],
)
def test_a_topic_is_copied_under_its_remote_name(
    options: dict[str, Any], topic: str, remote: str
) -> None:
    plan = planned(found(a_source(topic)), a_flow(**options))
    assert [creation.remote_topic for creation in plan.creations] == [remote]
    assert [r.remote_topic for r in plan.ranges] == [remote]
    assert plan.skipped == ()


def test_a_topic_that_vanished_meanwhile_is_skipped() -> None:
    plan = planned(found(a_source(), vanished=["payments"]))
    assert plan.skipped == (Skipped("payments", "it was deleted while the run was planned"),)
    assert [r.topic for r in plan.ranges] == ["orders"]


def test_every_topic_is_either_selected_or_skipped_and_both_are_sorted() -> None:
    names = ["c", "a", "__x", "backup.y", "b", ".z"]
    selected, skipped = select_topics(a_flow(), names)
    assert selected == ["a", "b", "c"]
    assert [one.topic for one in skipped] == [".z", "__x", "backup.y"]


# The plan as a document


def test_a_plan_says_whose_it_is() -> None:
    plan = planned(found(a_source(), ledger_end=77))
    assert (plan.flow, plan.run, plan.at) == ("primary->backup", "run-1", NOW)
    assert (plan.source_cluster_id, plan.target_cluster_id, plan.ledger_end) == ("S", "T", 77)


def test_the_same_state_gives_the_same_plan() -> None:
    topics = [a_source(name, 2) for name in ("b", "a", "c")]
    assert planned(found(*topics)) == planned(found(*reversed(topics)))
    assert [r.topic for r in planned(found(*topics)).ranges] == ["a", "a", "b", "b", "c", "c"]


FULL = Plan(
    flow="primary->backup",
    run="run-1",
    at=NOW,
    source_cluster_id="S",
    target_cluster_id="T",
    ledger_end=5,
    ranges=(Range("orders", 0, 10, 2**62, "id", "primary.orders", 3),),
    creations=(Creation("primary.orders", 3, -1, {"cleanup.policy": "compact"}),),
    growths=(Growth("primary.payments", 4),),
    skipped=(Skipped("__x", 'an "internal" topic'),),
    refused=(Refusal("täglich", None, "whole", ""), Refusal("orders", 1, "part", "Do it.")),
)


@pytest.mark.parametrize("plan", [FULL, planned(found()), planned(found(a_source()))])
def test_a_plan_is_read_from_json_as_it_was_written(plan: Plan) -> None:
    assert Plan.from_json(plan.to_json()) == plan
    assert Plan.from_json(plan.to_json().encode()) == plan


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", FULL.to_json()[:-2], FULL.to_json().replace("10", '"x"')]
)
def test_anything_else_is_no_plan(text: str) -> None:
    with pytest.raises(FerryError, match="Not a plan"):
        Plan.from_json(text)


def test_a_plan_is_stored_in_its_runs_folder(tmp_path: Path) -> None:
    folder = StateFolder(str(tmp_path))
    with pytest.raises(FerryError, match="Plan the run first"):
        read_plan(folder)
    save_plan(folder, FULL)
    assert read_plan(folder) == FULL


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        (Refusal("orders", 3, "It is gone.", "Look."), "orders-3: It is gone. Look."),
        (Refusal("orders", None, "It is gone.", ""), "orders: It is gone."),
    ],
)
def test_a_refusal_reads_as_a_sentence(refusal: Refusal, text: str) -> None:
    assert str(refusal) == text
