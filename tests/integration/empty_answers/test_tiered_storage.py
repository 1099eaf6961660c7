"""Sources and targets with tiered storage (KIP-405) that is slow, fails, or is over its quota."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafka_ferry.model import TopicPartition
from kafka_ferry.retry import retry_for
from kafka_ferry.runs import lag
from kafka_ferry.wire import borrow
from kafka_ferry.wire.partitions.absence import Unanswered
from kafka_ferry.wire.partitions.scan import committed_values
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.empty_answers import empty_answers
from tests.support.brokers.tiered import TieredBroker, local_start, tiered_lots, tiered_topic
from tests.support.records.builders import Record, create_topic, produce
from tests.support.runs.flows import (
    assert_same,
    copy_now,
    copy_planned,
    failures,
    ledger_rows,
    make_flow,
    plan_now,
    remote,
)
from tests.support.runs.pair import Unique

pytestmark = pytest.mark.long
RECORDS = [Record(b"%d" % number, b"x" * 100) for number in range(3_000)]


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredBroker]:
    broker = TieredBroker(
        tmp_path_factory.mktemp("tiered"),
        {
            "remote.log.manager.fetch.max.bytes.per.second": "100000",
            "remote.log.manager.fetch.quota.window.num": "3",
        },
    )
    broker.start()
    try:
        yield broker.wait_ready()
    finally:
        broker.wipe()


@pytest.mark.parametrize("fault", ["slow", "failing"])
def test_remote_storage_that_gives_nothing_fails_by_name_and_then_is_copied_whole(
    tiered: TieredBroker, backup: KafkaCluster, folder: Path, unique: Unique, fault: str
) -> None:
    topic = unique(fault)
    local = tiered_topic(tiered, topic, RECORDS)
    assert local > 1_000
    flow = make_flow(folder, tiered, backup, [topic], partition_wait_ms=3_000)
    plan = plan_now(flow)
    with getattr(tiered, fault)():
        outcomes = copy_planned(flow, plan)
    (failure,) = [it.failure for it in outcomes if it.failure]
    assert failure.transient
    assert failure.offset == 0
    assert ("remote storage, which alone has those" in failure.message) is (fault == "slow")
    # Its storage recovers while it is read, and is over its quota after each answer.
    flow = make_flow(folder, tiered, backup, [topic])
    with ExitStack() as recovers:
        recovers.enter_context(getattr(tiered, fault)())
        threading.Timer(1.5, recovers.pop_all().close).start()
        assert failures(copy_now(flow, "run-2")) == []
    assert_same(tiered, topic, backup, remote(flow, topic))


def test_a_remote_read_has_more_time_than_a_partition_without_a_leader(
    tiered: TieredBroker, backup: KafkaCluster, folder: Path, unique: Unique
) -> None:
    """Each of them takes the broker's quota for some seconds, while the others wait for longer than their time."""
    topics = [unique(name) for name in "abcde"]
    for topic in topics:
        tiered_topic(tiered, topic, RECORDS)
    flow = make_flow(folder, tiered, backup, topics, writers=1, partition_wait_ms=2_000)
    assert failures(copy_now(flow)) == []
    for topic in topics:
        assert_same(tiered, topic, backup, remote(flow, topic))


def test_a_reader_of_slow_remote_storage_concludes_nothing(
    tiered: TieredBroker, unique: Unique
) -> None:
    topic = unique("read")
    tiered_topic(tiered, topic, RECORDS)
    with borrow("tiered", {"bootstrap_servers": [tiered.bootstrap]}) as cluster:
        partition = TopicPartition(topic, 0)
        with tiered.slow(), retry_for(0.5), pytest.raises(Unanswered, match=topic):
            list(committed_values(cluster, partition, 0))
        assert len(list(committed_values(cluster, partition, 0))) == len(RECORDS)


def test_plan_and_lag_say_how_much_is_read_from_remote_storage(
    tiered: TieredBroker, backup: KafkaCluster, folder: Path, unique: Unique
) -> None:
    topic, plain = unique("told"), unique("plain")
    tiered_topic(tiered, topic, RECORDS)
    create_topic(tiered.bootstrap, plain)
    produce(tiered.bootstrap, plain, RECORDS)
    flow = make_flow(folder, tiered, backup, [topic, plain])
    # The broker goes on to delete what is in remote storage too.
    before = local_start(tiered, topic)
    plan = plan_now(flow)
    remote_by_topic = {row.topic: row.remote for row in lag(flow)}
    counts = range(before, local_start(tiered, topic) + 1)
    (note,) = [note for note in plan.remarks.notes if note.topic in (topic, plain)]
    assert note.topic == topic
    assert note.message in {
        f"~{count:,} offsets to copy are read from the source's remote storage." for count in counts
    }
    assert remote_by_topic[plain] == 0
    assert remote_by_topic[topic] in counts
    assert failures(copy_planned(flow, plan)) == []
    assert {row.topic: row.remote for row in lag(flow)} == {topic: 0, plain: 0}


def test_a_segment_that_remote_storage_has_only_in_part_is_waited_for_and_no_gap(
    tiered: TieredBroker, backup: KafkaCluster, folder: Path, unique: Unique
) -> None:
    """The broker passes over what it cannot read, and answers with what follows."""
    topic = unique("short")
    segments = tiered_lots(tiered, topic)
    log = segments[len(segments) // 2]
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole) // 2])
    flows = {
        policy: make_flow(
            *(folder.with_name(f"{folder.name}-{policy}"), tiered, backup, [topic]),
            partition_wait_ms=500,
            on_source_truncation=policy,
        )
        for policy in ("fail", "continue")
    }
    strict = flows["fail"]
    # Each answer is empty at first: then another request asks what follows.
    with empty_answers(topic, lambda number: number % 3 == 0):
        (outcome,) = copy_planned(strict, plan_now(strict))
    assert outcome.failure
    assert outcome.failure.transient
    gives_nothing = "remote storage gives nothing of the offsets"
    assert gives_nothing in outcome.failure.message
    with (
        borrow("tiered", {"bootstrap_servers": [tiered.bootstrap]}) as cluster,
        retry_for(0.5),
        pytest.raises(Unanswered, match=gives_nothing),
    ):
        list(committed_values(cluster, TopicPartition(topic, 0), 0))
    assert failures(copy_now(flows["continue"])) == []
    (lost,) = [row["lost"] for row in ledger_rows(flows["continue"]) if row["lost"]]
    assert [span["start"] for span in lost] == [outcome.failure.offset]

    log.write_bytes(whole)
    assert failures(copy_now(strict, "run-2")) == []
    assert_same(tiered, topic, backup, remote(strict, topic))
