"""What can happen to the target: topics lost, foreign or refused, writes refused, a full disk."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_ferry.errors import FerryError
from kafka_ferry.model import Plan
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.builders import (
    Record,
    create_topic,
    delete_topic,
    produce,
    read_all,
    recreate_topic,
    set_config,
)
from tests.support.flows import (
    assert_same,
    content,
    copy_now,
    copy_planned,
    failures,
    ledger_rows,
    make_flow,
    plan_now,
    remote,
)
from tests.support.histories import named, told, values
from tests.support.waiting import wait_until

Unique = Callable[[str], str]
NOISE = bytes(range(256)) * 200


# Remote topics that are lost


@pytest.mark.parametrize("fate", ["deleted", "recreated"])
@pytest.mark.parametrize("policy", ["fail", "recopy"])
@pytest.mark.short("fail-recreated", "recopy-deleted")
def test_a_remote_topic_that_was_lost_is_named_or_filled_again(
    policy: str,
    fate: str,
    folder: Path,
    primary: KafkaCluster,
    backup: KafkaCluster,
    unique: Unique,
) -> None:
    """MirrorMaker 2 situation 9: it is created again, and its history never sent again."""
    topic, other = unique("lost"), unique("other")
    for name in (topic, other):
        create_topic(primary.bootstrap, name)
        produce(primary.bootstrap, name, named("first", 30))
    flow = make_flow(
        folder, primary, backup, [topic, other], on_target_topic_lost=policy, writers=1
    )
    copy_now(flow)
    for name in (topic, other):
        produce(primary.bootstrap, name, named("second", 10))
    (delete_topic if fate == "deleted" else recreate_topic)(backup, remote(flow, topic))

    plan = plan_now(flow, "run-2")
    assert failures(copy_planned(flow, plan)) == []

    assert_same(primary, other, backup, remote(flow, other))
    if policy == "fail":
        (refusal,) = plan.refused
        assert (refusal.topic, refusal.partition) == (topic, None)
        assert "its history there is gone" in refusal.reason
        if fate == "recreated":
            assert values(backup, remote(flow, topic)) == []
    else:
        assert plan.refused == ()
        assert [note.topic for note in plan.notes] == [topic]
        assert_same(primary, topic, backup, remote(flow, topic))
        assert copy_now(flow, "run-3") == []


@pytest.mark.short("True-recopy-recreated")
@pytest.mark.parametrize(
    ("copied", "policy", "fate"),
    [
        (False, "fail", "deleted"),
        (False, "fail", "recreated"),
        (True, "fail", "deleted"),
        (True, "recopy", "recreated"),
    ],
)
def test_a_remote_topic_lost_between_plan_and_copy_is_named_and_left_to_the_next_run(
    copied: bool,
    policy: str,
    fate: str,
    folder: Path,
    primary: KafkaCluster,
    backup: KafkaCluster,
    unique: Unique,
) -> None:
    """MirrorMaker 2 situation 9, in the worst moment."""
    topic, other = unique("lost"), unique("other")
    for name in (topic, other):
        create_topic(primary.bootstrap, name)
        produce(primary.bootstrap, name, named("first", 30))
    flow = make_flow(
        folder, primary, backup, [topic, other], on_target_topic_lost=policy, writers=1
    )
    if copied:
        copy_now(flow)
        for name in (topic, other):
            produce(primary.bootstrap, name, named("second", 10))
    plan = plan_now(flow, "run-2")
    (delete_topic if fate == "deleted" else recreate_topic)(backup, remote(flow, topic))

    said = failures(copy_planned(flow, plan))

    assert_same(primary, other, backup, remote(flow, other))
    if fate == "deleted" or copied:
        (problem,) = said
        assert problem.startswith(f"{topic}-0 ")
    if policy == "recopy" or not copied:
        assert failures(copy_now(flow, "run-3")) == []
        assert_same(primary, topic, backup, remote(flow, topic))
        assert copy_now(flow, "run-4") == []
    else:
        (refusal,) = plan_now(flow, "run-3").refused
        assert "its history there is gone" in refusal.reason


# Partitions


def test_a_remote_topic_with_too_few_partitions_is_grown(
    folder: Path, primary: KafkaCluster, backup: KafkaCluster, unique: Unique
) -> None:
    """MirrorMaker 2 situation 7: the producer waits for the missing partitions for ever."""
    topic = unique("few")
    create_topic(primary.bootstrap, topic, partitions=4)
    produce(primary.bootstrap, topic, named("first", 40))
    flow = make_flow(folder, primary, backup, [topic])
    create_topic(backup.bootstrap, remote(flow, topic), partitions=1)

    assert failures(copy_now(flow)) == []

    assert_same(primary, topic, backup, remote(flow, topic))


def test_a_remote_topic_with_more_partitions_is_noted_and_filled_as_the_source(
    folder: Path, primary: KafkaCluster, backup: KafkaCluster, unique: Unique
) -> None:
    """MirrorMaker 2 situation 8: nobody hears that keys go elsewhere on the target."""
    topic = unique("more")
    create_topic(primary.bootstrap, topic, partitions=2)
    produce(primary.bootstrap, topic, named("first", 20))
    flow = make_flow(folder, primary, backup, [topic])
    create_topic(backup.bootstrap, remote(flow, topic), partitions=3)

    plan = plan_now(flow)

    assert failures(copy_planned(flow, plan)) == []
    (note,) = plan.notes
    assert "has 3 partitions, the source's topic has 2" in note.message
    have = content(read_all(backup.bootstrap, remote(flow, topic)))
    assert have == content(read_all(primary.bootstrap, topic)) | {2: []}


# Foreign records


@pytest.mark.parametrize("policy", ["fail", "adopt"])
def test_a_remote_topic_with_foreign_records_is_left_alone_or_gone_on_with(
    policy: str, folder: Path, primary: KafkaCluster, backup: KafkaCluster, unique: Unique
) -> None:
    """MirrorMaker 2 situation 10: under identity naming records of others interleave with the copy."""
    topic, other = unique("foreign"), unique("other")
    for name in (topic, other):
        create_topic(primary.bootstrap, name)
        produce(primary.bootstrap, name, named("first", 10))
    create_topic(backup.bootstrap, topic)
    produce(backup.bootstrap, topic, named("foreign", 5))
    flow = make_flow(
        folder,
        primary,
        backup,
        [topic, other],
        on_foreign_records=policy,
        replication_policy_class="IdentityReplicationPolicy",
    )

    plan = plan_now(flow)
    assert failures(copy_planned(flow, plan)) == []

    assert_same(primary, other, backup, other)
    if policy == "fail":
        (refusal,) = plan.refused
        assert refusal.topic == topic
        assert values(backup, topic) == told("foreign", 5)
    else:
        assert plan.refused == ()
        produce(primary.bootstrap, topic, named("second", 10))
        assert failures(copy_now(flow, "run-2")) == []
        have = told("foreign", 5) + told("first", 10) + told("second", 10)
        assert values(backup, topic) == have


# Topics that cannot be created


def test_a_remote_topic_that_cannot_be_created_is_named_and_the_others_are_copied(
    folder: Path, primary: KafkaCluster, backup: KafkaCluster, unique: Unique
) -> None:
    """MirrorMaker 2 situation 15: a warning at each refresh, while the task waits for the topic."""
    topic, other = unique("impossible"), unique("other")
    for name in (topic, other):
        create_topic(primary.bootstrap, name)
        produce(primary.bootstrap, name, named("first", 10))
    flow = make_flow(folder, primary, backup, [topic, other])
    # In the names of metrics a dot and an underscore are the same: brokers refuse the second one.
    create_topic(backup.bootstrap, f"{flow.source.alias}_{topic}")

    plan = plan_now(flow)

    (refusal,) = plan.refused
    assert refusal.topic == topic
    assert remote(flow, topic) in refusal.reason
    assert failures(copy_planned(flow, plan)) == []
    assert_same(primary, other, backup, remote(flow, other))


def test_with_more_replicas_than_brokers_the_plan_step_says_so(
    folder: Path, primary: KafkaCluster, backup: KafkaCluster, unique: Unique
) -> None:
    """MirrorMaker 2 situation 15: the replication factor that no cluster of this size can give."""
    topic = unique("replicas")
    create_topic(primary.bootstrap, topic)
    flow = make_flow(folder, primary, backup, [topic], replication_factor=4)

    with pytest.raises(FerryError, match=r"INVALID_REPLICATION_FACTOR|replication factor"):
        plan_now(flow)


# Names


def test_every_topic_that_is_not_mirrored_is_listed_with_the_reason(
    folder: Path, primary: KafkaCluster, backup: KafkaCluster, unique: Unique
) -> None:
    """MirrorMaker 2 situation 12: some names are never mirrored, even if the flow names them."""
    plain = unique("named")
    names = [f"__{plain}", f".{plain}", f"mm2-{plain}.internal", f"{plain}.checkpoints.internal"]
    for name in [plain, *names]:
        create_topic(primary.bootstrap, name)
        produce(primary.bootstrap, name, named("first", 3))
    flow = make_flow(folder, primary, backup, [f".*{plain}.*"])

    plan: Plan = plan_now(flow)
    assert failures(copy_planned(flow, plan)) == []

    skipped = {skipped.topic: skipped.reason for skipped in plan.skipped}
    copied = {range_.topic for range_ in plan.ranges}
    assert skipped.keys() | copied >= {plain, *names}
    assert skipped.keys() & copied == set()
    assert all(skipped.values())
    assert plain in copied
    for name in copied:
        assert_same(primary, name, backup, remote(flow, name))


# Writes that are refused


@pytest.fixture
def two_brokers(folder: Path) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """A target of two brokers: the first is the controller and holds all internal topics."""
    first = Broker(folder / "first")
    with first:
        create_topic(first.bootstrap, "any")
        yield first, follower_of(first, folder / "second")
    first.wipe()


def follower_of(first: KafkaCluster, directory: Path) -> KafkaCluster:
    """A second broker of the same cluster, not started."""
    host, *_ = first.bootstrap.split(":")
    broker = Broker(
        directory,
        config={
            "process.roles": "broker",
            "node.id": "2",
            "controller.quorum.voters": f"1@{host}:{first.controller_port}",
        },
    )
    broker.config["listeners"] = f"PLAINTEXT://{broker.bootstrap}"
    client = AdminClient({"bootstrap.servers": first.bootstrap})
    cluster_id = client.list_topics(timeout=10).cluster_id
    data = broker.directory / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text(f"version=1\ncluster.id={cluster_id}\nnode.id=2\n")
    return broker


@pytest.mark.long
def test_a_topic_without_enough_replicas_is_named_and_the_others_are_copied(
    folder: Path,
    primary: KafkaCluster,
    two_brokers: tuple[KafkaCluster, KafkaCluster],
    unique: Unique,
) -> None:
    first, second = two_brokers
    topic, other = unique("unsafe"), unique("other")
    for name in (topic, other):
        create_topic(primary.bootstrap, name)
        produce(primary.bootstrap, name, named("first", 10))
    flow = make_flow(folder, primary, first, [topic, other], writers=1)
    # While there is only the first broker, it gets the topics of positions and transactions.
    others = make_flow(folder, primary, first, [other], writers=1)
    assert failures(copy_now(others)) == []
    produce(primary.bootstrap, other, named("second", 10))
    with second:
        create_replicated(first, remote(flow, topic))
    wait_until(lambda: in_sync(first, remote(flow, topic)) == [1])

    flow = make_flow(folder, primary, first, [topic, other], writers=1, partition_wait_ms=2_000)
    outcomes = copy_now(flow, "run-2")

    (problem,) = failures(outcomes)
    assert problem.startswith(f"{topic}-0 ")
    assert "NOT_ENOUGH_REPLICAS" in problem
    assert [outcome.failure.transient for outcome in outcomes if outcome.failure] == [True]
    assert_same(primary, other, first, remote(flow, other))
    set_config(first, remote(flow, topic), "min.insync.replicas", "1")
    assert failures(copy_now(flow, "run-3")) == []
    assert_same(primary, topic, first, remote(flow, topic))


def create_replicated(broker: KafkaCluster, topic: str) -> None:
    """A topic that the first broker leads, and writes to only while the second one follows."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    new = NewTopic(topic, 1, replica_assignment=[[1, 2]], config={"min.insync.replicas": "2"})
    wait_until(lambda: len(client.list_topics(timeout=10).brokers) == 2)
    client.create_topics([new])[topic].result()
    wait_until(lambda: in_sync(broker, topic) == [1, 2])


def in_sync(broker: KafkaCluster, topic: str) -> list[int]:
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    found = client.list_topics(topic, timeout=10).topics[topic].partitions
    return sorted(found[0].isrs) if found else []


def test_a_target_whose_disk_is_full_fails_the_run_and_costs_no_record(
    folder: Path, primary: KafkaCluster, unique: Unique
) -> None:
    topic = unique("full")
    create_topic(primary.bootstrap, topic)
    target = Broker(folder / "target")
    with target:
        flow = make_flow(
            folder,
            primary,
            target,
            [topic],
            transaction_max_bytes=60_000,
            fetch_max_bytes=60_000,
            partition_wait_ms=3_000,
        )
        produce(primary.bootstrap, topic, named("first", 1))
        assert failures(copy_now(flow)) == []
        for number in range(20):
            produce(primary.bootstrap, topic, [Record(value=b"%d " % number + NOISE)])
        plan = plan_now(flow, "run-2")
        assert target.pid is not None
        # Writing more than this to a file fails, as on a full disk.
        psutil.Process(target.pid).rlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))

        (problem,) = failures(copy_planned(flow, plan))

        assert problem.startswith(f"{topic}-0 ")
        target.restart()
        assert 1 < sum(row["records"] for row in ledger_rows(flow)) < 21
        assert failures(copy_now(flow, "run-3")) == []
        assert_same(primary, topic, target, remote(flow, topic))
    target.wipe()
