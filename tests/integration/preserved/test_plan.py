"""Which topics' offsets a plan preserves, and from where to where, on real clusters."""

from __future__ import annotations

import random
import time

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.copy import restore_positions
from kafka_ferry.ledger import append_entry
from kafka_ferry.model import OffsetsChoice, Plan, Position, ProducerState, Refusal, TopicPartition
from kafka_ferry.runs import Run
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import (
    Record,
    create_topic,
    delete_before,
    delete_topic,
    produce,
    read_all,
    recreate_topic,
)
from tests.support.records.histories import named
from tests.support.runs.flows import copy_now, failures, ledger_of, plan_now, remote
from tests.support.runs.pair import Pair, Unique
from tests.support.waiting import wait_until
from tests.unit.ledger.entries import a_copied_range, a_transaction


@pytest.fixture
def topic(primary: KafkaCluster, unique: Unique) -> str:
    """An empty topic of the source."""
    name = unique("kept")
    create_topic(primary.bootstrap, name)
    return name


def choice_of(plan: Plan) -> OffsetsChoice:
    (choice,) = plan.choices
    assert not plan.remarks.refused
    return choice


def refusal_of(plan: Plan) -> Refusal:
    (refusal,) = plan.remarks.refused
    assert (plan.choices, plan.ranges, plan.topics.creations) == ((), (), ())
    return refusal


def planned(plan: Plan) -> list[tuple[int, int, int]]:
    """Start, end and the log's start of each range, all of them preserved."""
    assert all(range_.preserved for range_ in plan.ranges)
    return [(range_.start, range_.end, range_.log_start) for range_ in plan.ranges]


def one_by_one(broker: KafkaCluster, topic: str, count: int) -> None:
    """Transactions of one record each: every other offset has none."""
    for number in range(count):
        produce(broker.bootstrap, topic, named(f"t{number}", 1), transactional_id=topic)


# Which topics


def test_a_topic_whose_offsets_are_to_be_preserved_is_created_and_marked_once(
    pair: Pair, topic: str
) -> None:
    pair.produce(topic, named("first", 10))
    flow = pair.flow([topic], offsets="preserved")
    run = Run(flow, "run-1")
    plan = run.plan()

    choice = choice_of(plan)
    assert (choice.preserved, choice.reason) == (True, "offsets: preserved.")
    assert (choice.gaps, choice.fill_ms) == (0, 0)
    assert planned(plan) == [(0, 10, 0)]
    assert plan.ranges[0].remote_topic_id == ""
    assert Plan.from_json(plan.to_json()) == plan
    advised = {str(acl) for acl in plan.access.advised_acls}
    assert f"ALLOW WRITE on {remote(flow, topic)} to the flow's principal" in advised
    assert f"ALLOW READ on {remote(flow, topic)} to User:*" in advised

    for _ in range(2):
        run.sync_topics()
    written = ledger_of(flow).read().to_pylist()
    rows = [row for row in written if row["type"] == "ownership"]
    (mark,) = ledger_of(flow).marks().values()
    assert len(rows) == 1
    assert (mark.topic, mark.remote_topic) == (topic, remote(flow, topic))
    assert (mark.preserved, mark.created) == (True, True)

    again = plan_now(flow, "run-2")
    assert choice_of(again).reason == f"{mark.remote_topic} is marked as preserved."
    assert [range_.remote_topic_id for range_ in again.ranges] == [mark.remote_topic_id]
    assert again.ranges[0].topic_id == mark.topic_id
    assert len(ledger_of(flow).read()) == len(written)


def test_by_itself_a_flow_preserves_what_is_not_mostly_gaps(pair: Pair) -> None:
    dense, sparse, empty, compacted = map(pair.unique, ("dense", "sparse", "empty", "compacted"))
    for name in (dense, sparse, empty):
        create_topic(pair.primary.bootstrap, name, partitions=2)
    create_topic(pair.primary.bootstrap, compacted, cleanup_policy="compact")
    plain = [Record(b"k", b"v", partition=number % 2) for number in range(200)]
    pair.produce(dense, plain)
    pair.produce(dense, named("one", 20), transactional_id=dense)
    one_by_one(pair.primary, sparse, 4)
    for number in range(3):
        aborted = named(f"a{number}", 10)
        pair.produce(sparse, aborted, transactional_id=sparse, abort=True)
    topics = [dense, sparse, empty, compacted]
    flow = pair.flow(topics, offsets="auto")

    plan = plan_now(flow)

    assert not plan.remarks.refused
    why = {choice.topic: (choice.preserved, choice.reason) for choice in plan.choices}
    assert why[dense] == (True, "auto: about 99% of the source's offsets have a record.")
    assert why[sparse][0] is False
    assert why[empty] == (True, "auto: there is nothing to copy yet.")
    assert why[compacted] == (False, "auto: the source's topic is compacted.")
    assert {range_.topic: range_.preserved for range_ in plan.ranges} == {
        topic: kept for topic, (kept, _) in why.items()
    }
    marks = ledger_of(flow).marks()
    assert {mark.topic: mark.preserved for mark in marks.values()} == {
        topic: kept for topic, (kept, _) in why.items()
    }


def test_a_topic_that_was_written_to_keeps_no_offsets(pair: Pair, topic: str) -> None:
    pair.produce(topic, named("first", 10))
    flow = pair.flow([topic], offsets="preserved")
    create_topic(pair.backup.bootstrap, remote(flow, topic))
    assert choice_of(Run(flow, "run-0").plan(save=False)).preserved

    produce(pair.backup.bootstrap, remote(flow, topic), named("theirs", 1))
    refusal = refusal_of(plan_now(flow))
    assert "was written to before, so that offsets cannot be preserved in it" in refusal.reason
    assert "docs/preserved-offsets.md" in refusal.advice
    assert ledger_of(flow).marks() == {}

    flow = pair.flow([topic], offsets="auto", on_foreign_records="adopt")
    choice = choice_of(plan_now(flow, "run-2"))
    assert choice.reason == f"auto: {remote(flow, topic)} was written to before."
    assert not choice.preserved


def test_what_was_chosen_never_changes_silently(pair: Pair, topic: str) -> None:
    pair.produce(topic, named("first", 10))

    def flow(**options: object) -> Flow:
        return pair.flow([topic], on_target_topic_lost="recopy", **options)

    assert choice_of(plan_now(flow(offsets="preserved"))).preserved
    refusal = refusal_of(plan_now(flow(offsets={topic: "translated"}), "run-2"))
    assert "is marked as preserved, and the flow says offsets: translated" in refusal.reason
    for options in ({}, {"offsets": "auto"}):
        assert choice_of(plan_now(flow(**options), "run-3")).preserved

    delete_topic(pair.backup, remote(flow(), topic))
    assert not choice_of(plan_now(flow(), "run-4")).preserved
    assert failures(copy_now(flow(), "run-5")) == []
    refusal = refusal_of(plan_now(flow(offsets="preserved"), "run-6"))
    assert "is marked as translated, and the flow says offsets: preserved" in refusal.reason
    assert not choice_of(plan_now(flow(offsets="auto"), "run-7")).preserved


def test_what_would_take_too_long_is_refused_or_translated(pair: Pair, topic: str) -> None:
    one_by_one(pair.primary, topic, 5)
    too_long = {"offsets": "preserved", "fill_max_ms": 29}
    refusal = refusal_of(plan_now(pair.flow([topic], **too_long)))
    assert "filling about 5 offsets without a record" in refusal.reason
    assert "on.fill.limit: translate" in refusal.advice

    options = too_long | {"fill": "markers"}
    choice = choice_of(plan_now(pair.flow([topic], **options), "run-2"))
    assert (choice.preserved, choice.gaps, choice.fill_ms) == (True, 5, 0)

    # Marked by now: neither refused silently nor translated.
    options = too_long | {"on_fill_limit": "translate"}
    refusal = refusal_of(plan_now(pair.flow([topic], **options), "run-3"))
    assert "on.fill.limit" not in refusal.advice

    delete_topic(pair.backup, remote(pair.flow([topic]), topic))
    choice = choice_of(plan_now(pair.flow([topic], **options), "run-4"))
    assert not choice.preserved
    assert "more than fill.max.ms allows" in choice.reason


def test_batches_that_fit_into_no_sample_are_asked_for_one_by_one(pair: Pair) -> None:
    large, alone = pair.unique("large"), pair.unique("alone")
    value = random.Random(1).randbytes(200_000)
    create_topic(pair.primary.bootstrap, large, partitions=3)
    for partition in (0, 1, 2) * 4:
        pair.produce(large, [Record(b"k", value, partition=partition)])
    create_topic(pair.primary.bootstrap, alone, partitions=2)
    for _ in range(4):
        records = [Record(b"k", value, partition=0), Record(b"k", value, partition=1)]
        pair.produce(alone, records, transactional_id=alone)
    flow = pair.flow([large, alone], offsets="auto")

    plan = plan_now(flow)

    shares = {choice.topic: choice.reason.split()[2] for choice in plan.choices}
    assert shares == {large: "100%", alone: "50%"}


def test_a_compacted_log_of_which_little_is_left_is_translated(pair: Pair) -> None:
    topic = pair.unique("customers")
    settings = {"segment_ms": "100", "min_cleanable_dirty_ratio": "0.01"}
    create_topic(pair.primary.bootstrap, topic, cleanup_policy="compact", **settings)
    for _ in range(4):
        records = [Record(key=b"%d" % (i % 7), value=b"v") for i in range(50)]
        pair.produce(topic, records)
        time.sleep(0.2)
    wait_until(lambda: len(read_all(pair.primary.bootstrap, topic)[0]) < 80)
    flow = pair.flow([topic], offsets="auto")

    choice = choice_of(plan_now(flow))

    assert not choice.preserved
    assert "of the source's offsets have a record" in choice.reason


# From where to where


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("log-start", [(20, 30, 20)]),
        (0, [(20, 30, 0)]),
        (15, [(20, 30, 15)]),
        (25, [(25, 30, 25)]),
        (30, [(30, 30, 30)]),
    ],
)
def test_a_mirror_begins_where_the_flow_says(
    pair: Pair, topic: str, start: object, expected: list[tuple[int, int, int]]
) -> None:
    pair.produce(topic, named("first", 30))
    delete_before(pair.primary, topic, 20)
    flow = pair.flow([topic], offsets="preserved", offsets_start={"x": 1, topic: start})
    assert planned(plan_now(flow)) == expected


def test_a_mirror_cannot_begin_after_the_end(pair: Pair, topic: str) -> None:
    pair.produce(topic, named("first", 30))
    flow = pair.flow([topic], offsets="preserved", offsets_start=31)
    (refusal,) = plan_now(flow).remarks.refused
    assert (refusal.partition, refusal.reason) == (
        *(0, "its mirror is to begin at 31, but its log ends at 30."),
    )


def test_an_emptied_log_is_planned_for_the_sake_of_its_offsets(pair: Pair, topic: str) -> None:
    pair.produce(topic, named("first", 30))
    delete_before(pair.primary, topic, 30)
    flow = pair.flow([topic], offsets="preserved")
    assert planned(plan_now(flow)) == [(30, 30, 30)]


# Where it goes on


def copied_to(flow: Flow, topic: str, offset: int, written: int) -> None:
    """Leaves the target as a run does that preserved the topic's offsets up to ``offset``."""
    plan = plan_now(flow)
    ids = plan_now(flow, "run-2").ranges[0]
    name = remote(flow, topic)
    produce(flow.target.properties["bootstrap.servers"], name, named("copied", written))
    producer = ProducerState(1000, 0, offset)
    position = Position(offset, ids.topic_id, ids.remote_topic_id, producer=producer)
    restore_positions(flow, plan.run, {TopicPartition(name, 0): position})
    copied = a_copied_range(
        0,
        offset,
        topic=topic,
        topic_id=ids.topic_id,
        remote_topic=name,
        remote_topic_id=ids.remote_topic_id,
        preserved=True,
        producer=producer,
    )
    append_entry(flow, a_transaction(copied, flow=flow.name))  # type: ignore[arg-type]


def test_the_targets_log_start_is_to_follow_the_sources(pair: Pair, topic: str) -> None:
    pair.produce(topic, named("first", 30))
    flow = pair.flow([topic], offsets="preserved")
    copied_to(flow, topic, 30, 30)
    assert planned(plan_now(flow, "run-3")) == []

    delete_before(pair.primary, topic, 20)
    assert planned(plan_now(flow, "run-4")) == [(30, 30, 20)]
    kept = pair.flow([topic], on_source_start_moved="keep")
    assert planned(plan_now(kept, "run-5")) == []

    pair.produce(topic, named("second", 10))
    assert planned(plan_now(flow, "run-6")) == [(30, 40, 20)]
    delete_before(pair.backup, remote(flow, topic), 20)
    assert planned(plan_now(flow, "run-7")) == [(30, 40, -1)]


def test_a_target_that_has_lost_records_is_named(pair: Pair, topic: str) -> None:
    pair.produce(topic, named("first", 40))
    flow = pair.flow([topic], offsets="preserved")
    copied_to(flow, topic, 35, 30)
    (refusal,) = plan_now(flow, "run-3").remarks.refused
    assert (refusal.topic, refusal.partition) == (topic, 0)
    assert f"{remote(flow, topic)} ends at 30, before the position 35" in refusal.reason
    assert "ferry repair" in refusal.advice


def test_a_topic_that_was_recreated_is_not_appended_to(pair: Pair, topic: str) -> None:
    pair.produce(topic, named("first", 30))
    options = {"offsets": "preserved", "on_source_topic_recreated": "append"}
    flow = pair.flow([topic], **options)
    copied_to(flow, topic, 30, 30)
    recreate_topic(pair.primary, topic)
    pair.produce(topic, named("recreated", 5))

    refusal = refusal_of(plan_now(flow, "run-3"))
    assert "deleted and recreated" in refusal.reason
    assert f"`ferry repair --topic {remote(flow, topic)}` shows what is lost" in refusal.advice

    delete_topic(pair.backup, remote(flow, topic))
    plan = plan_now(flow, "run-4")
    assert choice_of(plan).reason == "offsets: preserved."
    assert planned(plan) == [(0, 5, 0)]
