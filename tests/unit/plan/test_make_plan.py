from dataclasses import replace

import pytest

from kafka_ferry.model import (
    Creation,
    Growth,
    LogBounds,
    Position,
    Range,
    Topic,
    TopicPartition,
    writer_of,
)
from kafka_ferry.model.cluster_state import LogMismatch

from .builders import (
    DAY,
    NOW,
    P0,
    a_flow,
    a_remote,
    a_source,
    a_state,
    at,
    changed,
    intervals,
    plan_of_one,
    planned,
    said,
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
def test_a_partition_is_copied_from_its_position_to_the_end_of_what_may_be_read(
    position: Position | None, start: int
) -> None:
    plan = plan_of_one(position)
    assert intervals(plan) == [("orders", 0, start, 50)]
    assert (plan.remarks.refused, plan.topics.creations, plan.topics.growths) == ((), (), ())
    assert plan.offsets == 50 - start


def test_a_topic_that_mirrormaker_2_may_have_copied_to_is_not_copied_back() -> None:
    state = a_state(a_source(), target=[a_remote()])
    plan = planned(changed(state, mixed=frozenset({"orders"})))
    (refusal,) = plan.remarks.refused
    assert "MirrorMaker 2 has copied records of backup to orders on primary, or" in refusal.reason
    assert "ferry takeover --from mm2" in refusal.advice
    assert (plan.ranges, plan.choices) == ((), ())


@pytest.mark.parametrize(
    "position", [None, at(30)], ids=["has lost all of it", "has its first part"]
)
def test_what_the_flow_has_written_after_the_ledgers_end_is_not_copied_again(
    position: Position | None,
) -> None:
    state = a_state(
        a_source(),
        target=[a_remote()],
        positions={P0: position} if position else {},
        target_mismatches={P0: LogMismatch(ledger_end=0, log_end=7, unknown_at=0)},
    )
    plan = planned(state)
    (refusal,) = plan.remarks.refused
    assert not plan.ranges
    assert "they would be copied twice" in refusal.reason


def test_a_range_says_where_it_goes_and_who_writes_it() -> None:
    state = a_state(a_source(partitions=40), target=[a_remote(partitions=40)])
    for number, range_ in enumerate(planned(state, a_flow(writers=7)).ranges):
        target = TopicPartition("primary.orders", number)
        assert range_ == Range(
            topic="orders",
            partition=number,
            start=10,
            end=50,
            topic_id="id of orders",
            remote_topic="primary.orders",
            writer=writer_of(target, 7),
            remote_topic_id="id of primary.orders",
            origins=("S",),
        )


def test_a_range_names_no_remote_topic_id_where_the_topic_is_still_to_be_created() -> None:
    assert [range_.remote_topic_id for range_ in planned(a_state(a_source())).ranges] == [""]


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
    assert (plan.offsets, plan.remarks.refused) == (0, ())


@pytest.mark.parametrize("bounds", [(0, 0), (50, 50)])
def test_an_empty_topic_that_was_never_copied_gets_a_position_in_one_partition(
    bounds: tuple[int, int],
) -> None:
    """So that flows that go on from the target know where the topic came from."""
    state = a_state(a_source(partitions=3), target=[a_remote(partitions=3)], bounds=bounds)
    plan = planned(state)
    assert intervals(plan) == [("orders", 0, bounds[1], bounds[1])]
    assert (plan.offsets, plan.remarks.refused) == (0, ())


@pytest.mark.parametrize("others", [{1: (0, 5)}, {2: (5, 5)}])
def test_an_empty_partition_beside_others_needs_nothing(others: dict[int, tuple[int, int]]) -> None:
    state = a_state(a_source(partitions=3), target=[a_remote(partitions=3)], bounds=(0, 0))
    logs = {TopicPartition("orders", n): LogBounds(*bounds) for n, bounds in others.items()}
    positions = {
        TopicPartition("primary.orders", number): at(end)
        for number, (start, end) in others.items()
        if start == end
    }
    plan = planned(changed(state, bounds={**state.source.logs.bounds, **logs}, known=positions))
    wanted = [("orders", number, *log) for number, log in others.items() if log[0] < log[1]]
    assert intervals(plan) == wanted


def test_a_partition_without_a_leader_is_refused_and_the_others_are_copied() -> None:
    state = a_state(a_source(partitions=3), target=[a_remote(partitions=3)])
    bounds = {tp: log for tp, log in state.source.logs.bounds.items() if tp.partition != 1}
    plan = planned(changed(state, bounds=bounds))
    assert [r.partition for r in plan.ranges] == [0, 2]
    [refusal] = plan.remarks.refused
    assert (refusal.topic, refusal.partition) == ("orders", 1)
    assert "no leader" in refusal.reason
    assert "down?" in refusal.advice


def test_a_refused_partition_does_not_hold_the_others_back() -> None:
    positions = {TopicPartition("primary.orders", 1): at(5)}
    state = a_state(a_source(partitions=3), target=[a_remote(partitions=3)], positions=positions)
    plan = planned(state)
    assert [r.partition for r in plan.ranges] == [0, 2]
    assert [r.partition for r in plan.remarks.refused] == [1]


def test_positions_are_those_of_the_target_partition() -> None:
    positions = {
        TopicPartition("orders", 0): at(20),
        TopicPartition("primary.orders", 1): at(30),
    }
    state = a_state(a_source(partitions=2), target=[a_remote(partitions=2)], positions=positions)
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
    plan = planned(a_state(a_source(partitions=partitions), target=target))
    assert list(plan.topics.creations) == creations
    assert list(plan.topics.growths) == growths
    assert [r.partition for r in plan.ranges] == list(range(partitions))


def test_an_empty_topic_is_created_too() -> None:
    plan = planned(a_state(a_source(), bounds=(0, 0)))
    assert [creation.remote_topic for creation in plan.topics.creations] == ["primary.orders"]
    assert plan.offsets == 0


def test_a_remote_topic_is_created_with_the_configs_that_were_set() -> None:
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
    [creation] = planned(a_state(topic), a_flow(replication_factor=3)).topics.creations
    assert creation == Creation("primary.orders", 1, 3, copied)
    assert list(creation.configs) == sorted(copied)


LONG = "x" * 242


@pytest.mark.parametrize(
    ("topic", "target", "reason", "advice"),
    [
        (
            a_source(LONG),
            None,
            f"its remote topic's name, 'primary.{LONG}', must be a topic's name",
            "Give it another name in topics.rename.",
        ),
        (
            a_source(),
            a_remote(message_timestamp_type="LogAppendTime"),
            "primary.orders on the target has message.timestamp.type=LogAppendTime",
            "Set it to CreateTime.",
        ),
    ],
    ids=["name", "timestamps"],
)
def test_a_topic_that_cannot_be_a_faithful_copy_is_refused_whole(
    topic: Topic, target: Topic | None, reason: str, advice: str
) -> None:
    topic = replace(topic, partitions=2)
    plan = planned(a_state(topic, a_source("payments"), target=[target] if target else []))
    [refusal] = plan.remarks.refused
    assert (refusal.topic, refusal.partition, refusal.advice) == (topic.name, None, advice)
    assert refusal.reason.startswith(reason)
    assert [r.topic for r in plan.ranges] == ["payments"]
    assert [creation.remote_topic for creation in plan.topics.creations] == ["primary.payments"]
    assert plan.topics.growths == ()


@pytest.mark.parametrize(
    ("topic", "target"),
    [
        (a_source(LONG[:-1]), None),
        (a_source(), a_remote(message_timestamp_type="CreateTime", compression_type="producer")),
        (a_source(), a_remote(compression_type="zstd")),
    ],
    ids=["a name of 249 characters", "the configs that are wanted", "a codec of its own"],
)
def test_a_topic_that_can_be_a_faithful_copy_is_not_refused(
    topic: Topic, target: Topic | None
) -> None:
    plan = planned(a_state(topic, target=[target] if target else []))
    assert plan.remarks.refused == ()
    assert len(plan.ranges) == 1


@pytest.mark.parametrize(
    "stored",
    [{"topic_id": "an earlier topic's"}, {"remote_topic_id": "an earlier one's"}],
    ids=["the source's topic was recreated", "the remote topic was recreated"],
)
@pytest.mark.parametrize(("offset", "refused"), [(0, False), (1, True)])
def test_a_topic_of_which_nothing_was_copied_may_be_recreated(
    stored: dict[str, str], offset: int, refused: bool
) -> None:
    plan = plan_of_one(at(offset, **stored))
    assert bool(plan.remarks.refused) == refused
    assert intervals(plan) == ([] if refused else [("orders", 0, 10, 50)])


def test_a_topic_that_gets_another_name_leaves_its_copy_behind_and_says_so_once() -> None:
    flow = a_flow(topics_rename={"orders": "five"})
    (note,) = planned(a_state(a_source(), copied={"orders": "primary.orders"}), flow).remarks.notes
    assert "it goes to five from now on. Its copy primary.orders stays as it is" in str(note)
    assert planned(a_state(a_source(), copied={"orders": "five"}), flow).remarks.notes == ()


@pytest.mark.parametrize(
    ("position", "lacking"),
    [
        (at(30), [1]),
        (at(0), []),
        (at(30, topic_id="another id"), []),
        (at(30, topic_id=""), []),
        (None, []),
    ],
    ids=[
        "copied from this topic",
        "without records",
        "copied from a former topic, which had more",
        "from a topic without an id, which may have been recreated with fewer",
        "never copied",
    ],
)
def test_a_partition_that_was_copied_and_that_the_source_does_not_list_is_refused(
    position: Position | None, lacking: list[int]
) -> None:
    """A broker that is behind its controller lists fewer; Kafka takes none away."""
    second = {TopicPartition(P0.topic, 1): position} if position else {}
    state = a_state(a_source(), target=[a_remote(partitions=2)], positions={P0: at(30)} | second)

    plan = planned(state)

    assert [it.partition for it in plan.remarks.refused] == lacking
    assert all("Kafka takes no partition away" in it.reason for it in plan.remarks.refused)
    assert intervals(plan) == [("orders", 0, 30, 50)]
    assert ("stay empty" in said(plan)) == (not lacking)
