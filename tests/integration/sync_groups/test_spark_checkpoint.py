"""A Structured Streaming query with Spark's own Kafka source stops at the source and goes on at the target."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_ferry.errors import CheckpointRefused, FerryError
from kafka_ferry.runs.sync_groups.spark_checkpoint import translate_checkpoint
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.segments import cut_log
from tests.support.records.builders import Record, produce
from tests.support.runs.command_line import ferry
from tests.support.runs.flows import remote
from tests.support.runs.pair import Pair
from tests.support.runs.proof import prove
from tests.support.spark.kafka_source import Kind, Query, SparkApplication, counted, written

pytestmark = pytest.mark.usefixtures("without_spark")

PARTITIONS = 3
NO_CONF: Mapping[str, str] = {}
_STATE = "spark.sql.streaming.stateStore"
ROCKSDB = {
    f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE}.checkpointFormatVersion": "2",
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkApplication]:
    with SparkApplication(tmp_path_factory.mktemp("spark")) as application:
        yield application


def fill(broker: KafkaCluster, topic: str, mark: str, count: int = 90) -> list[str]:
    """Records of two transactions, and an aborted one between them; the values of those that count."""

    def write(values: list[str], *, abort: bool = False) -> None:
        records = [
            Record(value=value.encode(), partition=number % PARTITIONS)
            for number, value in enumerate(values)
        ]
        produce(broker.bootstrap, topic, records, transactional_id=topic, abort=abort)

    values = [f"{mark} {number}" for number in range(count)]
    write(values[: count // 2])
    write([f"{mark} aborted {number}" for number in range(20)], abort=True)
    write(values[count // 2 :])
    return values


def a_query(
    broker: KafkaCluster,
    topic: str,
    checkpoint: Path,
    kind: Kind = "files",
    conf: Mapping[str, str] = NO_CONF,
) -> Query:
    output = checkpoint.parent / f"output-{kind}"
    return Query(broker.bootstrap, (topic,), checkpoint, output, kind, at_once=60, conf=conf)


def undo_commit(checkpoint: Path) -> int:
    """As a query that is killed before it has committed its last batch leaves it; the batch's number."""
    newest = max(int(file.name) for file in (checkpoint / "commits").glob("[0-9]*"))
    unlink(checkpoint / "commits" / str(newest))
    return newest


def forget_batch(output: Path, number: int) -> None:
    """As a query that is killed before its sink has taken a batch leaves it."""
    unlink(output / "_spark_metadata" / str(number))


def unlink(file: Path) -> None:
    """Delete a file of Spark's, and its checksum."""
    file.unlink()
    file.with_name(f".{file.name}.crc").unlink()


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.mark.long
def test_a_query_goes_on_at_the_target_without_a_gap_or_a_double(
    pair: Pair, spark: SparkApplication
) -> None:
    topic = pair.topic("orders", partitions=PARTITIONS)
    flow = pair.flow([topic])
    old, new = pair.folder / "old", pair.folder / "new"
    conf = {"spark.sql.streaming.offsetLog.formatVersion": "2"}
    before = fill(pair.primary, topic, "before")
    prove(flow, "run-1")
    query = a_query(pair.primary, topic, old, conf=conf)
    spark.run(query)
    kept = files_of(old)
    # Another run, so that the map has several transactions; the query stands before its end.
    after = fill(pair.primary, topic, "after")
    prove(flow, "run-2")

    found = translate_checkpoint(flow, str(old), str(new))
    spark.run(a_query(pair.backup, remote(flow, topic), new))

    assert (new / "offsets" / str(found.batch)).read_text().startswith("v2\n")
    assert sorted(written(query.output)) == sorted(before + after)
    assert found.topics == {topic: remote(flow, topic)}
    assert not any(placed.doubt for placed in found.placed)
    assert files_of(old) == kept


@pytest.mark.short("not taken by it")
@pytest.mark.parametrize("taken", [True, False], ids=["taken by the sink", "not taken by it"])
@pytest.mark.long
def test_a_batch_that_was_not_finished_is_read_again_once_and_whole(
    pair: Pair, spark: SparkApplication, taken: bool
) -> None:
    topic = pair.topic("orders", partitions=PARTITIONS)
    flow = pair.flow([topic])
    old, new = pair.folder / "old", pair.folder / "new"
    before = fill(pair.primary, topic, "before")
    query = a_query(pair.primary, topic, old)
    spark.run(query)
    number = undo_commit(old)
    if not taken:
        forget_batch(query.output, number)
    after = fill(pair.primary, topic, "after")
    prove(flow, "run-1")

    found = translate_checkpoint(flow, str(old), str(new))
    spark.run(a_query(pair.backup, remote(flow, topic), new))

    assert f"Batch {number} was not finished" in found.notes[0]
    assert sorted(written(query.output)) == sorted(before + after)


@pytest.mark.long
def test_a_batch_that_was_not_finished_and_is_not_copied_yet_gives_its_number_up(
    pair: Pair, spark: SparkApplication
) -> None:
    topic = pair.topic("orders", partitions=PARTITIONS)
    flow = pair.flow([topic])
    old, new = pair.folder / "old", pair.folder / "new"
    values = fill(pair.primary, topic, "before")
    query = a_query(pair.primary, topic, old)
    spark.run(query)
    prove(flow, "run-1")
    values += fill(pair.primary, topic, "in the batch", 12)
    spark.run(query)
    number = undo_commit(old)
    forget_batch(query.output, number)

    found = translate_checkpoint(flow, str(old), str(new))
    prove(flow, "run-2")
    spark.run(a_query(pair.backup, remote(flow, topic), new))

    assert f"are read in batch {number + 1}" in found.notes[0]
    assert (query.output / "_spark_metadata" / str(number + 1)).exists()
    assert sorted(written(query.output)) == sorted(values)


@pytest.mark.long
def test_a_query_that_is_ahead_of_the_copy_is_refused_or_clamped(
    pair: Pair, spark: SparkApplication
) -> None:
    topic = pair.topic("orders", partitions=PARTITIONS)
    old, new = pair.folder / "old", pair.folder / "new"
    flow = pair.flow([topic])
    copied = fill(pair.primary, topic, "copied")
    prove(flow, "run-1")
    # The source is lost with these; the query has read them.
    lost = fill(pair.primary, topic, "lost")
    query = a_query(pair.primary, topic, old)
    spark.run(query)
    without_source = json.loads((pair.folder / "flow.yaml").read_text()) | {
        "admin.timeout.ms": 1500
    }
    without_source["source"]["bootstrap.servers"] = "127.0.0.1:1"
    (pair.folder / "lost.yaml").write_text(json.dumps(without_source))
    asked = (
        "translate",
        "--config",
        pair.folder / "lost.yaml",
        "--spark-checkpoint",
        old,
        "--to",
        new,
    )

    refused = ferry(*asked)

    assert refused.returncode == 11
    assert f"The checkpoint {old} is not translated" in refused.stderr
    assert refused.stderr.count("is copied and verified") == PARTITIONS
    assert not new.exists()

    clamped = ferry(*asked, "--clamp", "--json")
    late = fill(pair.backup, remote(flow, topic), "written at the target")
    spark.run(a_query(pair.backup, remote(flow, topic), new))

    found = json.loads(clamped.stdout)
    assert found["topics"] == {topic: remote(flow, topic)}
    assert [row["kind"] for row in found["partitions"]] == ["clamped"] * PARTITIONS
    assert any("were copied last" in note for note in found["notes"])
    assert sorted(written(query.output)) == sorted(copied + lost + late)


@pytest.mark.parametrize(
    "conf",
    [pytest.param({}, id="files"), pytest.param(ROCKSDB, id="RocksDB", marks=pytest.mark.long)],
)
@pytest.mark.long
def test_a_query_with_state_goes_on_counting(
    pair: Pair, spark: SparkApplication, conf: dict[str, str]
) -> None:
    topic = pair.topic("orders", partitions=PARTITIONS)
    flow = pair.flow([topic])
    old, new = pair.folder / "old", pair.folder / "new"
    values = fill(pair.primary, topic, "again")
    query = a_query(pair.primary, topic, old, "counts", conf)
    spark.run(query)
    # Its last batch is in the state already, and is counted once all the same.
    undo_commit(old)
    values += fill(pair.primary, topic, "again") + fill(pair.primary, topic, "new")
    prove(flow, "run-1")

    found = translate_checkpoint(flow, str(old), str(new))
    spark.run(a_query(pair.backup, remote(flow, topic), new, "counts", conf))

    assert "The query's state is copied as it is." in found.notes
    assert counted(query.output) == Counter(values)


@pytest.mark.long
@pytest.mark.parametrize("where", ["source", "target"])
def test_a_query_that_has_read_what_a_truncated_log_no_longer_has_is_refused(
    pair: Pair, target: Broker, where: str
) -> None:
    """Its offset is on the target, and the records before that there are others."""
    pair = replace(pair, **{"primary" if where == "source" else "backup": target})
    topic = pair.topic("orders", partitions=PARTITIONS)
    flow = pair.flow([topic])
    for run in ("run-1", "run-2"):
        fill(pair.primary, topic, run)
        prove(flow, run)
    old, new = pair.folder / "old", pair.folder / "new"
    ends = {number: 60 if number == 1 else 20 for number in range(PARTITIONS)}
    for name, text in (
        ("offsets/0", f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps({topic: ends})}'),
        ("commits/0", 'v1\n{"nextBatchWatermarkMs":0}'),
        ("metadata", '{"id":"59f2cac4"}'),
    ):
        (old / name).parent.mkdir(parents=True, exist_ok=True)
        (old / name).write_text(text)
    translate_checkpoint(flow, str(old), str(pair.folder / "whole"))
    name = topic if where == "source" else remote(flow, topic)
    target.stop()
    cut_log(target, name, 15 if where == "source" else 31, partition=1)
    target.start().wait_ready()
    fill(target, name, "other")

    with pytest.raises(CheckpointRefused) as caught:
        translate_checkpoint(flow, str(old), str(new))

    (reason,) = caught.value.reasons
    assert reason.startswith(f"{topic}-1, read up to offset 60: ")
    expected = "truncated at 1" if where == "source" else "has lost records that were copied"
    assert expected in reason
    asked = ferry("translate", "--config", flow.file, "--offset", f"{topic}:1:60")
    assert (asked.returncode, expected in asked.stdout) == (2, True)
    both = ("--offset", f"{topic}:1:9", "--offset", f"{topic}:0:60")
    assert ferry("translate", "--config", flow.file, *both).returncode == (
        0 if where == "source" else 2
    )


def test_what_cannot_be_written_or_read_is_refused(pair: Pair) -> None:
    flow = pair.flow(["orders"])
    nothing, new = str(pair.folder / "nothing"), str(pair.folder / "new")
    with pytest.raises(CheckpointRefused, match="is not empty"):
        translate_checkpoint(flow, nothing, str(pair.folder))
    with pytest.raises(CheckpointRefused, match="holds no batch"):
        translate_checkpoint(flow, nothing, new)
    with pytest.raises(FerryError, match="nowhere"):
        translate_checkpoint(flow, "nowhere://checkpoint", new)
    unclear = ferry("translate", "--config", flow.file, "--to", new)
    assert unclear.returncode == 9
    assert "Give --spark-checkpoint with --to" in unclear.stderr
