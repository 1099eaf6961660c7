"""Replicas of remote topics: as many, and on the racks, as the flow says (``topics.replica.placement``)."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kafka.structs import TopicPartition

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.model import Growth, Plan
from kafka_ferry.report.plan_text import plan_text
from kafka_ferry.runs import Run
from kafka_sandbox.broker import Broker
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.everywhere import wait_for_config
from tests.support.brokers.leaders import reassign
from tests.support.records.builders import add_partitions, create_topic, overrides
from tests.support.records.histories import named
from tests.support.runs.flows import (
    assert_same,
    copy_now,
    copy_planned,
    make_flow,
    plan_now,
    remote,
)
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.proof import recount_here, verified
from tests.support.waiting import wait_until

PLACED = {"r1": 1, "r3": 1}


@pytest.fixture
def backup(three_brokers: Brokers) -> Brokers:
    """Racks need a broker each."""
    return three_brokers


def replicas(cluster: KafkaCluster, topic: str) -> list[list[int]]:
    """By partition, the brokers of its replicas, the preferred leader first."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    found = client.list_topics(topic, timeout=10).topics[topic].partitions
    return [found[number].replicas for number in sorted(found)]


def lines(plan: Plan, word: str) -> list[str]:
    return [line.text for line in plan_text(plan) if line.text.startswith(word)]


def planned_only(flow: Flow, run: str) -> Plan:
    this = Run(flow, run)
    this.plan()
    return this.stored_plan()


def test_partitions_are_created_and_added_on_the_racks_that_the_flow_says(pair: Pair) -> None:
    topic, other = (pair.topic(it, named("first", 20), partitions=4) for it in ("placed", "other"))
    flow = pair.flow([topic, other], topics_replica_placement={topic: PLACED})
    copy = remote(flow, topic)

    said = lines(planned_only(flow, "run-0"), f"create {copy}")
    assert said == [f"create {copy}: 4 partitions x 2 replicas on racks (r1: 1, r3: 1)"]
    copy_now(flow)
    assert sorted(replicas(pair.backup, copy)) == [[1, 3], [1, 3], [3, 1], [3, 1]]
    assert {len(of) for of in replicas(pair.backup, remote(flow, other))} == {3}

    add_partitions(pair.primary, topic, 7)
    pair.produce(topic, named("second", 20))
    plan_now(flow, "run-2")
    # A task that is repeated finds that it is done.
    plan = Run(flow, "run-2").sync_topics()
    assert plan.remarks.refused == ()
    assert lines(plan, "grow") == [f"grow {copy} to 7 partitions on racks (r1: 1, r3: 1)"]
    copy_planned(flow, plan)
    assert [{*of} for of in replicas(pair.backup, copy)] == [{1, 3}] * 7
    leaders = [leader for leader, _ in replicas(pair.backup, copy)]
    assert sorted(map(leaders.count, (1, 3))) == [3, 4]
    assert_same(pair.primary, topic, pair.backup, copy)
    assert plan_now(flow, "run-3").topics.misplacements == ()


def test_a_remote_topic_has_what_the_flow_says_instead(pair: Pair) -> None:
    topic = pair.topic("longer", retention_ms="3600000", min_insync_replicas="1")
    options = {"topics_replication_factor": {topic: 3}, "replication_factor": 1}
    said = {"retention.ms": "30d", "min.insync.replicas": 2}
    flow = pair.flow([topic], topics_configs={topic: said}, topics_partitions={topic: 4}, **options)
    copy_now(flow)
    copy = remote(flow, topic)
    assert overrides(pair.backup, copy) == {
        "retention.ms": "2592000000",
        "min.insync.replicas": "2",
    }
    assert [len(of) for of in replicas(pair.backup, copy)] == [3] * 4
    plan = plan_now(flow, "run-2")
    assert (plan.topics.config_changes, plan.topics.drifts, plan.topics.set_configs) == ((), (), ())
    assert plan.remarks.unapplied == ()

    # Without the option, the source's own value is set again; what is excluded is left alone.
    flow = pair.flow([topic], topics_partitions={topic: 5}, **options)
    assert plan_now(flow, "run-3").topics.growths == (Growth(copy, 5),)
    wait_for_config(pair.backup.bootstrap, copy, "retention.ms", "3600000")
    assert overrides(pair.backup, copy)["min.insync.replicas"] == "2"


@pytest.mark.long
def test_replicas_that_were_moved_are_drift_until_they_are_back(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    recount_here(monkeypatch)
    topic = pair.topic("moved", named("first", 10), partitions=3)
    flow = pair.flow([topic], topics_replica_placement=["r1", "r3"])
    copy = remote(flow, topic)
    copy_now(flow)
    assert verified(flow, "run-1").topics.drifts == ()
    before = replicas(pair.backup, copy)

    moved = TopicPartition(copy, 1)
    assert reassign(pair.backup, {moved: [2, 3]})
    wait_until(lambda: replicas(pair.backup, copy)[1] == [2, 3])
    pair.produce(topic, named("second", 10))
    copy_now(flow, "run-2")
    report = verified(flow, "run-2")
    (drift,) = report.topics.drifts
    assert drift.startswith(f"{copy} has replicas on other racks")
    assert "(r1: 1, r3: 1): partition 1 is on r2, r3. " in drift
    assert lines(planned_only(flow, "run-3"), "DRIFT") == [f"DRIFT {drift}"]
    found = Run(flow, "run-2").reconciliation()
    assert found is not None and found.verdict is not None
    assert [row.misplaced for row in found.topics] == [("partition 1 is on r2, r3",)]
    told = {check.key for check in found.verdict.expectations if not check.success}
    assert told == {"placement"}
    # The run has moved nothing, and copies as ever.
    assert replicas(pair.backup, copy)[1] == [2, 3]
    assert_same(pair.primary, topic, pair.backup, copy)

    assert reassign(pair.backup, {moved: before[1]})
    wait_until(lambda: replicas(pair.backup, copy) == before)
    assert plan_now(flow, "run-4").topics.misplacements == ()


def test_a_rack_without_a_broker_refuses_what_would_be_new_and_nothing_else(pair: Pair) -> None:
    topic, other = (pair.topic(it, named("first", 5)) for it in ("nowhere", "other"))

    def flow_with(placement: object) -> Flow:
        said = {topic: placement}
        return pair.flow([topic, other], topics_replica_placement=said)

    flow = flow_with({"r9": 1, "r1": 1})
    plan = plan_now(flow)
    (refusal,) = plan.remarks.refused
    assert str(refusal) == (
        f"{topic}: topics.replica.placement places 1 replica of each partition on the rack r9 of backup, "
        "which has no live broker. Start brokers there, or change topics.replica.placement: live brokers "
        "are on the racks r1, r2, r3."
    )
    copy_planned(flow, plan)
    pair.assert_same(flow, other)
    assert ClusterControl(flow.target).topics([remote(flow, topic)]) == {}

    copy_now(flow_with({"r1": 1}), "run-2")
    add_partitions(pair.primary, topic, 2)
    pair.produce(topic, named("second", 20))
    plan = plan_now(flow, "run-3")
    assert [(it.topic, it.partition) for it in plan.remarks.refused] == [(topic, 1)]
    copied = {(it.topic, it.partition) for it in plan.ranges if it.topic == topic}
    assert copied == {(topic, 0)}
    plan = plan_now(flow_with(["r1", "r2"]), "run-4")
    assert [(it.topic, it.partition) for it in plan.remarks.refused] == [(topic, 1)]
    assert f"those of {remote(flow, topic)} have 1" in plan.remarks.refused[0].reason
    copy_planned(flow, plan)
    copy_now(flow_with(["r2"]), "run-5")
    assert replicas(pair.backup, remote(flow, topic)) == [[1], [2]]
    pair.assert_same(flow, topic)


@pytest.mark.long
def test_brokers_without_racks_are_named(
    folder: Path, primary: KafkaCluster, unique: Unique
) -> None:
    topic = unique("bare")
    create_topic(primary.bootstrap, topic)
    bare = Broker(folder / "bare")
    with bare:
        flow = make_flow(folder, primary, bare, [topic], topics_replica_placement=["r1"])
        (refusal,) = plan_now(flow).remarks.refused
        assert refusal.advice.startswith("Set broker.rack on the brokers without one (1), ")
    bare.wipe()
