"""The control plane over the data plane's connections says and does the same as through librdkafka."""

from __future__ import annotations

import pytest

from kafka_ferry.config import Cluster
from kafka_ferry.control.cluster import ClusterControl
from kafka_ferry.model.changes import ConfigChange
from kafka_ferry.model.plan import Creation, Growth
from kafka_ferry.model.ranges import TopicPartition
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.over_wire import OverWire
from tests.support.records.builders import Record, produce
from tests.support.records.groups import commit_alone
from tests.support.runs.pair import Unique


@pytest.fixture
def controls(backup: KafkaCluster) -> tuple[OverWire, ClusterControl]:
    cluster = Cluster(alias="backup", properties={"bootstrap.servers": backup.bootstrap})
    return OverWire(cluster), ClusterControl(cluster)


def test_topics_are_created_grown_changed_and_deleted(
    controls: tuple[OverWire, ClusterControl], backup: KafkaCluster, unique: Unique
) -> None:
    wire, librdkafka = controls
    plain, placed = unique("plain"), unique("placed")
    node = min(wire.racks())
    made = [
        Creation(plain, 2, -1, {"retention.ms": "1000", "cleanup.policy": "compact"}),
        Creation(placed, 1, 1, {}, assignment=((node,),)),
    ]

    assert wire.create_topics(made) == {}
    assert wire.create_topics(made) == {}
    refused = wire.create_topics([Creation(unique("odd"), 1, 1, {"retention.ms": "soon"})])
    assert "Invalid value soon" in str(*refused.values())
    wire.topic_ids([plain, placed], wait_for=[plain, placed])
    assert wire.grow_topics([Growth(plain, 3), Growth(placed, 2, assignment=((node,),))]) == {}
    changes = [
        ConfigChange(plain, plain, "retention.ms", "2000", "1000"),
        ConfigChange(plain, plain, "cleanup.policy", None, "compact"),
    ]
    assert wire.alter_configs({plain: changes}) == {}
    wrong = wire.alter_configs(
        {plain: [ConfigChange(plain, plain, "retention.ms", "never", "1000")]}
    )
    assert plain in str(wrong[plain])

    produce(backup.bootstrap, plain, [Record(b"k", b"v", partition=1)])
    produce(backup.bootstrap, plain, [Record(b"k", b"no")], transactional_id=plain, abort=True)
    topics = wire.topics([plain, placed, "none-of-these"])
    assert topics == librdkafka.topics([plain, placed, "none-of-these"])
    assert topics[plain].partitions == 3
    assert topics[plain].configs["retention.ms"] == "2000"
    assert topics[plain].overrides == {"retention.ms"}
    for isolation in ("read_committed", "read_uncommitted"):
        bounds = wire.log_bounds(topics.values(), isolation)
        assert bounds == librdkafka.log_bounds(topics.values(), isolation)
        assert bounds[TopicPartition(plain, 1)].end >= 1

    ids = {name: topic.topic_id for name, topic in topics.items()}
    assert wire.delete_topics({**ids, placed: "A" * 22}) == {}
    assert wire.unknown([plain, placed]) == {plain}
    assert wire.delete_topics(ids) == {}


def test_the_cluster_and_its_groups_are_described(
    controls: tuple[OverWire, ClusterControl], unique: Unique, backup: KafkaCluster
) -> None:
    wire, librdkafka = controls
    group, topic = unique("group"), unique("committed")
    assert wire.create_topics([Creation(topic, 1, 1, {})]) == {}
    wire.topic_ids([topic], wait_for=[topic])
    commit_alone(backup, group, {TopicPartition(topic, 0): 0})

    for ask in (
        ClusterControl.cluster_id,
        ClusterControl.racks,
        ClusterControl.topic_names,
        ClusterControl.group_names,
        ClusterControl.all_group_names,
    ):
        assert ask(wire) == ask(librdkafka)
    assert group in wire.all_group_names()
