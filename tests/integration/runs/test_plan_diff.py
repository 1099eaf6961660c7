"""A plan says all that a run would do, how much that is and what may be lost; and changes nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from kafka_ferry.config import Flow
from kafka_ferry.model import Plan
from kafka_ferry.runs import Run
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.access import acls_of, allow, an_acl, deny
from tests.support.brokers.segments import damage
from tests.support.records.builders import (
    Record,
    add_partitions,
    create_topic,
    delete_before,
    produce,
    set_config,
)
from tests.support.runs.command_line import ferry
from tests.support.runs.flows import copy_now, make_flow, remote
from tests.support.runs.pair import Pair

HOUR_MS = 3600 * 1000
VALUE = bytes(range(256)) * 4


def look(flow: Flow) -> Plan:
    return Run(flow, "plan").plan(save=False)


def state_of(broker: KafkaCluster) -> dict[str, Any]:
    """Everything on a cluster that a run could change: topics, configs, groups, ACLs."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    topics = client.list_topics(timeout=10).topics
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    configs = client.describe_configs(resources)
    return {
        "topics": {name: len(topic.partitions) for name, topic in topics.items()},
        "configs": {
            resource.name: {name: entry.value for name, entry in future.result().items()}
            for resource, future in configs.items()
        },
        "groups": {group.group_id for group in client.list_consumer_groups().result().valid},
        "acls": acls_of(broker),
    }


def test_a_plan_is_what_a_run_then_does_and_changes_nothing_itself(pair: Pair) -> None:
    grows, new, cycle = pair.unique("grows"), pair.unique("new"), pair.unique("backup.own")
    create_topic(pair.primary.bootstrap, grows)
    flow = pair.flow([grows, new, cycle], topics_optional=[new, cycle])
    copy_now(flow)
    add_partitions(pair.primary, grows, 3)
    set_config(pair.primary, grows, "retention.ms", "86400001")
    create_topic(pair.primary.bootstrap, new, partitions=2, max_message_bytes="65536")
    create_topic(pair.primary.bootstrap, cycle)
    pair.produce(new, [Record(value=b"x", partition=1)] * 7)
    allow(pair.primary, f"topic {new}: anna ALLOW READ")
    before = state_of(pair.primary), state_of(pair.backup)

    shown = ferry("plan", "--config", flow.file)
    told = ferry("plan", "--config", flow.file, "--json")

    assert (shown.returncode, told.returncode) == (2, 2), shown.stderr
    assert (state_of(pair.primary), state_of(pair.backup)) == before
    plan = json.loads(told.stdout)
    assert plan["differences"] == {
        "partitions_to_copy": 1,
        "topics_to_create": 1,
        "topics_to_grow": 1,
        "configs_to_change": 1,
        "acls_to_change": 1,
    }
    for line in (
        f"create {remote(flow, new)}: 2 partitions, max.message.bytes=65536",
        f"grow {remote(flow, grows)} to 3 partitions",
        f"alter {remote(flow, grows)}: set retention.ms=86400001",
        f"grant ALLOW READ on the topic {remote(flow, new)} to User:anna",
    ):
        assert line in shown.stdout.splitlines()
    assert "topics to create: 1; topics to grow: 1" in shown.stdout.splitlines()[0]
    assert f"skip {cycle}" in shown.stdout

    copy_now(flow, "run-2")

    done = state_of(pair.backup)
    assert done["topics"][remote(flow, new)] == 2
    assert done["topics"][remote(flow, grows)] == 3
    assert done["configs"][remote(flow, grows)]["retention.ms"] == "86400001"
    assert an_acl(f"topic {remote(flow, new)}: anna ALLOW READ") in done["acls"]
    again = ferry("plan", "--config", flow.file)
    assert (again.returncode, again.stdout.splitlines()[0]) == (0, f"{flow.name}: nothing to do")


def test_a_plan_says_about_how_many_bytes_there_are_to_copy(pair: Pair) -> None:
    topic = pair.topic("sized", [Record(value=VALUE, partition=0)] * 300, partitions=2)
    pair.produce(topic, [Record(value=VALUE, partition=1)] * 100)
    flow = pair.flow([topic])

    whole = {estimate.partition: estimate for estimate in look(flow).estimates}
    copy_now(flow)
    pair.produce(topic, [Record(value=VALUE, partition=0)] * 100)
    rest = look(flow).estimates

    assert {number: estimate.records for number, estimate in whole.items()} == {0: 300, 1: 100}
    for estimate in (*whole.values(), *rest):
        # A record's own overhead and a batch's header are small beside its value.
        payload = estimate.records * len(VALUE)
        assert payload < (estimate.bytes or 0) < payload * 1.1
    assert [(estimate.partition, estimate.records) for estimate in rest] == [(0, 100)]


@pytest.fixture
def reserved(tmp_path: Path) -> Iterator[KafkaCluster]:
    """A broker that does not tell how large its logs are."""
    broker = Broker(tmp_path / "reserved", config={"super.users": "User:nobody"})
    broker.start().wait_ready()
    deny(broker, "cluster kafka-cluster", "DESCRIBE")
    yield broker
    broker.wipe()


def test_without_the_right_to_see_sizes_a_plan_says_so_once_and_is_made_all_the_same(
    folder: Path, reserved: KafkaCluster, backup: KafkaCluster
) -> None:
    for topic in ("one", "two"):
        create_topic(reserved.bootstrap, topic, partitions=2)
        produce(reserved.bootstrap, topic, [Record(value=b"x", partition=p) for p in (0, 1)])

    plan = look(make_flow(folder, reserved, backup, ["one", "two"]))

    assert [estimate.bytes for estimate in plan.estimates] == [None] * 4
    said = [str(note) for note in plan.remarks.notes if "bytes" in str(note)]
    assert len(said) == 1
    assert "DESCRIBE on the cluster" in said[0]
    assert "CLUSTER_AUTHORIZATION_FAILED" in said[0]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that cannot open the first batch of ``damaged-0`` and ``torn-0``, and so finds no time there."""
    broker = Broker(tmp_path_factory.mktemp("damaged"))
    broker.start().wait_ready()
    for topic, partitions in (("damaged", 2), ("torn", 1), ("whole", 2)):
        create_topic(broker.bootstrap, topic, partitions=partitions)
        for partition in range(partitions):
            records = [Record(value=VALUE, partition=partition)] * 9
            produce(broker.bootstrap, topic, records, compression="gzip")
    broker.stop()
    for topic in ("damaged", "torn"):
        damage(broker, topic, number=0, at=61)
    broker.start().wait_ready()
    yield broker
    broker.wipe()


def test_a_partition_whose_times_its_broker_cannot_tell_is_unknown_alone(
    folder: Path, damaged: Broker, backup: Broker
) -> None:
    flow = make_flow(folder, damaged, backup, ["damaged", "whole"], schedule=in_hours(5))

    plan = look(flow)

    assert {(range_.topic, range_.partition) for range_ in plan.ranges} == {
        (topic, partition) for topic in ("damaged", "whole") for partition in (0, 1)
    }
    (said,) = [str(note) for note in plan.remarks.notes if "UNKNOWN_SERVER_ERROR" in str(note)]
    assert "damaged-0" in said
    assert "is not known" in said


def test_a_remote_topic_that_cannot_be_read_is_refused_alone(
    folder: Path, primary: Broker, damaged: Broker
) -> None:
    for topic in ("torn", "whole"):
        create_topic(primary.bootstrap, topic)
    identity = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    flow = make_flow(folder, primary, damaged, ["torn", "whole"], replication_policy_class=identity)

    refused = {refusal.topic: refusal.reason for refusal in look(flow).remarks.refused}

    assert "torn-0" in refused["torn"]
    assert "wrong CRC" in refused["torn"]
    assert "records that this flow has not copied" in refused["whole"]


def in_hours(hours: int) -> str:
    """A timetable of one run a day, the next of them in about so many hours."""
    return f"{datetime.now(UTC) + timedelta(hours=hours):%M %H} * * *"


def test_topics_that_may_lose_records_before_they_are_copied_are_named(pair: Pair) -> None:
    now = time.time_ns() // 1_000_000
    expires, short, brief, safe = (pair.unique(n) for n in ("expires", "short", "brief", "safe"))
    two_days = str(48 * HOUR_MS)
    create_topic(pair.primary.bootstrap, expires, partitions=2, retention_ms=two_days)
    old, new = [Record(value=b"x", partition=1, timestamp=now - age * HOUR_MS) for age in (47, 1)]
    pair.produce(expires, [old, old, old, new])
    for topic in (short, safe):
        create_topic(pair.primary.bootstrap, topic)
        aged = Record(value=b"x", timestamp=now - (1 if topic == short else 30) * HOUR_MS)
        pair.produce(topic, [aged] * 9)
        delete_before(pair.primary, topic, 4)
    create_topic(pair.primary.bootstrap, brief, retention_ms=str(23 * HOUR_MS))
    pair.produce(brief, [Record(value=b"x")])
    deletes = pair.topic(
        "deletes", [Record(b"k", b"v", timestamp=now - 40 * HOUR_MS)], cleanup_policy="compact"
    )
    topics = [expires, short, brief, safe, deletes]
    flow = pair.flow(topics, schedule=in_hours(5))

    risks = {risk.topic: risk for risk in look(flow).remarks.risks}

    assert risks.keys() == {expires, short, brief}
    assert (risks[expires].partition, risks[expires].offsets) == (1, 3)
    assert "offsets [0, 3) may be deleted before the next run" in str(risks[expires])
    assert "its log holds less than the time between two runs (1 day" in str(risks[short])
    assert f"retention.ms={23 * HOUR_MS} is less than the time" in str(risks[brief])
    shown = ferry("plan", "--config", flow.file).stdout
    assert f"RISK {risks[expires]}" in shown.splitlines()

    copy_now(flow)

    # What is copied is safe; what comes next is not where no run may be in time for it.
    assert [risk.topic for risk in look(flow).remarks.risks] == [brief]
    aged = [Record(b"k", None, timestamp=now - age * HOUR_MS) for age in (30, 25, 1)]
    pair.produce(deletes, aged)
    (risk,) = [it for it in look(flow).remarks.risks if it.topic == deletes]
    assert "offsets [1, 3) are older than delete.retention.ms=86400000" in str(risk)
