"""Many partitions in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kafka_ferry.config import Cluster
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.copy import restore_positions
from kafka_ferry.model.changes import ConfigChange
from kafka_ferry.model.plan import Creation
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster, start_all
from tests.support.records.builders import Record, create_topic, produce
from tests.support.runs.flows import (
    assert_same,
    copy_now,
    copy_planned,
    failures,
    ledger_of,
    ledger_rows,
    make_flow,
    plan_now,
    remote,
)

pytestmark = pytest.mark.long

PARTITIONS = 1_000
CONFIGS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400001",
    "file.delete.delay.ms": "60001",
    "flush.messages": "9223372036854775806",
    "flush.ms": "9223372036854775806",
    "index.interval.bytes": "4097",
    "max.compaction.lag.ms": "9223372036854775806",
    "max.message.bytes": "1048589",
    "message.timestamp.after.max.ms": "3600001",
    "message.timestamp.before.max.ms": "9223372036854775806",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.51",
    "min.compaction.lag.ms": "1",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800001",
    "segment.bytes": "1073741823",
    "segment.index.bytes": "10485761",
    "segment.jitter.ms": "1",
    "segment.ms": "604800001",
    "unclean.leader.election.enable": "false",
}


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Brokers of their own: those of the other tests would have the partitions for the rest of the session."""
    brokers = Broker(tmp_path / "source"), Broker(tmp_path / "target")
    start_all(brokers)
    yield brokers
    for broker in brokers:
        broker.wipe()


def test_a_topic_of_a_thousand_partitions_is_copied_in_one_run(
    folder: Path, clusters: tuple[KafkaCluster, KafkaCluster], unique: Callable[[str], str]
) -> None:
    source, target = clusters
    topic = unique("wide")
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    records = [
        Record(key=b"%d" % i, value=b"%d" % i * 20, partition=i % PARTITIONS)
        for i in range(3 * PARTITIONS)
    ]
    # Leaders of that many partitions come and go: a plain producer would write some records twice.
    produce(source.bootstrap, topic, records, idempotent=True)
    flow = make_flow(folder, source, target, [topic])

    outcomes = copy_now(flow)

    assert failures(outcomes) == []
    assert len(outcomes) == PARTITIONS
    assert_same(source, topic, target, remote(flow, topic))
    rows = ledger_rows(flow)
    assert {row["partition"] for row in rows} == set(range(PARTITIONS))
    assert sum(row["records"] for row in rows) == len(records)
    assert copy_now(flow, "run-2") == []


def test_more_topics_and_configs_than_a_controller_takes_in_one_request_are_all_made(
    clusters: tuple[KafkaCluster, KafkaCluster],
) -> None:
    """Controllers refuse requests that make more than 10,000 records, as a whole."""
    properties = {"bootstrap.servers": clusters[1].bootstrap}
    control = ClusterControl(Cluster(alias="target", properties=properties))
    creations = [Creation(f"many-{number}", 1, 1, CONFIGS) for number in range(500)]
    names = [creation.remote_topic for creation in creations]
    assert len(names) * (len(CONFIGS) + 2) > 10_000
    assert control.create_topics(creations) == {}
    changes = {
        name: [ConfigChange("", name, config, None, value) for config, value in CONFIGS.items()]
        for name in names
    }
    assert control.alter_configs(changes) == {}
    assert control.delete_topics(control.topic_ids(names)) == {}


@pytest.mark.timeout(900)
def test_positions_that_fit_into_no_batch_of_a_broker_are_committed_and_restored(
    folder: Path, clusters: tuple[KafkaCluster, KafkaCluster], unique: Callable[[str], str]
) -> None:
    source, target = clusters
    topic, count = unique("wide"), 4_500
    create_topic(source.bootstrap, topic, partitions=count)
    produce(
        *(source.bootstrap, topic, [Record(value=b"%d" % i, partition=i) for i in range(count)]),
        idempotent=True,
    )
    # One writer, whose first transaction commits where all partitions begin.
    flow = make_flow(folder, source, target, [topic], writers=1)
    plan = plan_now(flow)
    # Until so many new partitions have leaders, a busy machine may take longer than a writer waits.
    remote_topics = ClusterControl(flow.target).topics([remote(flow, topic)])
    ClusterControl(flow.target).log_bounds(remote_topics.values(), "read_committed", wait_s=300)
    assert failures(copy_planned(flow, plan)) == []
    assert len(read_positions(flow.target, flow.name)) == count

    group = f"ferry.{flow.name}"
    client = AdminClient({"bootstrap.servers": target.bootstrap})
    client.delete_consumer_groups([group])[group].result()
    restore_positions(flow, "run-2", ledger_of(flow).positions())

    restored = read_positions(flow.target, flow.name).values()
    assert [position.offset for position in restored] == [1] * count
