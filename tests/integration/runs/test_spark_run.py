"""A whole run, as `ferry run` and Airflow's tasks do it: Spark copies and recounts, GX judges."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.control import read_positions
from kafka_ferry.errors import SparkFailed, SparkNeeded, VerificationFailed
from kafka_ferry.ledger import LedgerRange, ledger_topic
from kafka_ferry.model.results.failures import RangesFailed
from kafka_ferry.runs import Run
from kafka_ferry.runs.verify import due
from kafka_ferry.spark.checkpoint import QueryCheckpoint, StartRanges
from kafka_ferry.spark.session import SparkSource, no_spark, terminal_spark
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import (
    Record,
    create_topic,
    delete_before,
    produce,
    read_all,
    set_config,
)
from tests.support.records.histories import named
from tests.support.runs.flows import ledger_rows, remote, write_flow
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.proof import run_all

SECRET = b"not-for-anybodys-eyes"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSource]:
    with terminal_spark("tests") as spark:
        yield spark


def fill(broker: KafkaCluster, topic: str, mark: bytes) -> None:
    produce(broker.bootstrap, topic, [Record(key=b"%d" % i, value=mark) for i in range(200)])
    produce(
        broker.bootstrap,
        topic,
        [Record(key=b"%d" % i, value=mark + b" aborted") for i in range(50)],
        transactional_id=topic,
        abort=True,
    )


def test_runs_copy_what_is_new_and_prove_it_even_when_the_checkpoint_is_gone(
    pair: Pair, spark: SparkSource
) -> None:
    topic = pair.topic("orders", partitions=3)
    flow = pair.flow([topic])
    state = Path(flow.state_path) / flow.slug

    fill(pair.primary, topic, b"first")
    first = run_all(flow, "run-1", spark).report()
    fill(pair.primary, topic, b"second")
    shutil.rmtree(state / "checkpoint")
    second = run_all(flow, "run-2", spark).report()
    shutil.rmtree(state)
    fill(pair.primary, topic, b"third")
    third = run_all(flow, "run-3", spark).report()
    idle = run_all(flow, "run-4", spark).report()

    assert first and second and third and idle
    assert [report.counts.records for report in (first, second, third, idle)] == [200, 200, 200, 0]
    assert {report.state for report in (first, second, third, idle)} == {"verified"}
    assert second.counts.reasons["aborted"] == 50
    pair.assert_same(flow, topic)
    # The verification of the first two runs is in the ledger, and need not be done again.
    assert {row.ledger.run for row in third.proof.ranges} == {"run-3"}


@pytest.mark.long
def test_a_state_folder_that_was_moved_is_used_where_it_is(pair: Pair, spark: SparkSource) -> None:
    topic = pair.topic("moved", named("first", 20))
    flow = pair.flow([topic])
    run_all(flow, "run-1", spark)
    before = flow.state_path
    elsewhere = f"{before} elsewhere"
    shutil.move(before, elsewhere)
    moved = flow.model_copy(update={"state_dir": elsewhere})
    pair.produce(topic, named("second", 10))

    report = run_all(moved, "run-2", spark).report()

    assert report
    assert (report.state, report.counts.records) == ("verified", 10)
    (note,) = [note for note in report.topics.notes if "checkpoint" in note]
    assert f"{before}/{flow.slug}/checkpoint" in note
    pair.assert_same(moved, topic)
    pair.produce(topic, named("third", 5))
    report = run_all(moved, "run-3", spark).report()
    assert report
    assert (report.counts.records, report.topics.notes) == (5, ())


def test_a_micro_batch_that_spark_replays_copies_nothing_twice_and_nothing_that_is_not_planned(
    pair: Pair, spark: SparkSource
) -> None:
    topic, elsewhere = pair.unique("replayed"), pair.unique("elsewhere")
    create_topic(pair.primary.bootstrap, topic, partitions=2)
    create_topic(pair.backup.bootstrap, elsewhere, partitions=2)
    fill(pair.primary, topic, b"a")
    flow = pair.flow([topic])
    run_all(flow, "run-1", spark)
    checkpoint = Path(flow.state_path) / flow.slug / "checkpoint"
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink()
    (file,) = (checkpoint / "ranges").iterdir()
    given = json.loads(file.read_text())
    # The first micro-batch has what was planned, and the next one what was put there since.
    forged = [it | {"remote_topic": elsewhere, "start": 0} for it in given["ranges"]]
    later = given | {"attempt": "forged", "at": given["at"] + 1, "ranges": forged}
    (checkpoint / "ranges" / "forged.json").write_text(json.dumps(later))
    (checkpoint / "ranges" / "torn.json").write_text(file.read_text()[:100])
    fill(pair.primary, topic, b"b")

    report = run_all(flow, "run-2", spark).report()

    assert report
    assert (report.state, report.counts.records) == ("verified", 200)
    pair.assert_same(flow, topic)
    assert read_all(pair.backup.bootstrap, elsewhere) == {0: [], 1: []}


@pytest.mark.long
def test_nothing_is_told_of_a_file_to_which_a_link_leads_that_comes_after_spark_has_begun(
    pair: Pair,
    spark: SparkSource,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    secret = tmp_path / "airflow.cfg"
    secret.write_text("fernet_key = 5ecret\n")
    topic = pair.topic("linked", named("first", 20))
    flow = pair.flow([topic])
    run_all(flow, "run-1", spark)
    offsets = Path(flow.state_path) / flow.slug / "checkpoint" / "offsets"
    add = QueryCheckpoint.add

    def add_before_a_link(checkpoint: QueryCheckpoint, start: StartRanges) -> None:
        add(checkpoint, start)
        (offsets / "1").symlink_to(secret)

    monkeypatch.setattr(QueryCheckpoint, "add", add_before_a_link)
    pair.produce(topic, named("second", 10))

    with pytest.raises(SparkFailed, match="log version from its first line") as caught:
        run_all(flow, "run-2", spark)

    # The JVM's lines pass a thread.
    time.sleep(1)
    captured = capfd.readouterr()
    assert "5ecret" not in str(caught.value) + captured.out + captured.err


@pytest.mark.long
def test_a_checkpoint_that_cannot_be_written_fails_the_run_in_a_sentence(
    pair: Pair, spark: SparkSource
) -> None:
    topic = pair.topic("unwritable", partitions=1)
    fill(pair.primary, topic, b"a")
    flow = pair.flow([topic])
    checkpoint = Path(flow.state_path) / flow.slug / "checkpoint"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text("a file where Spark wants a folder")

    with pytest.raises(SparkFailed, match=r"The checkpoint .* cannot be written: "):
        run_all(flow, "run-1", spark)

    checkpoint.unlink()
    report = run_all(flow, "run-2", spark).report()
    assert report and report.counts.records == 200


def test_a_finished_run_may_be_repeated_step_by_step(pair: Pair, spark: SparkSource) -> None:
    topic = pair.topic("repeated", partitions=2)
    fill(pair.primary, topic, b"a")
    flow = pair.flow([topic])
    run = run_all(flow, "run-1", spark)
    fill(pair.primary, topic, b"b")

    run.mirror(spark)
    verdict = run.verify(spark)

    assert verdict.success
    assert verdict.records == 200, "a repeated step copies what its plan says, and not what is new"
    assert sum(row["records"] for row in ledger_rows(flow)) == 200


def test_a_retry_finishes_what_the_first_attempt_left(pair: Pair, spark: SparkSource) -> None:
    topic = pair.topic("retried", partitions=2)
    flow = pair.flow([topic])
    create_topic(
        pair.backup.bootstrap, remote(flow, topic), partitions=2, max_message_bytes="10000"
    )
    pair.produce(topic, [Record(value=b"small", partition=p) for p in (0, 1)])
    pair.produce(topic, [Record(value=b"L" * 20_000, partition=1)])
    run = Run(flow, "run-1")
    run.plan()
    run.sync_topics()

    with pytest.raises(RangesFailed, match=f"{topic}-1 .*stopped at offset 1.*MESSAGE_TOO_LARGE"):
        run.mirror(spark)
    with pytest.raises(VerificationFailed, match=f"{topic}-1"):
        run.verify(spark)
    failure = run.failure("mirror")
    assert failure is not None and not failure.transient
    with pytest.raises(Exception, match=f"{topic}-1"):
        run.publish()

    set_config(pair.backup, remote(flow, topic), "max.message.bytes", "1000000")
    run.mirror(spark)
    run.verify(spark)
    run.sync_groups()
    report = run.publish()

    assert run.failure("mirror") is None
    assert (report.state, report.counts.records) == ("verified", 3)
    pair.assert_same(flow, topic)


@pytest.fixture
def mirrored(pair: Pair, spark: SparkSource) -> Run:
    """A run that has copied one partition of 200 records and has not verified them."""
    topic = pair.topic("harmed")
    fill(pair.primary, topic, b"a")
    run = Run(pair.flow([topic]), "run-1")
    run.plan()
    run.sync_topics()
    run.mirror(spark)
    return run


@pytest.mark.long
def test_what_was_read_back_while_spark_was_there_is_verified_without_it_once(
    mirrored: Run, spark: SparkSource
) -> None:
    assert mirrored.needs_spark("verify")
    assert mirrored.read_back(spark) == 1
    assert not mirrored.needs_spark("verify")

    assert mirrored.verify(no_spark).records == 200

    # A step that is repeated reads it again.
    with pytest.raises(SparkNeeded):
        mirrored.verify(no_spark, everything=True)
    found = mirrored.verify(spark, everything=True)
    assert (found.success, found.records) == (True, 200)


def test_records_that_came_after_the_reading_are_read_before_they_are_judged(
    mirrored: Run, primary: KafkaCluster, spark: SparkSource
) -> None:
    (topic,) = mirrored.flow.topics
    mirrored.read_back(spark)
    fill(primary, topic, b"b")
    other = Run(mirrored.flow, "run-2")
    other.plan()
    other.sync_topics()
    other.mirror(spark)

    assert mirrored.needs_spark("verify")
    with pytest.raises(SparkNeeded):
        mirrored.verify(no_spark)
    assert mirrored.verify(spark).records == 400


def failed_expectations(run: Run) -> list[str]:
    found = run.reconciliation()
    assert found is not None and found.verdict is not None
    return [result.name for result in found.verdict.expectations if not result.success]


def test_a_record_that_the_ledger_does_not_know_fails_the_verification(
    mirrored: Run, backup: KafkaCluster, spark: SparkSource
) -> None:
    (topic,) = mirrored.flow.topics
    produce(backup.bootstrap, remote(mirrored.flow, topic), [Record(value=b"another client's")])

    with pytest.raises(VerificationFailed, match=f"{topic}-0"):
        mirrored.verify(spark)

    assert failed_expectations(mirrored) == ["nothing lies beyond what the ledger knows"]


def test_a_ledger_of_another_flow_that_cannot_be_read_changes_nothing(
    mirrored: Run,
    backup: KafkaCluster,
    spark: SparkSource,
    unique: Unique,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (topic,) = mirrored.flow.topics
    theirs = ledger_topic(unique("theirs"))
    create_topic(backup.bootstrap, theirs)
    produce(backup.bootstrap, theirs, [Record(value=b"of a newer release")])
    produce(backup.bootstrap, remote(mirrored.flow, topic), [Record(value=b"another client's")])

    with pytest.raises(VerificationFailed, match=f"{topic}-0"):
        mirrored.verify(spark)

    assert failed_expectations(mirrored) == ["nothing lies beyond what the ledger knows"]
    assert f"{theirs} offset 0" in caplog.text


def test_other_bytes_than_those_that_were_sent_fail_the_verification(
    mirrored: Run, spark: SparkSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    (topic,) = mirrored.flow.topics
    due_ranges = due._due_ranges

    def others(*given: Any, **options: Any) -> list[LedgerRange]:
        return [
            it._replace(copied=it.copied.model_copy(update={"digest": it.copied.digest[::-1]}))
            for it in due_ranges(*given, **options)
        ]

    monkeypatch.setattr(due, "_due_ranges", others)

    with pytest.raises(VerificationFailed, match=rf"{topic}-0 \[0, 251\)"):
        mirrored.verify(spark)

    assert failed_expectations(mirrored) == ["the target's bytes are those that were sent"]


def test_records_that_expired_on_the_target_are_a_warning(
    mirrored: Run, backup: KafkaCluster, spark: SparkSource
) -> None:
    (topic,) = mirrored.flow.topics
    delete_before(backup, remote(mirrored.flow, topic), 30)

    verdict = mirrored.verify(spark)

    assert verdict.success
    assert any(f"{topic}-0" in warning for warning in verdict.warnings)


@pytest.mark.long
def test_a_run_killed_in_mid_copy_is_finished_by_the_next_one(pair: Pair) -> None:
    topic = pair.topic("killed", partitions=4)
    for number in range(40):
        records = [Record(key=b"%d" % i, value=b"%d" % number) for i in range(100)]
        aborted = number % 4 == 3
        transactional_id = topic if number % 2 else None
        pair.produce(topic, records, transactional_id=transactional_id, abort=aborted)
    file = write_flow(
        pair.folder,
        pair.primary,
        pair.backup,
        [topic],
        writers=2,
        transaction_max_bytes=3000,
        fetch_max_bytes=1000,
    )
    add_secret(file)
    flow = load_flow(file)
    command = [sys.executable, "-m", "kafka_ferry", "run", "--config", str(file)]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until_it_copies(flow, first)
    first.send_signal(signal.SIGKILL)
    first.wait()

    second = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)

    assert second.returncode == 0, second.stderr
    report = json.loads(second.stdout)
    assert report["verdict"]["success"]
    assert report["records"] < 3000, "the first run should have copied a part"
    pair.assert_same(flow, topic)
    ledger = read_all(pair.backup.bootstrap, f"ferry-ledger.{flow.source.alias}.internal")[0]
    leftovers = [
        path.read_bytes() for path in pair.folder.rglob("*") if path.is_file() and path != file
    ]
    said = [second.stdout.encode(), second.stderr.encode(), *(r.value or b"" for r in ledger)]
    assert len(ledger) > 2
    assert not any(SECRET in content for content in [*leftovers, *said])


def add_secret(file: Path) -> None:
    """Give the flow a password, which brokers without a login do not ask for."""
    content = json.loads(file.read_text())
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    for side in ("source", "target"):
        content[side] |= {
            "security.protocol": "PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{login} username="ferry" password="{SECRET.decode()}";',
        }
    file.write_text(json.dumps(content))


def wait_until_it_copies(flow: Flow, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while not any(position.offset for position in read_positions(flow.target, flow.name).values()):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
