"""With ``client.rack``, records are read from the replica in that rack (KIP-392), or else from the leader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.copy.source import fetcher
from kafka_ferry.copy.source.read_replicas import ReadReplicas
from kafka_ferry.wire import PendingFetch, WireCluster
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.leaders import leaders
from tests.support.records.builders import create_topic, produce, read_all
from tests.support.records.histories import named
from tests.support.runs.flows import assert_same, copy_now, failures, make_flow, remote, write_flow
from tests.support.runs.pair import Pair

RACK, REPLICA = "r2", 2


@pytest.fixture
def backup(three_brokers: Brokers) -> Brokers:
    """Each rack has a broker."""
    return three_brokers


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The rack and the broker of each fetch request."""
    sent: list[tuple[str, int]] = []
    send = fetcher.send_fetch

    def send_and_tell(cluster: WireCluster, node: int, *args: Any, **options: Any) -> PendingFetch:
        sent.append((options["rack"], node))
        return send(cluster, node, *args, **options)

    monkeypatch.setattr(fetcher, "send_fetch", send_and_tell)
    return sent


def near(folder: Path, source: KafkaCluster, target: KafkaCluster, topic: str) -> Flow:
    file = write_flow(folder, source, target, [topic], fetch_max_bytes=2_000, writers=1)
    content = json.loads(file.read_text())
    content["source"]["consumer.client.rack"] = RACK
    file.write_text(json.dumps(content))
    return load_flow(file)


def a_topic(cluster: KafkaCluster, name: str, replicas: int) -> str:
    """A topic of three partitions, each led by another broker, each with several fetches of records."""
    create_topic(cluster.bootstrap, name, 3, replicas, min_insync_replicas="1")
    for _ in range(3):
        produce(cluster.bootstrap, name, named("x" * 500, 30))
    assert sorted(leader for leader, _ in leaders(cluster, name).values()) == [1, 2, 3]
    return name


def test_the_replica_in_the_rack_is_read_from(pair: Pair, asked: list[tuple[str, int]]) -> None:
    topic = a_topic(pair.backup, pair.unique("near"), 3)
    flow = near(pair.folder, pair.backup, pair.primary, topic)
    assert failures(copy_now(flow)) == []
    assert_same(pair.backup, topic, pair.primary, remote(flow, topic))
    others = [node for _, node in asked if node != REPLICA]
    # Each of the other leaders names it once, and says what there is at the end.
    assert set(others) == {1, 3}
    assert len(others) <= 6 < asked.count((RACK, REPLICA))


@pytest.mark.parametrize("named", [REPLICA, 9], ids=["has no replica", "does not exist"])
def test_a_named_broker_that_gives_nothing_is_left_for_the_leader(
    pair: Pair, asked: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch, named: int
) -> None:
    topic = a_topic(pair.backup, pair.unique("left"), 1)
    found = ReadReplicas.note_leader

    def found_and_named(replicas: ReadReplicas, *args: Any) -> None:
        found(replicas, *args)
        if not replicas._left_until:
            replicas.note_replica(args[0], named)

    monkeypatch.setattr(ReadReplicas, "note_leader", found_and_named)
    flow = near(pair.folder, pair.backup, pair.primary, topic)
    assert failures(copy_now(flow)) == []
    assert_same(pair.backup, topic, pair.primary, remote(flow, topic))
    assert (RACK, named) in asked
    assert {("", 1), ("", 3)} <= set(asked)


def test_without_a_rack_leaders_are_read_from(pair: Pair, asked: list[tuple[str, int]]) -> None:
    topic = a_topic(pair.backup, pair.unique("leaders"), 3)
    flow = make_flow(pair.folder, pair.backup, pair.primary, [topic])
    assert failures(copy_now(flow)) == []
    assert sum(map(len, read_all(pair.primary.bootstrap, remote(flow, topic)).values())) == 90
    assert {rack for rack, _ in asked} == {""}
    assert {node for _, node in asked} == {1, 2, 3}
