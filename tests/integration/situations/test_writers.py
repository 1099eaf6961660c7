"""A writer is killed, fenced or started twice: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kafka_ferry.batches import AbortFilter, converted_batches
from kafka_ferry.config import Flow, kafka_python_config
from kafka_ferry.control import read_positions
from kafka_ferry.copy import fence_writers, restore_positions
from kafka_ferry.copy.target.transactional_writer import TransactionalWriter, translated_writer
from kafka_ferry.copy.target.writer import StartOver
from kafka_ferry.copy.target.writer_settings import WriterSettings
from kafka_ferry.errors import Fenced
from kafka_ferry.ledger import OwnershipEntry, append_entry
from kafka_ferry.model import Range
from kafka_ferry.plan.schedule.sharding import writers_of
from kafka_ferry.runs import Run
from kafka_ferry.runs.mirror.mirror import Copying
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.runs.takeover.hand_back import hand_back
from kafka_ferry.wire import WireCluster, connect, fetch
from kafka_ferry.wire.transactions.endings import learn_ending
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import Record, create_topic, produce
from tests.support.runs.flows import (
    assert_same,
    copy_now,
    failures,
    ledger_of,
    ledger_rows,
    make_flow,
    plan_now,
    remote,
)
from tests.support.runs.pair import Pair, Unique
from tests.support.waiting import wait_until

# Each is forked from one that has imported what it needs.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])


@pytest.fixture
def planned(pair: Pair) -> tuple[Flow, Range]:
    """A flow of one partition with 60 records in three batches, planned and its topics made."""
    topic = pair.topic("planned")
    for number in range(3):
        pair.produce(topic, [Record(value=b"%d-%d" % (number, i)) for i in range(20)])
    flow = pair.flow([topic])
    run = Run(flow, "run-1")
    run.plan()
    (range_,) = run.sync_topics().ranges
    return flow, range_


def writer_of(flow: Flow, range_: Range, run: str) -> TransactionalWriter:
    return translated_writer(WriterSettings.of(flow, run, range_.writer))


def write_all(writer: TransactionalWriter, flow: Flow, range_: Range) -> None:
    """Read the range from the source and hand it to the writer, uncommitted."""
    settings = kafka_python_config(flow.source.client_properties("consumer"))
    with WireCluster("source", settings) as cluster:
        node = cluster.leaders([range_.source])[range_.source].node
        (got,) = fetch(
            cluster, node, {range_.source: 0}, max_bytes=1 << 20, partition_max_bytes=1 << 20
        )
    for converted in converted_batches(
        got.records, AbortFilter(got.aborted), range_.start, range_.end
    ):
        writer.write(range_, converted)
    writer.send()


def test_a_writer_that_was_taken_over_cannot_commit(
    pair: Pair, planned: tuple[Flow, Range]
) -> None:
    flow, range_ = planned
    old, new = writer_of(flow, range_, "run-1"), writer_of(flow, range_, "run-2")
    assert old.take_over([range_]) == {}
    write_all(old, flow, range_)

    assert new.take_over([range_]) == {}
    with pytest.raises(Fenced):
        old.commit()
    with pytest.raises(Fenced):
        old.take_over([range_])
    write_all(new, flow, range_)
    assert new.commit() == {range_.source: 60}

    assert_same(pair.primary, range_.topic, pair.backup, range_.remote_topic)
    assert [row["run"] for row in ledger_rows(flow)] == ["run-2"]
    old.close()
    new.close()


@pytest.mark.long
def test_a_writer_whose_transaction_has_timed_out_goes_on_and_does_not_blame_another_run(
    pair: Pair, planned: tuple[Flow, Range]
) -> None:
    """As one does whose process was suspended. Coordinators look for such transactions every ten seconds."""
    flow, range_ = planned
    settings = WriterSettings.of(flow, "run-1", range_.writer)
    writer = translated_writer(replace(settings, timeout_ms=1_000))
    writer.take_over([range_])
    write_all(writer, flow, range_)
    name = writer._transaction.producer.transactional_id
    with connect(flow.target) as cluster:
        wait_until(lambda: learn_ending(cluster, name).partitions == frozenset(), 60)

    with pytest.raises(StartOver, match="it was open for longer than 1000 ms"):
        writer.commit()
    assert writer.take_over([range_]) == {}
    write_all(writer, flow, range_)
    assert writer.commit() == {range_.source: 60}
    writer.close()
    assert_same(pair.primary, range_.topic, pair.backup, range_.remote_topic)


def test_what_was_committed_before_the_takeover_is_where_the_next_one_goes_on(
    pair: Pair, planned: tuple[Flow, Range]
) -> None:
    flow, range_ = planned
    old, new = writer_of(flow, range_, "run-1"), writer_of(flow, range_, "run-2")
    old.take_over([range_])
    write_all(old, flow, range_)
    old.commit()

    position = new.take_over([range_])[range_.source]

    assert (position.offset, position.topic_id) == (60, range_.topic_id)
    assert_same(pair.primary, range_.topic, pair.backup, range_.remote_topic)
    old.close()
    new.close()


def test_fencing_all_writers_stops_each_of_them(planned: tuple[Flow, Range]) -> None:
    flow, range_ = planned
    writer = writer_of(flow, range_, "run-1")
    writer.take_over([range_])
    write_all(writer, flow, range_)

    fence_writers(flow, flow.writers)

    with pytest.raises(Fenced):
        writer.commit()
    writer.close()


def begin(flow: Flow, run: str) -> None:
    """Plan a run and write its beginning to the ledger, without copying."""
    plan = plan_now(flow, run)
    context = RunContext.of(flow, run)
    context.project_ledger()
    Copying(context).begin(plan)


def with_other_writers(flow: Flow, range_: Range) -> Flow:
    """``flow`` with so many writers that the range's partition belongs to another one."""
    others = (flow.model_copy(update={"writers": count}) for count in range(1, 64))
    return next(it for it in others if writers_of(it).of(range_.target) != range_.writer)


def test_a_late_task_of_a_run_with_other_writers_writes_nothing(
    planned: tuple[Flow, Range],
) -> None:
    flow, range_ = planned
    begin(flow, "run-1")
    begin(with_other_writers(flow, range_), "run-2")
    late = writer_of(flow, range_, "run-1")
    with pytest.raises(Fenced, match=r"run-2 .* with other writers"):
        late.take_over([range_])
    late.close()


def test_a_late_task_writes_nothing_once_its_topic_was_given_back(
    planned: tuple[Flow, Range],
) -> None:
    flow, range_ = planned
    begin(flow, "run-1")
    assert failures(copy_now(flow)) == []
    hand_back(flow)
    late = writer_of(flow, range_, "run-1")
    with pytest.raises(Fenced, match=f"has given {range_.remote_topic} back to MirrorMaker 2"):
        late.take_over([range_])
    late.close()


def test_what_a_late_task_commits_while_its_topic_is_given_back_is_given_back_too(
    planned: tuple[Flow, Range], monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, range_ = planned
    begin(flow, "run-1")
    late = writer_of(flow, range_, "run-1")

    def append(flow: Flow, entry: OwnershipEntry) -> None:
        assert late.take_over([range_]) == {}
        write_all(late, flow, range_)
        assert late.commit() == {range_.source: 60}
        append_entry(flow, entry)

    monkeypatch.setattr("kafka_ferry.runs.takeover.hand_back.append_entry", append)
    (topic,) = hand_back(flow)

    assert topic.state == "given back"
    assert [part.end for part in topic.partitions] == [60]
    with pytest.raises(Fenced):
        write_all(late, flow, range_)
    late.close()


def test_positions_that_the_group_has_lost_are_committed_again_as_the_ledger_has_them(
    planned: tuple[Flow, Range], backup: KafkaCluster
) -> None:
    flow, range_ = planned
    assert failures(copy_now(flow)) == []
    group = f"ferry.{flow.name}"
    client = AdminClient({"bootstrap.servers": backup.bootstrap})
    client.delete_consumer_groups([group])[group].result()
    known = ledger_of(flow).positions()

    fence_writers(flow, flow.writers)
    restore_positions(flow, "run-2", known)

    (position,) = read_positions(flow.target, flow.name).values()
    found = known[range_.target]
    assert (position.offset, position.leader_epoch) == (60, found.leader_epoch)
    assert (position.topic_id, position.remote_topic_id) == (found.topic_id, found.remote_topic_id)


@pytest.mark.long
def test_a_broker_killed_in_mid_copy_delays_the_copy_and_changes_nothing(
    folder: Path, unique: Unique
) -> None:
    topic = unique("broker-killed")
    with Broker(folder / "source") as source, Broker(folder / "target") as target:
        create_topic(source.bootstrap, topic, partitions=4)
        for number in range(30):
            records = [Record(key=b"%d" % i, value=b"%d" % number * 200) for i in range(50)]
            transactional_id = topic if number % 2 else None
            produce(source.bootstrap, topic, records, transactional_id=transactional_id)
        flow = make_flow(
            folder, source, target, [topic], transaction_max_bytes=20_000, fetch_max_bytes=8_000
        )
        with ThreadPoolExecutor() as pool:
            copying = pool.submit(copy_now, flow)
            while not any(p.offset for p in read_positions(flow.target, flow.name).values()):
                assert not copying.done(), copying.result()
                time.sleep(0.005)
            target.kill()
            target.restart()
            outcomes = copying.result()

        assert failures(outcomes) == []
        assert_same(source, topic, target, remote(flow, topic))
