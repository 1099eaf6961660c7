"""Who gets which topic back, by the clusters' ids: ``S`` is the source's, ``T`` the target's."""

from dataclasses import replace

import pytest

from kafka_ferry.model import Position, Skipped, Topic, TopicPartition
from kafka_ferry.plan.topics.provenance import brings_same_records, origins_of
from tests.unit.plan.builders import (
    KNOWN,
    P0,
    REMOTE,
    a_flow,
    a_source,
    a_state,
    at,
    intervals,
    planned,
)

ORDERS = Topic("orders", "id of orders", 2)


def told(origins: tuple[str, ...], remote_topic_id: str = "id of orders") -> Position:
    """A position that another flow has committed on the source."""
    return Position(5, "id upstream", remote_topic_id, origins=origins)


@pytest.mark.parametrize(
    ("positions", "origins"),
    [
        ([], None),
        ([(0, told(("T",)))], ("T",)),
        ([(0, told(("T", "X")))], ("T", "X")),
        ([(0, told(("X",))), (1, told(("T",)))], ("T", "X")),
        ([(0, told(("X",))), (0, told(("T",)))], ("T", "X")),
        ([(7, told(("T",)))], ("T",)),
        ([(0, told(("T",), "an earlier topic's id"))], None),
        ([(0, told(("T",), ""))], ("T",)),
        ([(0, told(()))], None),
    ],
    ids=[
        "local",
        "from one cluster",
        "through another one",
        "by partitions",
        "by two flows",
        "by a partition that there was",
        "an earlier topic of that name",
        "brokers without topic ids",
        "a position that says nothing",
    ],
)
def test_positions_on_the_source_tell_where_a_topic_came_from(
    positions: list[tuple[int, Position]], origins: tuple[str, ...] | None
) -> None:
    listed = [(TopicPartition("orders", number), position) for number, position in positions]
    listed.append((TopicPartition("not-of-interest", 0), told(("Y",))))
    assert origins_of({"orders": ORDERS}, listed).get("orders") == origins


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"replication_policy_class": "IdentityReplicationPolicy"},
        {"replication_policy_class": "kafka_ferry.plan.topics.replication_policy.KeptNames"},
        {"topics_rename": {"orders": "shop"}},
        {"replication_policy_separator": "_"},
    ],
)
@pytest.mark.parametrize("origins", [("T",), ("A", "T"), ("T", "X")])
def test_a_topic_never_goes_back_to_a_cluster_that_it_came_through(
    options: dict[str, object], origins: tuple[str, ...]
) -> None:
    state = a_state(a_source(), a_source("payments"), origins={"orders": origins})
    plan = planned(state, a_flow(**options))
    assert plan.remarks.skipped == (
        Skipped("orders", "records of backup itself are copied to it (cluster id T)"),
    )
    assert [range_.topic for range_ in plan.ranges] == ["payments"]
    assert len(plan.topics.creations) == 1


def test_a_topic_whose_returned_records_cannot_be_told_from_its_own_is_refused() -> None:
    state = a_state(a_source(), a_source("payments"), origins={"orders": ("T",)})
    plan = planned(state, a_flow(on_returned_records="leave-out"))
    (refused,) = plan.remarks.refused
    assert refused.topic == "orders"
    assert "copied to it (cluster id T), and cannot be told from those of primary" in refused.reason
    assert not plan.remarks.skipped
    assert [range_.topic for range_ in plan.ranges] == ["payments"]


def test_a_topic_goes_on_to_other_clusters_and_says_where_it_came_from() -> None:
    plan = planned(a_state(a_source(), a_source("payments"), origins={"orders": ("X", "A")}))
    assert plan.remarks.skipped == ()
    assert [range_.origins for range_ in plan.ranges] == [("A", "S", "X"), ("S",)]


def test_topics_that_are_skipped_are_sorted_whatever_the_reason() -> None:
    state = a_state(*map(a_source, ("b", "__a", "__c")), origins={"b": ("T",)})
    assert [skipped.topic for skipped in planned(state).remarks.skipped] == ["__a", "__c", "b"]


def test_a_topic_that_goes_back_does_not_take_another_ones_name() -> None:
    state = a_state(a_source("a"), a_source("b"), origins={"a": ("T",)})
    plan = planned(state, a_flow(topics_rename={"a": "primary.b"}))
    assert [creation.remote_topic for creation in plan.topics.creations] == ["primary.b"]
    assert plan.remarks.refused == ()


@pytest.mark.parametrize(
    ("position", "origins"),
    [
        (at(30, origins=("S", "X")), ("S", "X")),
        (at(30, origins=("S", "X"), topic_id="an earlier topic's"), ("S", "X")),
        (at(30, origins=("S", "X"), remote_topic_id=""), ("S", "X")),
        (at(30, origins=("S", "X"), remote_topic_id="an earlier one's"), ("S",)),
    ],
    ids=["known", "the source's topic was recreated", "no ids", "the remote topic was recreated"],
)
def test_what_the_target_knows_of_origins_it_does_not_forget(
    position: Position, origins: tuple[str, ...]
) -> None:
    """Who may not ask the source's groups today, could perhaps yesterday."""
    options = {"on_source_topic_recreated": "append", "on_target_topic_lost": "recopy"}
    state = a_state(a_source(), target=[REMOTE], positions={P0: position})
    [range_] = planned(state, a_flow(**options)).ranges
    assert range_.origins == origins


def test_an_idle_partition_tells_its_origins_again_with_its_position() -> None:
    position = replace(KNOWN, offset=50, at=0)
    state = a_state(
        a_source(), target=[REMOTE], positions={P0: position}, origins={"orders": ("X",)}
    )
    plan = planned(state)
    assert intervals(plan) == [("orders", 0, 50, 50)]
    assert plan.ranges[0].origins == ("S", "X")


def test_what_the_source_does_not_say_is_a_note_of_the_plan() -> None:
    plan = planned(a_state(a_source(), unknown=("unknown.",)))
    assert [str(note) for note in plan.remarks.notes] == ["unknown."]
    assert len(plan.ranges) == 1


def test_a_topic_that_came_back_in_part_is_copied_where_its_records_can_be_told_apart() -> None:
    state = a_state(
        a_source(), a_source("payments"), origins={"orders": ("T",)}, returned={"orders": 17}
    )
    plan = planned(state)
    assert plan.remarks.skipped == ()
    assert {range_.topic: range_.returned_since for range_ in plan.ranges} == {
        "orders": 17,
        "payments": -1,
    }


@pytest.mark.parametrize(
    ("position", "origins", "is_twice"),
    [
        (Position(5, "id of orders", origins=("A",)), {"A"}, True),
        (Position(5, "id of orders"), {"A"}, True),
        (Position(5, "id of payments", origins=("A",)), {"A"}, False),
        (Position(5, "id of orders in B", origins=("B",)), {"A"}, False),
        (Position(5, "id of orders in B", origins=("A", "B")), {"A"}, True),
        (Position(5, "id of orders in B", origins=("A", "B")), {"A", "B"}, True),
        (Position(5, "", origins=("A",)), {"A"}, False),
        (Position(5, "id of orders in B"), {"A"}, False),
    ],
    ids=[
        "one topic under two aliases",
        "a position of it that says nothing",
        "another topic of that source",
        "of another source",
        "of a source that has them from here",
        "of each other",
        "brokers without topic ids",
        "a position that says nothing",
    ],
)
def test_a_record_reaches_a_shared_topic_by_one_way_only(
    position: Position, origins: set[str], is_twice: bool
) -> None:
    assert brings_same_records(position, ORDERS, origins) == is_twice
