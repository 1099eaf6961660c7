"""Brokers that are far away are read from ahead, and what is copied is the same."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.batches import BatchHeader
from kafka_ferry.copy.source.fetch_pipeline import PendingRequests, SentFetch
from kafka_ferry.model import TopicPartition
from kafka_ferry.wire import borrow
from kafka_ferry.wire.connections.connection import Connection
from kafka_ferry.wire.partitions import read_ahead, scan
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.read_ahead import Depth
from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.network.proxied import ProxiedBroker
from kafka_sandbox.network.proxy import Proxy
from tests.support.records.builders import Record, create_topic, produce
from tests.support.runs.flows import (
    assert_same,
    copy_now,
    copy_planned,
    failures,
    make_flow,
    plan_now,
    remote,
)
from tests.support.runs.pair import Pair, Unique

AHEAD = 4


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[list[str]]]]:
    """What each thread has sent before it waited for an answer, by its name and the cluster's alias."""
    found: dict[str, list[list[str]]] = defaultdict(lambda: [[]])
    send, receive = Connection.send, Connection.receive

    def key(connection: Connection) -> str:
        return f"{threading.current_thread().name} {connection.address.split()[0]}"

    def send_and_tell(connection: Connection, request: Any, **options: Any) -> int:
        found[key(connection)][-1].append(request.name.removesuffix("Request"))
        return send(connection, request, **options)

    def receive_and_tell(connection: Connection) -> Any:
        if found[key(connection)][-1]:
            found[key(connection)].append([])
        return receive(connection)

    monkeypatch.setattr(Connection, "send", send_and_tell)
    monkeypatch.setattr(Connection, "receive", receive_and_tell)
    yield found


def test_a_task_waits_for_no_answer_that_its_next_question_does_not_need(
    pair: Pair, asked: dict[str, list[list[str]]]
) -> None:
    topic = pair.topic("near", partitions=2)
    pair.produce(topic, of_all_sizes(20))
    flow = pair.flow([topic], writers=1)
    plan = plan_now(flow)
    asked.clear()
    assert failures(copy_planned(flow, plan)) == []
    of_writer = asked[f"{threading.current_thread().name} backup"]
    # Positions come with the look at what is open, and go with the ledger's record.
    assert all("DescribeProducers" in sent for sent in of_writer if "OffsetFetch" in sent)
    assert any({"Produce", "TxnOffsetCommit"} <= set(sent) for sent in of_writer)
    # Another thread has found the leaders meanwhile.
    of_reader = asked[f"read-{pair.folder.name} {pair.folder.name}"]
    assert {"Fetch"} <= {name for sent in of_reader for name in sent} <= {"ApiVersions", "Fetch"}


@pytest.fixture
def most_in_flight(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """How many requests a broker had in flight at most, and how many of their offsets were guesses."""
    found = {"requests": 0, "guesses": 0}
    add = PendingRequests.add

    def add_and_tell(pending: PendingRequests, sent: SentFetch) -> None:
        add(pending, sent)
        found["requests"] = max(found["requests"], len(pending.of(sent.fetch.node)))
        found["guesses"] += len(sent.guessed)

    monkeypatch.setattr(PendingRequests, "add", add_and_tell)
    yield found


def of_all_sizes(count: int) -> list[Record]:
    chance = random.Random(7)
    return [
        Record(b"%d" % n, chance.randbytes(chance.choice((10, 500, 5_000, 60_000))))
        for n in range(count)
    ]


def test_over_a_long_link_requests_overtake_their_answers(
    folder: Path, backup: KafkaCluster, most_in_flight: dict[str, int]
) -> None:
    with ProxiedBroker(folder / "far") as far:
        create_topic(far.bootstrap, "one")
        for _ in range(3):
            produce(far.bootstrap, "one", of_all_sizes(400))
        far.proxy.link.delay_s = 0.02
        flow = make_flow(folder, far.proxied, backup, ["one"], fetch_max_bytes=3_000_000)
        (outcome,) = copy_now(flow)
        assert_same(far, "one", backup, remote(flow, "one"))
    assert outcome.failure is None
    waits = outcome.waits
    assert waits.target_round_trip_s < 0.03 < waits.source_round_trip_s
    assert 0 < waits.source_s + waits.target_s <= waits.task_s
    assert " waiting for far (" in waits.text("far", "backup")
    assert most_in_flight["requests"] > 1
    assert most_in_flight["guesses"] > 1


@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_whatever_is_guessed_the_copy_is_the_same(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, most_in_flight: dict[str, int], partitions: int
) -> None:
    topic = pair.topic("guessed", partitions=partitions)
    for transactional_id, abort in (
        (None, False),
        (pair.unique("aborted"), True),
        (pair.unique("done"), False),
    ):
        records = of_all_sizes(400)
        pair.produce(topic, records, transactional_id=transactional_id, abort=abort)
    monkeypatch.setattr(Depth, "request_count", lambda *_: AHEAD)
    flow = pair.flow([topic], fetch_max_bytes=3_000_000, writers=1)
    assert failures(copy_now(flow)) == []
    pair.assert_same(flow, topic)
    assert 1 < most_in_flight["requests"] <= AHEAD


def test_a_log_that_is_scanned_ahead_is_the_same(
    primary: KafkaCluster, unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = unique("scanned")
    create_topic(primary.bootstrap, topic)
    produce(primary.bootstrap, topic, of_all_sizes(300))
    produce(
        primary.bootstrap, topic, of_all_sizes(300), transactional_id=unique("gone"), abort=True
    )
    produce(primary.bootstrap, topic, of_all_sizes(300))
    partition = TopicPartition(topic, 0)

    def scanned() -> tuple[list[BatchHeader], list[BatchHeader]]:
        with borrow("near", {"bootstrap_servers": primary.bootstrap.split(",")}) as cluster:
            log = partition_log(cluster, partition)
            committed = scan.committed_batches(cluster, log, 0, max_bytes=3_000_000)
            stored = scan.stored_batches(cluster, log, 0, log.end, max_bytes=3_000_000)
            return [it.header for it in committed], [it.header for it in stored]

    one_by_one = scanned()
    monkeypatch.setattr(read_ahead, "NEAR_S", 0.0)
    monkeypatch.setattr(Depth, "request_count", lambda *_: AHEAD)
    sent = []
    send = read_ahead.send_fetch
    monkeypatch.setattr(
        read_ahead,
        "send_fetch",
        lambda *args, **options: sent.append(args) or send(*args, **options),
    )
    assert scanned() == one_by_one
    assert len(sent) > 1
    assert sum(header.records for header in one_by_one[0]) == 600


@pytest.mark.long
def test_over_a_link_that_is_slow_stalls_and_breaks_nothing_fails(
    folder: Path, backup: KafkaCluster
) -> None:
    ended, faults = threading.Event(), 0

    def break_it(proxy: Proxy) -> None:
        nonlocal faults
        chance = random.Random(11)
        while not ended.wait(chance.uniform(2, 4)):
            if faults % 2:
                proxy.stall(chance.uniform(0.2, 2))
            else:
                proxy.refuse(chance.uniform(0.5, 2))
            faults += 1

    with ProxiedBroker(folder / "far") as far:
        create_topic(far.bootstrap, "slow", 2)
        produce(far.bootstrap, "slow", of_all_sizes(1_000))
        far.proxy.link.delay_s, far.proxy.link.bytes_per_s = 0.02, 2_000_000
        flow = make_flow(
            folder, far.proxied, backup, ["slow"], fetch_max_bytes=1_000_000, writers=2
        )
        plan = plan_now(flow)
        breaking = threading.Thread(target=break_it, args=(far.proxy,))
        breaking.start()
        try:
            assert failures(copy_planned(flow, plan)) == []
        finally:
            ended.set()
            breaking.join()
            far.proxy.heal()
        assert_same(far, "slow", backup, remote(flow, "slow"))
    assert faults > 1
