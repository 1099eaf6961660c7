"""Which topics' offsets a plan preserves, and from where to where, on real clusters."""

from __future__ import annotations

import random
import time

import pytest

from kafka_ferry.model import OffsetsChoice, Plan, Refusal
from kafka_ferry.runs import Run
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import (
    Record,
    create_topic,
    delete_topic,
    produce,
    read_all,
)
from tests.support.records.histories import named
from tests.support.runs.flows import ledger_of, plan_now, remote
from tests.support.runs.pair import Pair, Unique
from tests.support.waiting import wait_until


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
