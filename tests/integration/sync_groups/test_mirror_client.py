"""MirrorMaker 2's own clients on what a flow leaves on its target, and what they make of it.

The programs are Kafka's: the client library that applications use at a failover, the formatters of
the console consumer, and the connector that makes checkpoints of offset syncs.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kafka_ferry.config import Flow
from kafka_ferry.groups.mirrormaker2.record_formats import Checkpoint
from kafka_ferry.groups.moves import GroupMoves
from kafka_ferry.groups.routes import Route, routes
from kafka_ferry.model import TopicPartition
from kafka_ferry.plan.topics.replication_policy import policy_of
from kafka_ferry.runs import Run
from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.java import jvm
from kafka_sandbox.java.jars import KAFKA, class_path, java
from kafka_sandbox.mirrormaker2 import MIRROR, mirror_classpath
from tests.support.java.programs import run_java
from tests.support.records.builders import Record, create_topic, produce
from tests.support.records.mirror_topics import (
    checkpoints_in,
    commit,
    emit_now,
    heartbeats_in,
    moves_of,
    offset_syncs_in,
    trust,
)
from tests.support.runs.flows import copy_now, failures, ledger_of, make_flow
from tests.support.runs.pair import Pair
from tests.support.waiting import wait_until

POLICIES = {
    "default": {},
    "separator": {"replication.policy.separator": "__"},
    "internal topics without it": {
        "replication.policy.separator": "__",
        "replication.policy.internal.topic.separator.enabled": "false",
    },
    "identity": {"replication.policy.class": "IdentityReplicationPolicy"},
}


@dataclass(frozen=True)
class Mirrored:
    """A flow that was copied, what it says of two groups, and what MirrorMaker 2's client says."""

    flow: Flow
    moves: GroupMoves
    answers: Mapping[str, str]

    @property
    def alias(self) -> str:
        return self.flow.source.alias

    def asked(self, method: str) -> list[str]:
        """A method's answer, as a list, the same from both classes where both have it."""
        found = {
            answer
            for name in ("RemoteClusterUtils", "MirrorClient")
            if (answer := self.answers.get(f"{name}.{method}")) is not None
        }
        (answer,) = found
        return answer.split(",") if answer else []


def offsets_of(moves: GroupMoves, group: str) -> list[str]:
    """What we say, as the program prints it."""
    return sorted(
        f"{move.target}={move.offset}/{move.committed.metadata}"
        for of, move in moves.partitions()
        if of.group.name == group and move.committed
    )


def gapped(broker: KafkaCluster, topic: str) -> None:
    """A topic of two partitions whose offsets are others on the target: aborted records between."""
    create_topic(broker.bootstrap, topic, partitions=2)
    for number, abort in enumerate((False, True, False, False)):
        records = [Record(value=b"%d" % n, partition=n % 2) for n in range(40)]
        produce(broker.bootstrap, topic, records, transactional_id=f"{topic}-{number}", abort=abort)


@pytest.fixture(scope="module")
def mirrored(
    tmp_path_factory: pytest.TempPathFactory, primary: KafkaCluster, backup: KafkaCluster
) -> dict[str, Mirrored]:
    """A flow with each policy; the client library asked of all of them at once."""
    flows: dict[str, tuple[Flow, GroupMoves]] = {}
    for name, policy in POLICIES.items():
        folder = tmp_path_factory.mktemp("flow") / f"src-{uuid.uuid4().hex[:8]}"
        topic = f"orders-{folder.name}"
        gapped(primary, topic)
        groups = ["billing.*", "other"]
        options = {**policy, "groups": groups, "emit.heartbeats.enabled": True}
        flow = make_flow(folder, primary, backup, [topic], **options)
        one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
        # Before and in the gap, and at the end.
        offsets = {"billing": {one: 7, two: 25}, "billing-2": {one: 62}, "other": {one: 0}}
        for group, committed in offsets.items():
            commit(primary, group, committed, "said by the application")
        assert not failures(copy_now(flow))
        trust(flow)
        flows[name] = flow, Run(flow, "run-1").sync_groups()
    cases = [
        ";".join(
            [
                *(flow.source.alias, "billing", "bill.*"),
                f"bootstrap.servers={backup.bootstrap}",
                f"source.cluster.alias={flow.source.alias}",
                *(f"{key}={value}" for key, value in java_names(POLICIES[name]).items()),
            ]
        )
        for name, (flow, _) in flows.items()
    ]
    printed = run_java("MirrorClientAnswers", *cases, jars=MIRROR, timeout=300)
    answers: list[dict[str, str]] = [{} for _ in cases]
    for line in printed.splitlines():
        number, method, answer = line.split("\t")
        answers[int(number)][method] = answer
    return {
        name: Mirrored(flow, moves, answers[number])
        for number, (name, (flow, moves)) in enumerate(flows.items())
    }


def java_names(options: Mapping[str, str]) -> dict[str, str]:
    prefix = "org.apache.kafka.connect.mirror."
    return {
        key: f"{prefix}{value}" if key == "replication.policy.class" else value
        for key, value in options.items()
    }


@pytest.mark.parametrize("policy", POLICIES)
def test_translated_offsets_are_ours(policy: str, mirrored: dict[str, Mirrored]) -> None:
    it = mirrored[policy]
    for method in ("translateOffsets", "remoteConsumerOffsets"):
        assert it.asked(method) == offsets_of(it.moves, "billing")
        # With a pattern, all of the groups that it matches as a whole.
        for group in ("billing", "billing-2"):
            assert it.asked(f"{method} {group}") == offsets_of(it.moves, group)
        assert not any(f"{method} other" in name for name in it.answers)
    assert [len(offsets_of(it.moves, group)) for group in ("billing", "billing-2", "other")] == [
        2,
        1,
        1,
    ]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_source_is_found_one_hop_upstream(policy: str, mirrored: dict[str, Mirrored]) -> None:
    it = mirrored[policy]
    assert it.asked("replicationHops") == ["1"]
    assert it.asked("replicationHops of nobody") == ["-1"]
    assert it.alias in it.asked("upstreamClusters")


@pytest.mark.parametrize("policy", POLICIES)
def test_topics_have_the_names_that_we_give_them(
    policy: str, mirrored: dict[str, Mirrored]
) -> None:
    it = mirrored[policy]
    ours = policy_of(it.flow)
    beats = ours.remote_topic("heartbeats")
    assert it.asked("replicationPolicy checkpointsTopic") == [ours.checkpoints_topic()]
    assert it.asked("replicationPolicy offsetSyncsTopic") == [ours.offset_syncs_topic(it.alias)]
    assert it.asked("replicationPolicy heartbeatsTopic") == ["heartbeats"]
    assert it.asked("replicationPolicy formatRemoteTopic") == [beats]
    assert ours.checkpoints_topic() in it.asked("checkpointTopics")
    assert {"heartbeats", beats} <= set(it.asked("heartbeatTopics"))


@pytest.mark.parametrize("policy", POLICIES)
def test_remote_topics_are_those_that_we_copied(policy: str, mirrored: dict[str, Mirrored]) -> None:
    it = mirrored[policy]
    ours = policy_of(it.flow)
    topic = ours.remote_topic(f"orders-{it.alias}")
    assert topic in it.asked("remoteTopics")
    of_source = it.asked("remoteTopics of source")
    if policy == "identity":
        # A name tells nothing then: every topic counts as the source's.
        assert topic in of_source
    else:
        assert of_source == sorted([topic, ours.remote_topic("heartbeats")])


# The console consumer's formatters


def consoled(broker: KafkaCluster, formatter: str, topic: str, count: int) -> list[str]:
    """What kafka-console-consumer prints of a topic's first records with one of the formatters."""
    classes = [class_path(KAFKA), *(str(jar) for jar in mirror_classpath() if "mirror" in jar.name)]
    command = [
        *(str(java()), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        *("-cp", os.pathsep.join(classes), "org.apache.kafka.tools.consumer.ConsoleConsumer"),
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--from-beginning"),
        *("--max-messages", str(count), "--timeout-ms", "60000"),
        *("--formatter", f"org.apache.kafka.connect.mirror.formatters.{formatter}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout.splitlines()


def test_kafkas_formatters_print_checkpoints_heartbeats_and_offset_syncs(
    pair: Pair, tmp_path: Path
) -> None:
    alias = f"src-{uuid.uuid4().hex[:8]}"
    folder = tmp_path / alias
    topic = f"orders-{alias}"
    gapped(pair.primary, topic)
    options = {
        "emit.heartbeats.enabled": True,
        "emit.offset-syncs.enabled": True,
        "offset-syncs.topic.location": "target",
    }
    flow = make_flow(folder, pair.primary, pair.backup, [topic], **options)
    assert not failures(copy_now(flow))
    trust(flow)
    moves = moves_of(flow, {"billing": {TopicPartition(topic, 0): 7}}, metadata="as of noon")
    assert emit_now(flow, moves) == []
    target = f"{alias}.{topic}"

    assert consoled(pair.backup, "CheckpointFormatter", f"{alias}.checkpoints.internal", 1) == [
        f"Checkpoint{{consumerGroupId=billing, topicPartition={target}-0, "
        "upstreamOffset=7, downstreamOffset=7, metadata=as of noon}"
    ]
    (beat,) = heartbeats_in(pair.backup, f"{alias}.heartbeats", alias)
    assert consoled(pair.backup, "HeartbeatFormatter", f"{alias}.heartbeats", 1) == [
        f"Heartbeat{{sourceClusterAlias={alias}, targetClusterAlias=backup, "
        f"timestamp={beat.timestamp}}}"
    ]
    name = f"mm2-offset-syncs.{alias}.internal"
    syncs = offset_syncs_in(pair.backup, name)
    assert consoled(pair.backup, "OffsetSyncFormatter", name, len(syncs)) == [
        f"OffsetSync{{topicPartition={sync.source}, upstreamOffset={sync.upstream}, "
        f"downstreamOffset={sync.downstream}}}"
        for sync in syncs
    ]


# A checkpoint connector on our offset syncs


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Path]:
    """The folder of a Connect worker."""
    folder = tmp_path / "connect"
    folder.mkdir()
    yield folder


def start_connector(
    folder: Path, worker: Mapping[str, str], connector: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Starts Connect's standalone worker with one connector."""
    for name, properties in (("worker", worker), ("connector", connector)):
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        (folder / f"{name}.properties").write_text(text)
    files = [str(folder / f"{name}.properties") for name in ("worker", "connector")]
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            jvm.command(main, *files, jars=MIRROR), stdout=log, stderr=subprocess.STDOUT
        )


@pytest.mark.parametrize("location", ["target", "source"])
@pytest.mark.long
def test_a_real_checkpoint_connector_never_passes_over_what_a_group_has_not_read(
    pair: Pair, location: str, tmp_path: Path, worker: Path
) -> None:
    alias, target_alias = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("src", "tgt"))
    folder = tmp_path / alias
    folder.mkdir()
    topic = f"orders-{alias}"
    gapped(pair.primary, topic)
    options = {
        "emit.offset-syncs.enabled": True,
        "offset-syncs.topic.location": location,
        # The connector's are to be the only ones.
        "emit.checkpoints.enabled": False,
    }
    flow = make_flow(folder, pair.primary, pair.backup, [topic], into=target_alias, **options)
    for run in ("run-1", "run-2"):
        assert not failures(copy_now(flow, run))
        trust(flow)
        assert emit_now(flow, GroupMoves(0)) == []
        if run == "run-1":
            pair.produce(topic, [Record(partition=0), Record(partition=1)])
    ends = dict(enumerate(ends_of(flow, topic)))
    groups = {
        f"{alias}-{number}-{offset}": (TopicPartition(topic, number), offset)
        for number, end in ends.items()
        for offset in (0, 5, 19, 20, 21, 30, 41, 60, end - 1, end)
    }
    for group, (partition, offset) in groups.items():
        commit(pair.primary, group, {partition: offset})
    connector = {
        "name": "checkpoints",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
        "tasks.max": "1",
        "source.cluster.alias": alias,
        "target.cluster.alias": target_alias,
        "source.cluster.bootstrap.servers": pair.primary.bootstrap,
        "target.cluster.bootstrap.servers": pair.backup.bootstrap,
        "topics": topic,
        "groups": f"{alias}.*",
        "offset-syncs.topic.location": location,
        "checkpoints.topic.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "consumer.poll.timeout.ms": "200",
    }
    bytes_as_they_are = "org.apache.kafka.connect.converters.ByteArrayConverter"
    settings = {
        "bootstrap.servers": pair.backup.bootstrap,
        "key.converter": bytes_as_they_are,
        "value.converter": bytes_as_they_are,
        "header.converter": bytes_as_they_are,
        "offset.storage.file.filename": str(worker / "offsets"),
        "listeners": "http://127.0.0.1:0",
    }
    name = f"{alias}.checkpoints.internal"

    def found() -> dict[str, Checkpoint]:
        topics = (
            AdminClient({"bootstrap.servers": pair.backup.bootstrap}).list_topics(timeout=10).topics
        )
        return {it.group: it for it in checkpoints_in(pair.backup, name)} if name in topics else {}

    running = start_connector(worker, settings, connector)
    try:
        wait_until(lambda: len(found()) == len(groups), seconds=150)
        checkpoints = found()
    finally:
        running.kill()
        running.wait()

    known = routes_of(flow)
    for group, (partition, offset) in groups.items():
        checkpoint = checkpoints[group]
        exact = known[partition].map.translate(offset)
        assert exact is not None
        assert checkpoint.upstream == offset
        assert checkpoint.target == known[partition].target
        assert 0 <= checkpoint.downstream <= exact.offset
        # A group that has read all, or all but the last, reads nothing again.
        if offset >= ends[partition.partition] - 1:
            assert checkpoint.downstream == exact.offset


def routes_of(flow: Flow) -> dict[TopicPartition, Route]:
    """The flow's offset maps."""
    ledger = ledger_of(flow)
    rows = ledger.read().to_pylist()
    copied = [row for row in rows if row["type"] == "transaction"]
    return routes(
        ledger,
        {row["topic"]: row["topic_id"] for row in copied},
        {row["remote_topic"]: row["remote_topic_id"] for row in copied},
    )


def ends_of(flow: Flow, topic: str) -> list[int]:
    """The source offsets up to which the partitions of a topic are copied."""
    return [route.map.end for tp, route in sorted(routes_of(flow).items()) if tp.topic == topic]
