"""What works with brokers of older lines, as docs/compatibility.md says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from kafka_ferry.control import ClusterControl
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.model.changes import ConfigChange
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.model.plan import Creation, Growth
from kafka_ferry.model.ranges import TopicPartition
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import KafkaCluster, start_all
from kafka_sandbox.java.jars import line
from tests.support.brokers.old_brokers import VERSIONS, broker_of
from tests.support.brokers.over_wire import OverWire
from tests.support.records.builders import (
    Record,
    create_topic,
    delete_before,
    delete_topic,
    produce,
    set_config,
)
from tests.support.records.groups import cluster_of, commit_alone, member
from tests.support.records.offsets import assert_same_offsets
from tests.support.runs.flows import assert_same, copy_now, failures, make_flow, plan_now, remote
from tests.support.runs.pair import Unique
from tests.support.runs.proof import prove, recount_here
from tests.support.waiting import wait_until

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=VERSIONS)
def old(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaCluster]:
    """A broker of each of the versions, one after the other."""
    version: str = request.param
    with broker_of(version, tmp_path_factory.mktemp("old")) as broker:
        yield broker


@pytest.fixture
def old_with_preserved(old: KafkaCluster) -> KafkaCluster:
    """One that remembers a producer whose records are all deleted."""
    if line(old.version) < (2, 4):
        pytest.skip("It forgets a producer as soon as its records are deleted.")
    return old


@pytest.fixture(scope="module")
def two_of_three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Brokers, Brokers]]:
    """Two clusters of three brokers each, of the newest of the versions."""
    home = tmp_path_factory.mktemp("three")
    version = max(VERSIONS, key=line)
    clusters = Brokers(home / "source", version=version), Brokers(home / "target", version=version)
    try:
        start_all(clusters)
        yield clusters
    finally:
        for cluster in clusters:
            cluster.wipe()


def append(broker: KafkaCluster, topic: str, compression: str = "lz4") -> None:
    """Plain records, committed and aborted ones, in both partitions."""
    now = time.time_ns() // 1_000_000
    records = [
        Record(b"%d" % i, b"value %d" % i, (("h", b"1"),), now + i, partition=i % 2)
        for i in range(200)
    ]
    produce(broker.bootstrap, topic, records, compression=compression)
    for number in range(6):
        abort = number % 3 == 1
        produce(broker.bootstrap, topic, records[:20], transactional_id=topic, abort=abort)


def a_topic(broker: KafkaCluster, name: str, replicas: int = 1) -> str:
    """A topic with two partitions, of which one begins at offset 30."""
    create_topic(broker.bootstrap, name, partitions=2, replicas=replicas)
    append(broker, name)
    delete_before(broker, name, 30)
    return name


def copy_twice(
    folder: Path, source: KafkaCluster, target: KafkaCluster, topic: str, **options: object
) -> str:
    """Copies what there is, and what comes next; gives the name of the remote topic."""
    flow = make_flow(folder, source, target, [topic], **{"replication_factor": 1, **options})
    assert failures(copy_now(flow)) == []
    append(source, topic)
    assert failures(copy_now(flow, "run-2")) == []
    return remote(flow, topic)


def test_a_copy_to_an_old_broker(
    folder: Path, primary: KafkaCluster, old: KafkaCluster, unique: Unique
) -> None:
    topic = a_topic(primary, unique("to-old"))

    remote_topic = copy_twice(folder, primary, old, topic)

    assert_same(primary, topic, old, remote_topic)


def test_a_copy_from_an_old_broker(
    folder: Path, old: KafkaCluster, backup: KafkaCluster, unique: Unique
) -> None:
    topic = a_topic(old, unique("from-old"))

    remote_topic = copy_twice(folder, old, backup, topic)

    assert_same(old, topic, backup, remote_topic)


def is_created(broker: KafkaCluster, topic: str) -> bool:
    try:
        create_topic(broker.bootstrap, topic, replicas=1)
    except KafkaException:
        return False
    return True


def test_a_topic_that_was_recreated_on_an_old_broker_is_named(
    folder: Path,
    old: KafkaCluster,
    backup: KafkaCluster,
    unique: Unique,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not (1, 0) <= line(old.version) < (2, 8):
        pytest.skip("It deletes no topic by default, or its topics have ids.")
    recount_here(monkeypatch)
    same, longer, busy = (unique(name) for name in ("same", "longer", "busy"))
    now = time.time_ns() // 1_000_000

    def write(topic: str, mark: str, count: int, partitions: int = 1) -> None:
        records = [Record(value=b"%s %d" % (mark.encode(), i), timestamp=now) for i in range(count)]
        produce(
            old.bootstrap,
            topic,
            [replace(it, partition=i % partitions) for i, it in enumerate(records)],
        )

    for topic, partitions in ((same, 1), (longer, 1), (busy, 20)):
        create_topic(old.bootstrap, topic, partitions, replicas=1)
    write(same, "first", 10)
    write(longer, "first", 10)
    flow = make_flow(folder, old, backup, [same, longer, busy], replication_factor=1)
    prove(flow)
    # Copied later, so that its partitions are the newest ones.
    write(busy, "first", 100, 20)
    prove(flow, "run-2")

    for topic, count in ((same, 10), (longer, 20)):
        delete_topic(old, topic)
        # ZooKeeper has it a little longer than the brokers.
        wait_until(partial(is_created, old, topic))
        write(topic, "second", count)
    write(busy, "second", 100, 20)

    refused = {it.topic for it in plan_now(flow, "run-3").remarks.refused}
    assert refused == {same, longer}


@pytest.mark.parametrize("fill", ["transactions", "markers"])
def test_offsets_are_preserved_on_an_old_broker(
    fill: str, folder: Path, primary: KafkaCluster, old_with_preserved: KafkaCluster, unique: Unique
) -> None:
    topic = a_topic(primary, unique("to-old"))

    remote_topic = copy_twice(
        folder, primary, old_with_preserved, topic, offsets="preserved", fill=fill
    )

    assert_same_offsets(primary, topic, old_with_preserved, remote_topic)


def test_offsets_of_an_old_broker_are_preserved(
    folder: Path, old: KafkaCluster, backup: KafkaCluster, unique: Unique
) -> None:
    topic = a_topic(old, unique("from-old"))

    remote_topic = copy_twice(folder, old, backup, topic, offsets="preserved", fill="markers")

    assert_same_offsets(old, topic, backup, remote_topic)


@pytest.mark.parametrize(
    ("way", "offsets"),
    [("old to old", "preserved"), ("old to new", "translated"), ("new to old", "preserved")],
)
def test_two_clusters_of_three_brokers(
    way: str,
    offsets: str,
    folder: Path,
    two_of_three: tuple[Brokers, Brokers],
    three_brokers: Brokers,
    unique: Unique,
) -> None:
    old_source, old_target = two_of_three
    source = three_brokers if way.startswith("new") else old_source
    target = three_brokers if way.endswith("new") else old_target
    topic = a_topic(source, unique("of-three"), replicas=3)

    remote_topic = copy_twice(folder, source, target, topic, offsets=offsets, replication_factor=3)

    if offsets == "preserved":
        assert_same_offsets(source, topic, target, remote_topic)
    else:
        assert_same(source, topic, target, remote_topic)


def test_a_topic_whose_records_were_all_deleted_goes_on_with_preserved_offsets(
    folder: Path, primary: KafkaCluster, old_with_preserved: KafkaCluster, unique: Unique
) -> None:
    topic = a_topic(primary, unique("emptied"))
    flow = make_flow(
        folder, primary, old_with_preserved, [topic], offsets="preserved", replication_factor=1
    )
    assert failures(copy_now(flow)) == []
    for broker, name in [(primary, topic), (old_with_preserved, remote(flow, topic))]:
        all_records = [ConfluentPartition(name, number, -1) for number in range(2)]
        client = AdminClient({"bootstrap.servers": broker.bootstrap})
        for deleted in client.delete_records(all_records).values():
            deleted.result()

    append(primary, topic)
    assert failures(copy_now(flow, "run-2")) == []

    assert_same_offsets(primary, topic, old_with_preserved, remote(flow, topic))


def test_preserved_offsets_are_refused_by_name_where_a_broker_forgets_producers(
    folder: Path, primary: KafkaCluster, old: KafkaCluster, unique: Unique
) -> None:
    if line(old.version) >= (2, 4):
        pytest.skip("It remembers them.")
    topic = a_topic(primary, unique("refused"))
    flow = make_flow(folder, primary, old, [topic], offsets="preserved", replication_factor=1)

    told = failures(copy_now(flow))

    assert len(told) == 2
    assert all("Kafka 2.4" in sentence and "offsets: translated" in sentence for sentence in told)


def test_a_config_that_an_old_broker_does_not_know_is_left_out_and_named(
    folder: Path, primary: KafkaCluster, old: KafkaCluster, unique: Unique
) -> None:
    if line(old.version) >= (3, 8):
        pytest.skip("It knows the config.")
    topic = unique("new-config")
    create_topic(primary.bootstrap, topic)
    set_config(primary, topic, "compression.zstd.level", "5")
    set_config(primary, topic, "retention.ms", "123456789")
    flow = make_flow(folder, primary, old, [topic], replication_factor=1)

    plan = plan_now(flow)

    assert not plan.remarks.refused
    (said,) = plan.remarks.unapplied
    assert "Unknown topic config name: compression.zstd.level" in said
    assert "config.properties.exclude" in said
    configs = ClusterControl(flow.target).topics([remote(flow, topic)])[remote(flow, topic)].configs
    assert configs["retention.ms"] == "123456789"


def test_groups_of_an_old_broker_are_read_committed_and_deleted(
    old: KafkaCluster, unique: Unique
) -> None:
    topic, busy, simple, new = map(unique, ("topic", "busy", "simple", "new"))
    create_topic(old.bootstrap, topic, partitions=2, replicas=1)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    commit_alone(old, busy, {first: 3})
    commit_alone(old, simple, {first: 4, second: 5})
    offsets = {first: Committed(6, -1, "kept"), second: Committed(7)}
    with GroupControl(cluster_of(old)) as control, member(old, busy, topic):
        types = {group.name: group.type for group in control.groups()}
        described = control.describe([busy, simple, new])
        found = control.committed_offsets([Group(busy), Group(simple), Group(new)])
        refused = control.commit({Group(busy): offsets, Group(new): offsets})
        written = control.committed_offsets([Group(new)])
        kept = control.delete_offsets({new: [first]})
        shared = control.commit({Group(unique("shared"), "share"): offsets})

    assert (types[busy], types[simple], types.get(new)) == ("classic", "classic", None)
    assert [described[name] for name in (busy, simple, new)] == [
        Group(busy, "classic", "Stable", "consumer"),
        Group(simple, "classic", "Empty", ""),
        Group(new, "classic", "Dead", ""),
    ]
    assert found == {
        busy: {first: Committed(3)},
        simple: {first: Committed(4), second: Committed(5)},
        new: {},
    }
    assert refused.keys() == {busy}
    assert all("UNKNOWN_MEMBER_ID" in str(error) for error in refused[busy].values())
    assert written == {new: offsets}
    assert ("too old" in str(kept)) is bool(kept) is (line(old.version) < (2, 4))
    assert "Kafka 4.1" in str(shared)


def test_the_data_planes_connections_do_what_librdkafka_does(
    old: KafkaCluster, unique: Unique
) -> None:
    cluster, topic, group = cluster_of(old), unique("managed"), unique("group")
    wire, librdkafka = OverWire(cluster), ClusterControl(cluster)
    assert wire.create_topics([Creation(topic, 2, 1, {"retention.ms": "1000000"})]) == {}
    wire.topic_ids([topic], wait_for=[topic])
    growth = [Growth(topic, 3)]
    can_grow = line(old.version) >= (1, 0)
    assert bool(wire.grow_topics(growth)) is not can_grow
    if can_grow:
        wait_until(lambda: librdkafka.topics([topic])[topic].partitions == 3)
    assert bool(librdkafka.grow_topics(growth)) is not can_grow
    append(old, topic)
    commit_alone(old, group, {TopicPartition(topic, 0): 1})

    assert wire.cluster_id() == librdkafka.cluster_id()
    assert group in wire.group_names()
    topics = librdkafka.topics([topic])
    assert wire.topics([topic]) == topics
    committed = topics.values(), "read_committed"
    assert wire.log_bounds(*committed) == librdkafka.log_bounds(*committed)
    change = {topic: [ConfigChange(topic, topic, "retention.ms", "2000000", "1000000")]}
    refused, theirs = wire.alter_configs(change), librdkafka.alter_configs(change)
    assert refused.keys() == theirs.keys()
    assert all(getattr(it, "code", 0) in (35, -165) for it in [*refused.values(), *theirs.values()])
    # Before 1.0, brokers delete no topics by default (delete.topic.enable).
    if line(old.version) >= (1, 0):
        assert wire.delete_topics(wire.topic_ids([topic])) == {}
        assert wire.unknown([topic]) == {topic}
