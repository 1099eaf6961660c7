"""Which replica is read from, and one that leads after a reassignment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka.structs import TopicPartition as KafkaTopicPartition

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.copy.source import fetcher
from kafka_ferry.copy.source.read_replicas import ReadReplicas
from kafka_ferry.model import TopicPartition
from kafka_ferry.wire import PendingFetch, WireCluster, send_fetch
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import ended_batches
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.leaders import leaders, reassign
from tests.support.records.builders import create_topic, produce, read_all
from tests.support.records.histories import named
from tests.support.runs.flows import assert_same, copy_now, failures, make_flow, remote, write_flow
from tests.support.runs.pair import Pair, Unique
from tests.support.waiting import wait_until

RACK, REPLICA = "r2", 2
SIZE = 5_000
# Two records and what is around them.
SHORT = 12_000


@pytest.fixture
def backup(three_brokers: Brokers) -> Brokers:
    """Each rack has a broker, and a partition moves to one that has to fetch it."""
    return three_brokers


# With ``client.rack``, records are read from the replica in that rack (KIP-392), or else from the leader


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


# A broker that leaves an aborted transaction out of its list shows its records as committed: none is copied.
# Kafka's own consumers show them. It happens once a replica leads that has fetched several transactions of
# a producer at once, so after any reassignment (``TransactionFates``).


class Writers:
    """Two transactional producers of one partition, and a plain one."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._topic = topic
        config = {"bootstrap.servers": cluster.bootstrap, "log_level": 2}
        self._plain = Producer(config)
        self.one, self.other = (
            Producer(
                {"bootstrap.servers": cluster.bootstrap, "transactional.id": f"{topic}-{name}"}
            )
            for name in ("one", "other")
        )
        for producer in (self.one, self.other):
            producer.init_transactions(30)

    def begin(self, producer: Producer, text: bytes) -> None:
        """Begin a transaction, and write its first record."""
        producer.begin_transaction()
        self._write(producer, text)

    def plain(self, records: int) -> None:
        """Write records outside of transactions."""
        for _ in range(records):
            self._write(self._plain, b"plain")

    def _write(self, producer: Producer, text: bytes) -> None:
        producer.produce(self._topic, text.ljust(SIZE, b"."), partition=0)
        assert producer.flush(30) == 0


def aborted_once(cluster: KafkaCluster, topic: str) -> Writers:
    """Writers of a new topic, of which one has aborted a transaction and begun a second one, at offset 2."""
    create_topic(cluster.bootstrap, topic, 1, 1, min_insync_replicas="1")
    writers = Writers(cluster, topic)
    writers.begin(writers.one, b"aborted first")  # 0, marker 1
    writers.one.abort_transaction(30)
    writers.begin(writers.one, b"aborted second")
    return writers


def move(cluster: KafkaCluster, topic: str) -> None:
    """Give the partition to a broker that has to fetch all of it."""
    (leader, _) = leaders(cluster, topic)[0]
    new = leader % 3 + 1
    assert reassign(cluster, {KafkaTopicPartition(topic, 0): [new]})
    wait_until(lambda: leaders(cluster, topic) == {0: (new, [])})
    # A new leader shows nothing of its log at first.
    wait_until(lambda: bool(listed(cluster, topic, SHORT)))


@contextmanager
def wire(cluster: KafkaCluster) -> Iterator[WireCluster]:
    with WireCluster("source", {"bootstrap_servers": cluster.bootstrap.split(",")}) as opened:
        yield opened


def listed(cluster: KafkaCluster, topic: str, size: int) -> list[int]:
    """The first offsets of the aborted transactions that a broker lists for a response of a size."""
    partition = TopicPartition(topic, 0)
    with wire(cluster) as opened:
        node = opened.leaders([partition])[partition].node
        (answer,) = send_fetch(
            opened, node, {partition: 0}, max_bytes=size, partition_max_bytes=size, max_wait_ms=0
        ).answers()
    return [entry.first_offset for entry in answer.aborted]


@pytest.mark.parametrize("offsets", ["translated", "preserved"])
@pytest.mark.short("translated")
def test_what_was_aborted_is_left_out_whatever_the_broker_lists(pair: Pair, offsets: str) -> None:
    topic = pair.unique("moved")
    writers = aborted_once(pair.backup, topic)
    writers.plain(4)  # 3 to 6
    writers.begin(writers.other, b"committed")  # 7
    writers.one.abort_transaction(30)  # 8
    writers.other.commit_transaction(30)  # 9
    writers.plain(2)  # 10 and 11
    # The answer to an abort may come before its marker.
    wait_until(lambda: listed(pair.backup, topic, SHORT) == [0, 2])
    move(pair.backup, topic)
    # Where the broker lists what it should, the test tests nothing.
    wait_until(lambda: listed(pair.backup, topic, SHORT) == [0])

    flow = make_flow(
        pair.folder, pair.backup, pair.primary, [topic], offsets=offsets, fetch_max_bytes=SHORT
    )
    assert failures(copy_now(flow)) == []

    assert_same(pair.backup, topic, pair.primary, remote(flow, topic))
    (records,) = read_all(pair.primary.bootstrap, remote(flow, topic)).values()
    assert [record.value.rstrip(b".") for record in records] == [
        *[b"plain"] * 4,
        b"committed",
        *[b"plain"] * 2,
    ]


def test_a_marker_that_an_open_transaction_hides_is_found(pair: Pair) -> None:
    topic = pair.unique("hidden")
    writers = aborted_once(pair.backup, topic)
    writers.plain(2)  # 3 and 4
    writers.begin(writers.other, b"open")  # 5
    writers.one.abort_transaction(30)  # 6
    move(pair.backup, topic)
    assert listed(pair.backup, topic, 1_000_000) == [0], "this broker lists what it should"

    flow = make_flow(pair.folder, pair.backup, pair.primary, [topic])
    assert failures(copy_now(flow)) == []
    (records,) = read_all(pair.primary.bootstrap, remote(flow, topic)).values()
    assert [record.value.rstrip(b".") for record in records] == [b"plain"] * 2

    writers.other.commit_transaction(30)
    assert failures(copy_now(flow, "run-2")) == []
    assert_same(pair.backup, topic, pair.primary, remote(flow, topic))


@pytest.mark.long
def test_a_scan_shows_what_was_aborted_as_such(backup: KafkaCluster, unique: Unique) -> None:
    topic = unique("scanned")
    writers = aborted_once(backup, topic)
    writers.begin(writers.other, b"open")  # 3
    writers.one.abort_transaction(30)  # 4
    move(backup, topic)

    partition = TopicPartition(topic, 0)
    with wire(backup) as opened:
        log = partition_log(opened, partition)
        found = [
            (batch.header.base_offset, is_aborted)
            for batch, is_aborted in ended_batches(opened, log, 0)
        ]
    assert found == [(0, True), (1, False), (2, True)]
