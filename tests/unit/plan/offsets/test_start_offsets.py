"""Where copying begins with ``auto.offset.reset: latest``; the source holds [10, 50) of each partition."""

import pytest

from kafka_ferry.model import ClusterState, LogBounds, Mark, Plan, TopicPartition
from kafka_ferry.model.cluster_state import TopicStarts
from tests.unit.plan.builders import (
    KNOWN,
    REMOTE,
    a_flow,
    a_remote,
    a_source,
    a_state,
    at,
    changed,
    intervals,
    planned,
)

LATEST = a_flow(auto_offset_reset="latest")
MARK = Mark("orders", "id of orders", REMOTE.name, REMOTE.topic_id, preserved=False, created=True)
OTHER = Mark("a", "id of a", "primary.a", "id of primary.a", preserved=False, created=True)


def begun(*marks: Mark) -> dict[str, Mark]:
    return {mark.remote_topic: mark for mark in marks}


def latest(state: ClusterState, **options: object) -> Plan:
    return planned(state, a_flow(auto_offset_reset="latest", **options))


def test_the_first_run_begins_every_partition_at_its_end_and_records_that() -> None:
    state = a_state(a_source(partitions=3))
    logs = {
        TopicPartition("orders", 1): LogBounds(0, 0),
        TopicPartition("orders", 2): LogBounds(7, 7),
    }
    plan = latest(changed(state, bounds={**state.source.logs.bounds, **logs}))
    assert intervals(plan) == [("orders", 0, 50, 50), ("orders", 1, 0, 0), ("orders", 2, 7, 7)]
    assert plan.offsets == 0
    assert [creation.remote_topic for creation in plan.topics.creations] == ["primary.orders"]
    (note,) = plan.remarks.notes
    assert "begins by auto.offset.reset (latest): 40 older offsets are left out" in note.message


@pytest.mark.parametrize(
    ("more", "start"),
    [
        ({}, 50),
        ({"marks": begun(MARK), "first_marked": frozenset({REMOTE.topic_id})}, 50),
        ({"marks": begun(MARK), "first_marked": frozenset({"another topic's"})}, 10),
        ({"marks": begun(OTHER), "first_marked": frozenset({OTHER.remote_topic_id})}, 10),
        ({"copied": {"a": "primary.a"}}, 10),
        ({"positions": {TopicPartition("primary.a", 0): KNOWN}}, 10),
        ({"positions": {TopicPartition("primary.orders", 1): at(40)}}, 10),
    ],
    ids=[
        "first run",
        "the first run was broken off before it copied the topic",
        "a later run was",
        "the topic appeared after the first run",
        "another topic was copied before",
        "the same, and the ledger is lost",
        "the partition was added later",
    ],
)
def test_what_appeared_after_the_first_run_is_copied_from_its_start(
    more: dict[str, object], start: int
) -> None:
    state = a_state(a_source(partitions=2), target=[a_remote(partitions=2)], **more)
    assert intervals(latest(state))[0] == ("orders", 0, start, 50)
    assert intervals(planned(state))[0] == ("orders", 0, 10, 50)


def test_a_partition_that_was_begun_goes_on_from_its_position() -> None:
    positions = {TopicPartition("primary.orders", 0): at(30)}
    state = a_state(a_source(), target=[REMOTE], positions=positions)
    assert intervals(latest(state)) == [("orders", 0, 30, 50)]


def test_a_remote_topic_that_was_lost_is_filled_with_all_that_there_is() -> None:
    positions = {TopicPartition("primary.orders", 0): at(30, remote_topic_id="lost")}
    state = a_state(a_source(), target=[REMOTE], positions=positions)
    plan = latest(state, on_target_topic_lost="recopy")
    assert intervals(plan) == [("orders", 0, 10, 50)]


@pytest.mark.parametrize(
    ("asked", "start", "log_start"), [("log-start", 50, 50), (0, 50, 0), (20, 50, 20), (50, 50, 50)]
)
def test_the_mirror_of_preserved_offsets_begins_there(
    asked: object, start: int, log_start: int
) -> None:
    plan = latest(a_state(a_source()), offsets="preserved", offsets_start=asked)
    [range_] = plan.ranges
    assert (range_.start, range_.end, range_.log_start) == (start, 50, log_start)
    assert range_.preserved


def test_the_mirror_of_a_compacted_topic_begins_with_gaps() -> None:
    """Brokers do not let the start of its log be moved."""
    topic = a_source(configs={"cleanup.policy": "compact"}, overrides=frozenset({"cleanup.policy"}))
    [range_] = latest(a_state(topic), offsets="preserved").ranges
    assert (range_.start, range_.log_start) == (50, 0)


def test_auto_has_nothing_against_preserving_what_is_yet_to_come() -> None:
    [choice] = latest(a_state(a_source()), offsets="auto").choices
    assert (choice.preserved, choice.reason) == (True, "auto: there is nothing to copy yet.")


# topics.start

PARTITION = TopicPartition("orders", 0)
ADDED = TopicPartition("orders", 1)
AGO = a_flow(topics_start={"orders": "-7d"})


def test_a_topic_begins_where_the_option_says_and_the_plan_says_what_is_left_out() -> None:
    plan = planned(a_state(a_source(), starts=TopicStarts({PARTITION: 30})), AGO)
    (range_,) = plan.ranges
    assert (range_.start, range_.end, range_.begin) == (30, 50, "-7d")
    (note,) = plan.remarks.notes
    assert "begins by topics.start (-7d): 20 older offsets are left out" in str(note)


@pytest.mark.parametrize("first", [0, 10])
def test_what_is_gone_already_is_not_left_out(first: int) -> None:
    plan = planned(a_state(a_source(), starts=TopicStarts({PARTITION: first})), AGO)
    assert intervals(plan) == [("orders", 0, 10, 50)]
    assert plan.remarks.notes == ()


def test_an_empty_range_records_that_a_topic_begins_at_its_end() -> None:
    plan = planned(a_state(a_source(), starts=TopicStarts({PARTITION: 50})), AGO)
    assert [(range_.start, range_.end, range_.begin) for range_ in plan.ranges] == [(50, 50, "-7d")]


def test_no_mirror_begins_after_the_end() -> None:
    (refusal,) = planned(
        a_state(a_source(), starts=TopicStarts({PARTITION: 51})), AGO
    ).remarks.refused
    assert "begin at 51, but its log ends at 50" in refusal.reason
    assert "topics.start" in refusal.advice


def test_a_preserved_log_starts_there_too() -> None:
    state = a_state(a_source(), starts=TopicStarts({PARTITION: 30}))
    kept = {"offsets": "preserved", "topics_start": "-7d"}
    (range_,) = planned(state, a_flow(**kept)).ranges
    assert (range_.start, range_.log_start) == (30, 30)
    (range_,) = planned(state, a_flow(**kept, offsets_start=0)).ranges
    assert (range_.start, range_.log_start) == (30, 0)


def test_the_option_wins_over_auto_offset_reset_for_its_topics() -> None:
    flow = a_flow(topics_start={"orders": "earliest"}, auto_offset_reset="latest")
    state = a_state(a_source(), a_source("clicks"), starts=TopicStarts({PARTITION: 10}))
    assert intervals(planned(state, flow)) == [("clicks", 0, 50, 50), ("orders", 0, 10, 50)]


def test_a_partition_that_was_begun_goes_on_whatever_the_option_says() -> None:
    state = a_state(
        a_source(partitions=2),
        target=[a_remote(partitions=2)],
        positions={TopicPartition("primary.orders", 0): at(30)},
        starts=TopicStarts({ADDED: 40}, begun={REMOTE.topic_id: "-7d"}),
    )
    assert intervals(planned(state, AGO)) == [("orders", 0, 30, 50), ("orders", 1, 40, 50)]


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ("-7d", "-8d", "begun with -7d"),
        ("-7d", "earliest", "begun with -7d"),
        ("", "latest", "begun without that option"),
        ("-7d", "-7d", None),
        ("", "earliest", None),
        (None, "latest", None),
    ],
)
def test_a_begun_topic_is_refused_where_the_option_has_changed(
    before: str | None, now: str, told: str | None
) -> None:
    state = a_state(
        a_source(),
        target=[REMOTE],
        positions={TopicPartition("primary.orders", 0): at(30)},
        starts=TopicStarts(begun={} if before is None else {REMOTE.topic_id: before}),
    )
    plan = planned(state, a_flow(topics_start=now))
    assert [told in refusal.reason for refusal in plan.remarks.refused if told] == [True] * bool(
        told
    )
    assert bool(plan.remarks.refused) == bool(told)
    for refusal in plan.remarks.refused:
        assert f"Set it to {before or 'earliest'}" in refusal.advice
        assert "ferry repair --topic primary.orders" in refusal.advice


def test_a_topic_whose_start_nothing_says_is_refused_alone() -> None:
    state = a_state(
        a_source(),
        a_source("clicks"),
        starts=TopicStarts(refused={"orders": "The group x has no positions."}),
    )
    plan = planned(state, a_flow(topics_start={"orders": "group=x"}))
    assert [refusal.topic for refusal in plan.remarks.refused] == ["orders"]
    assert (
        plan.remarks.refused[0].reason == "topics.start is group=x. The group x has no positions."
    )
    assert [range_.topic for range_ in plan.ranges] == ["clicks"]
