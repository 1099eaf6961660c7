"""Leaders and coordinators of the target move while a copy writes: each record is there, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kafka_ferry.copy.target.transaction import Transaction
from kafka_sandbox.broker import QUICK_CLEANER
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import KafkaCluster, start_all
from tests.support.brokers.leaders import move_leaders
from tests.support.records.builders import Record, create_topic, produce
from tests.support.records.offsets import assert_same_offsets, read_offsets
from tests.support.runs.flows import (
    assert_same,
    copy_planned,
    failures,
    make_flow,
    plan_now,
    remote,
)

TRANSACTIONS = 1000
# A writer that has to take over begins to write after some two seconds, on a busy machine after five.
PAUSE_S = 10.0


@pytest.fixture
def target(folder: Path) -> Iterator[Brokers]:
    target = Brokers(folder / "target", config=QUICK_CLEANER)
    try:
        start_all([target])
        yield target
    finally:
        target.wipe()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_gaps_that_transactions_fill_while_leaders_move_are_filled_or_named(
    folder: Path, primary: KafkaCluster, target: Brokers, unique: Callable[[str], str]
) -> None:
    """What control records fill is safe from that: a storm moves leaders too."""
    topic = unique("gaps")
    create_topic(primary.bootstrap, topic)
    commit_one_by_one(primary, topic)
    flow = make_flow(folder, primary, target, [topic], offsets="preserved", fill="transactions")
    with ThreadPoolExecutor(1) as pool:
        copy = pool.submit(copy_planned, flow, plan_now(flow))
        moved = 0
        while wait([copy], PAUSE_S if moved else 1.0).not_done:
            move_leaders(target, remote(flow, topic))
            moved += 1
    assert moved, "the copy ended before a leader moved"
    if not (said := failures(copy.result())):
        assert_same_offsets(primary, topic, target, remote(flow, topic))
        return
    # Kafka has ended a transaction twice: the partition stops, and no record is at another's offset.
    assert topic in said[0]
    (source,), (target_shows,) = (
        read_offsets(cluster, name).values()
        for cluster, name in ((primary, topic), (target, remote(flow, topic)))
    )
    assert {at: record.value for at, record in target_shows.items()}.items() <= {
        at: record.value for at, record in source.items()
    }.items()


def commit_one_by_one(source: KafkaCluster, topic: str) -> None:
    """Write records in a transaction each, so that every second offset is a gap."""
    producer = Producer({"bootstrap.servers": source.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for number in range(TRANSACTIONS):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        producer.commit_transaction()


@pytest.mark.long
def test_positions_of_a_former_coordinator_are_read_again(
    folder: Path,
    primary: KafkaCluster,
    target: Brokers,
    unique: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = unique("moved")
    create_topic(primary.bootstrap, topic)
    produce(primary.bootstrap, topic, [Record(value=b"%d" % number) for number in range(10)])
    flow = make_flow(folder, primary, target, [topic])
    commit, moves = Transaction._commit_offsets, []

    def commit_elsewhere(transaction: Transaction, positions: Any) -> Any:
        if not moves:
            moves.append(positions)
            move_leaders(target, "__consumer_offsets")
        return commit(transaction, positions)

    monkeypatch.setattr(Transaction, "_commit_offsets", commit_elsewhere)

    assert failures(copy_planned(flow, plan_now(flow))) == []

    assert "has another coordinator" in caplog.text
    assert_same(primary, topic, target, remote(flow, topic))
