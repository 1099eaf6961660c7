"""One of the target's brokers has a full disk, or is lost with all that lives on it alone.

A topic with replicas elsewhere goes on there; a partition that lives on that broker alone fails by
name, and costs the others nothing: not even those of the same writer, with which it shares transactions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.copy import Outcome
from kafka_ferry.wire.transactions.producer import TransactionalProducer
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import KafkaCluster, start_all
from kafka_sandbox.java.jars import KAFKA
from kafka_sandbox.storage import format_storage
from tests.support.brokers.everywhere import wait_for_topic
from tests.support.brokers.leaders import leaders
from tests.support.brokers.small_disk import SmallDisk, needs_mount
from tests.support.records.builders import Record, create_topic, produce
from tests.support.runs.flows import (
    assert_same,
    copy_now,
    copy_planned,
    failures,
    make_flow,
    plan_now,
    remote,
    write_flow,
)
from tests.support.runs.proof import verified
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("without_spark")]

MIB = 1024 * 1024
LOST = 2
"""The broker that is hit."""
NOISE = bytes(range(256)) * 200
WAIT_MS = 14_000
"""Longer than it takes the cluster to give up a broker."""


@pytest.fixture
def target(folder: Path) -> Iterator[Brokers]:
    """Three brokers, not started, since they are to end in many ways."""
    cluster = Brokers(folder / "target")
    try:
        yield cluster
    finally:
        cluster.wipe()


@pytest.fixture
def disk(folder: Path, target: Brokers) -> Iterator[SmallDisk]:
    """The only disk of the broker that is hit; unmounted when the broker has ended."""
    with SmallDisk(target.brokers[LOST].directory / "data", 64 * MIB) as disk:
        yield disk
        target.wipe()


def create_on(
    target: Brokers, topic: str, assignment: list[list[int]], config: dict[str, str] | None = None
) -> None:
    """A topic with the replicas of each partition on these brokers."""
    client = AdminClient({"bootstrap.servers": target.bootstrap})
    new = NewTopic(topic, len(assignment), replica_assignment=assignment, config=config or {})
    client.create_topics([new])[topic].result()
    wait_for_topic(target.bootstrap, topic, len(assignment))


def create_alone(target: Brokers, topic: str, *brokers: int) -> None:
    """A topic whose partitions have one replica each, on these brokers."""
    create_on(target, topic, [[broker] for broker in brokers])


def create_coordinators_topics(target: Brokers, *brokers: int) -> None:
    """Kafka's own topics with all replicas on these brokers.

    A coordinator with a replica on a lost disk holds each of its answers back for up to half a minute, and a writer
    needs four of them in a row to start over: that says how slow Kafka is, and not what the writer does.
    """
    config = {"cleanup.policy": "compact", "min.insync.replicas": "1"}
    for topic in ("__transaction_state", "__consumer_offsets"):
        create_on(target, topic, [[*brokers]] * 4, config)


def write(
    source: KafkaCluster, topic: str, partitions: int, count: int, value: bytes = b""
) -> None:
    records = [
        Record(key=b"%d" % i, value=b"%d " % i + value, partition=i % partitions)
        for i in range(count * partitions)
    ]
    produce(source.bootstrap, topic, records)


def flow_of_two_topics(folder: Path, source: KafkaCluster, target: Brokers) -> Flow:
    """A flow of one writer, whose topics ``spread`` and ``alone`` were copied once.

    On the target ``spread`` has three replicas, and partition 1 of ``alone`` lives on the broker
    that is hit.
    """
    name = folder.name
    flow = make_flow(
        folder,
        source,
        target,
        [f"{name}-spread", f"{name}-alone"],
        writers=1,
        transaction_max_bytes=400_000,
        fetch_max_bytes=400_000,
        partition_wait_ms=WAIT_MS,
    )
    for topic in (f"{name}-spread", f"{name}-alone"):
        create_topic(source.bootstrap, topic, 3)
        write(source, topic, 3, 5)
    create_alone(target, remote(flow, f"{name}-alone"), 1, LOST, 3)
    assert failures(copy_now(flow)) == []
    return flow


def assert_only_lost_failed(outcomes: list[Outcome], alone: str) -> None:
    """All but partition 1 of a topic have reached their ends; that one says what is wrong."""
    (problem,) = failures(outcomes)
    assert problem.startswith(f"{alone}-1 ")
    assert f"broker {LOST}" in problem
    (failed,) = (outcome for outcome in outcomes if outcome.failure)
    assert failed.failure is not None and failed.failure.transient
    others = [outcome for outcome in outcomes if outcome is not failed]
    assert len(others) == 5
    assert all(outcome.position == outcome.range.end for outcome in others)


def assert_complete(flow: Flow, source: KafkaCluster, target: Brokers, run: str) -> None:
    """Nothing is missing, nothing is there twice, and the run is proved."""
    for suffix in ("spread", "alone"):
        topic = f"{flow.source.alias}-{suffix}"
        assert_same(source, topic, target, remote(flow, topic))
    verified(flow, run)


@needs_mount
def test_a_broker_whose_disk_is_full_costs_only_what_lives_there_alone(
    folder: Path, primary: KafkaCluster, target: Brokers, disk: SmallDisk
) -> None:
    start_all([target])
    flow = flow_of_two_topics(folder, primary, target)
    alone, spread = f"{folder.name}-alone", f"{folder.name}-spread"
    for topic in (spread, alone):
        write(primary, topic, 3, 30, NOISE)
    plan = plan_now(flow, "run-2")
    disk.fill(left=MIB)

    outcomes = copy_planned(flow, plan)

    # Kafka has halted it: it has no other disk.
    wait_until(lambda: target.brokers[LOST].pid is None)
    assert_only_lost_failed(outcomes, alone)
    assert_same(primary, spread, target, remote(flow, spread))
    disk.make_room()
    target.brokers[LOST].restart()
    target.wait_ready()
    assert failures(copy_now(flow, "run-3")) == []
    assert_complete(flow, primary, target, "run-3")


@needs_mount
def test_one_of_two_disks_of_a_broker_is_full(
    folder: Path, primary: KafkaCluster, target: Brokers
) -> None:
    """The broker lives on, and leads what is on its other disk."""
    for each in target.brokers.values():
        # The flow's own topics may have a replica on the lost disk: for so long their leaders wait for it.
        each.config["replica.lag.time.max.ms"] = "4000"
    broker = target.brokers[LOST]
    with SmallDisk(broker.directory / "small", 64 * MIB) as disk:
        broker.config["log.dirs"] = f"{broker.directory / 'data'},{disk.folder}"
        format_storage(disk.folder, KAFKA, str(LOST), broker.cluster_id)
        start_all([target])
        create_coordinators_topics(target, 1, 3)
        topic = folder.name
        file = write_flow(
            folder,
            primary,
            target,
            [topic],
            writers=1,
            transaction_max_bytes=400_000,
            fetch_max_bytes=400_000,
            partition_wait_ms=60_000,
        )
        options = json.loads(file.read_text())
        options["target"]["producer.request.timeout.ms"] = 6_000
        file.write_text(json.dumps(options))
        flow = load_flow(file)
        create_topic(primary.bootstrap, topic, 6)
        write(primary, topic, 6, 5)
        create_alone(target, remote(flow, topic), *[LOST] * 6)
        assert failures(copy_now(flow)) == []
        hit = {
            f"{topic}-{found.name.rpartition('-')[2]}"
            for found in disk.folder.glob(f"{remote(flow, topic)}-*")
        }
        assert 0 < len(hit) < 6
        write(primary, topic, 6, 30, NOISE)
        plan = plan_now(flow, "run-2")
        disk.fill(left=MIB)

        outcomes = copy_planned(flow, plan)

        failed = {str(it.range.source) for it in outcomes if it.failure}
        assert failed == hit, failures(outcomes)
        assert all(f"broker {LOST}" in problem for problem in failures(outcomes))
        others = [outcome for outcome in outcomes if not outcome.failure]
        assert all(outcome.position == outcome.range.end for outcome in others)
        assert broker.pid is not None
        disk.make_room()
        broker.restart()
        target.wait_ready()
        assert failures(copy_now(flow, "run-3")) == []
        assert_same(primary, topic, target, remote(flow, topic))
        verified(flow, "run-3")
        target.wipe()


def test_a_broker_lost_before_the_end_of_a_transaction_costs_only_what_lives_there_alone(
    folder: Path, primary: KafkaCluster, target: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka leaves out the markers of partitions without a leader: how it was to end, the ledger says."""
    start_all([target])
    flow = flow_of_two_topics(folder, primary, target)
    alone, spread = f"{folder.name}-alone", f"{folder.name}-spread"
    for topic in (spread, alone):
        write(primary, topic, 3, 20, NOISE)
    plan = plan_now(flow, "run-2")
    lose_broker_at_end(monkeypatch, target, remote(flow, alone))

    outcomes = copy_planned(flow, plan)

    assert target.brokers[LOST].pid is None
    assert_only_lost_failed(outcomes, alone)
    assert_same(primary, spread, target, remote(flow, spread))
    target.brokers[LOST].start()
    target.wait_ready()
    for topic in (spread, alone):
        write(primary, topic, 3, 5)
    assert failures(copy_now(flow, "run-3")) == []
    assert_complete(flow, primary, target, "run-3")


def lose_broker_at_end(monkeypatch: pytest.MonkeyPatch, target: Brokers, topic: str) -> None:
    """Kill the broker when the writer's next transaction is to be committed, before that."""
    end = TransactionalProducer.end
    still_there = [target.brokers[LOST]]

    def lose_and_end(producer: TransactionalProducer, *, commit: bool) -> None:
        if commit and still_there and producer.transactional_id.endswith(".0"):
            still_there.pop().kill()
            wait_until(lambda: leaders(target, topic).get(1, (LOST, []))[0] == -1, 60)
        end(producer, commit=commit)

    monkeypatch.setattr(TransactionalProducer, "end", lose_and_end)
