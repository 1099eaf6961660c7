"""What ``ferry lag`` says of partitions that it cannot ask for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_ferry.clock import moment_text, now_ms
from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import VerificationFailed
from kafka_ferry.ledger import ledger_topic
from kafka_ferry.report.measures import VerifiedUntil
from kafka_ferry.runs import Run
from kafka_ferry.runs.publish.lag import last_complete
from kafka_ferry.runs.state.flow_state import flow_ledger, flow_state
from kafka_ferry.runs.state.run_folder import RunFolder
from kafka_sandbox.broker import Broker
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.everywhere import wait_for_topic
from tests.support.brokers.leaders import leaders
from tests.support.brokers.segments import broker_down, cut_log
from tests.support.records.builders import Record, create_topic, delete_topic, produce
from tests.support.runs.command_line import ferry
from tests.support.runs.flows import copy_now, copy_planned, failures, make_flow, remote
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.proof import NO_SPARK, report_of
from tests.support.waiting import wait_until


@pytest.fixture
def source(folder: Path) -> Iterator[Brokers]:
    """Brokers of their own, since one is stopped."""
    cluster = Brokers(folder / "source")
    try:
        yield cluster.start().wait_ready()
    finally:
        cluster.wipe()


@pytest.mark.long
def test_a_partition_without_a_leader_is_an_error_and_counts_for_the_age_of_the_copy(
    folder: Path, source: Brokers, backup: KafkaCluster, unique: Unique
) -> None:
    topic = unique("alone")
    client = AdminClient({"bootstrap.servers": source.bootstrap})
    new = NewTopic(topic, 2, replica_assignment=[[1], [3]])
    client.create_topics([new])[topic].result()
    wait_for_topic(source.bootstrap, topic, 2)
    flow = make_flow(folder, source, backup, [topic])
    for partition in range(2):
        produce(source.bootstrap, topic, [Record(value=b"x", partition=partition)])
    assert failures(copy_now(flow)) == []
    there, proved = remote(flow, topic), now_ms() - 60_000
    until = VerifiedUntil(proved, {f"{there}-0": now_ms(), f"{there}-1": proved})
    RunFolder(flow_state(flow).folder("runs"), "").save_verified_until(until)

    source.brokers[3].stop()
    wait_until(lambda: leaders(source, topic)[1][0] < 0)
    done = ferry("lag", "--config", flow.file)

    assert done.returncode == 3
    assert done.stdout.startswith(f"Complete until {moment_text(proved)} (")
    assert "; 0 offsets behind, and unknown in 1 partition." in done.stdout
    assert f"{topic} on {flow.source.alias}: partition 1 has no leader, and how far" in done.stderr
    rows = json.loads(ferry("lag", "--config", flow.file, "--json").stdout)
    assert [(it["log_end"], it["lag"], it["position"]) for it in rows] == [
        (1, 0, 1),
        (None, None, 1),
    ]
    assert rows[1]["complete_until"] == proved


def test_a_partition_that_was_copied_and_that_the_source_does_not_list_is_an_error(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a broker that is behind its controller."""
    topic = pair.topic("listed", [Record(value=b"x", partition=n) for n in (0, 1)], partitions=2)
    flow = pair.flow([topic])
    copy_now(flow)
    readable_topics = ClusterControl.readable_topics

    def behind(self: ClusterControl, *args: Any, **more: Any) -> Any:
        topics, refused = readable_topics(self, *args, **more)
        shorter = {topic: replace(topics[topic], partitions=1)} if topic in topics else {}
        return topics | shorter, refused

    monkeypatch.setattr(ClusterControl, "readable_topics", behind)
    done = ferry("lag", "--config", flow.file)

    assert done.returncode == 3
    assert "; 0 offsets behind, and unknown in 1 partition." in done.stdout
    assert f"{topic} on {flow.source.alias}: partition 1 has no leader, and how far" in done.stderr


def test_a_copy_is_as_old_as_its_proof_only_while_the_target_knows_of_it(pair: Pair) -> None:
    # Of two partitions one never has a record, and no run proves it: it counts for nothing.
    records = [Record(value=b"x", partition=0)] * 3
    kept, deleted = (pair.topic(name, records, partitions=2) for name in ("kept", "deleted"))
    flow = pair.flow([kept, deleted])
    copy_now(flow)
    copies, proved = [remote(flow, kept), remote(flow, deleted)], now_ms()
    until = VerifiedUntil(proved, {f"{copy}-0": proved for copy in copies})
    RunFolder(flow_state(flow).folder("runs"), "").save_verified_until(until)
    delete_topic(pair.primary, deleted)

    done = ferry("lag", "--config", flow.file)
    assert done.stdout.startswith(f"Complete until {moment_text(proved)} (")
    assert " ago); 0 offsets behind." in done.stdout
    assert f"does not have {deleted} any more" in done.stderr
    assert done.returncode == 0

    for topic in (*copies, ledger_topic(flow.source.alias)):
        delete_topic(pair.backup, topic)
    done = ferry("lag", "--config", flow.file)
    assert done.stdout.startswith("Nothing is proved complete yet; 3 offsets behind.")
    assert f"has no position of {kept}, of which the state folder has a proof" in done.stderr


def test_a_target_that_was_restored_from_a_backup_is_as_old_as_the_backup(pair: Pair) -> None:
    topic = pair.topic("restored", [Record(value=b"x")] * 3)
    flow = pair.flow([topic])
    copy_now(flow)
    there, proved = f"{remote(flow, topic)}-0", now_ms()
    folder = RunFolder(flow_state(flow).folder("runs"), "")

    folder.save_verified_until(VerifiedUntil(proved, {there: proved}, {there: 3}))
    done = ferry("lag", "--config", flow.file, "--short")
    assert done.stdout.startswith(f"Complete until {moment_text(proved)} (")
    assert "complete until" in last_complete(flow, flow_ledger(flow))
    # The run that has proved two offsets more is one that the target does not know.
    folder.save_verified_until(VerifiedUntil(proved, {there: proved}, {there: 5}))
    done = ferry("lag", "--config", flow.file, "--short")
    assert done.stdout == "Nothing is proved complete yet; 0 offsets behind.\n"
    assert "complete until" not in last_complete(flow, flow_ledger(flow))


def test_what_a_truncated_source_has_in_the_place_of_what_was_copied_is_not_called_copied(
    folder: Path, backup: KafkaCluster, unique: Unique
) -> None:
    topic, source = unique("cut"), Broker(folder / "cut")
    try:
        source.start().wait_ready()
        create_topic(source.bootstrap, topic)
        for value in (b"kept", b"lost"):
            produce(source.bootstrap, topic, [Record(value=value)] * 3)
        flow = make_flow(folder, source, backup, [topic], on_source_divergence="continue")
        assert failures(copy_now(flow)) == []
        with broker_down(source):
            cut_log(source, topic, 3)
        produce(source.bootstrap, topic, [Record(value=b"new")] * 3)

        done = ferry("lag", "--config", flow.file)
        assert "; 3 offsets behind." in done.stdout
        assert f"The log of {topic} on {flow.source.alias} was truncated below" in done.stderr
        assert (_is_replaced(flow, topic, 2), _is_replaced(flow, topic, 3)) == ([False], [True])

        copy_now(flow, "second")
        done = ferry("lag", "--config", flow.file)
        assert ("; 0 offsets behind." in done.stdout, done.stderr) == (True, "")
        assert _is_replaced(flow, topic, 3) == [True, False]
    finally:
        source.wipe()


def test_a_copy_whose_log_was_truncated_is_not_called_complete(
    folder: Path, primary: KafkaCluster, unique: Unique
) -> None:
    topic, target = unique("copied"), Broker(folder / "target")
    try:
        target.start().wait_ready()
        create_topic(primary.bootstrap, topic)
        for value in (b"kept", b"lost"):
            produce(primary.bootstrap, topic, [Record(value=value)] * 3)
        flow = make_flow(folder, primary, target, [topic], join_batches_below="0")
        assert failures(copy_now(flow)) == []
        there, proved = f"{remote(flow, topic)}-0", now_ms()
        until = VerifiedUntil(proved, {there: proved}, {there: 6})
        RunFolder(flow_state(flow).folder("runs"), "").save_verified_until(until)
        done = ferry("lag", "--config", flow.file, "--short")
        assert (done.stdout.startswith("Complete until"), done.stderr) == (True, "")
        assert "complete until" in last_complete(flow, flow_ledger(flow))
        with broker_down(target):
            cut_log(target, remote(flow, topic), 3)

        done = ferry("lag", "--config", flow.file, "--short")
        assert done.stdout == "Nothing is proved complete yet; 6 offsets behind.\n"
        assert f"The copy of {topic} on {flow.target.alias} has lost records" in done.stderr
        lost = f"{flow.target.alias} has lost records of {there} since. How many"
        assert last_complete(flow, flow_ledger(flow)).startswith(lost)
        delete_topic(target, remote(flow, topic))
        assert last_complete(flow, flow_ledger(flow)).startswith(lost)
    finally:
        target.wipe()


def _is_replaced(flow: Flow, topic: str, offset: int) -> list[bool]:
    """Of each place of a source offset, whether it is that of another record than the source has there."""
    place = ["--topic", topic, "--partition", "0", "--offset", str(offset)]
    shown = ferry("where", "--config", flow.file, *place).stdout.split("on the target:")[1:]
    return ["its log was truncated" in it for it in shown]


def test_a_flow_whose_topics_are_all_gone_has_no_age(pair: Pair) -> None:
    topic = pair.topic("only", [Record(value=b"x")])
    flow = pair.flow([topic])
    copy_now(flow)
    delete_topic(pair.primary, topic)
    done = ferry("lag", "--config", flow.file)
    assert done.stdout == f"{flow.source.alias} has no topic that {flow.name} copies.\n", done
    assert f"does not have {topic} any more" in done.stderr


@pytest.mark.usefixtures("without_spark")
def test_what_the_last_run_refused_or_only_began_is_told_where_the_source_is_away(
    pair: Pair,
) -> None:
    whole, refused = pair.topic("whole", [Record(value=b"x")]), pair.topic("refused")
    large = pair.topic("large", [Record(value=b"L" * 20_000)], max_message_bytes="2000000")
    flow = pair.flow([whole, refused, large])
    for topic, configs in ((refused, {}), (large, {"max_message_bytes": "10000"})):
        create_topic(pair.backup.bootstrap, remote(flow, topic), **configs)
    produce(pair.backup.bootstrap, remote(flow, refused), [Record(value=b"foreign")])

    run = Run(flow, "run-1")
    run.plan()
    assert len(failures(copy_planned(flow, run.sync_topics()))) == 1
    with suppress(VerificationFailed):
        run.verify(NO_SPARK)
    report_of(flow, "run-1")

    said = last_complete(flow, flow_ledger(flow))
    assert "ago), but for 1 partition. It refused " in said
    assert refused in said
