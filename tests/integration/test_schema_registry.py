"""Two real registries whose ids differ: schemas are mirrored, and records have the target's ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.report.plan_text import plan_text
from kafka_ferry.runs import Run
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.schemas.ids import stored_schemas
from kafka_ferry.spark.session import SparkSource, terminal_spark
from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.schema_registry import SchemaRegistryServer
from tests.support.builders import Record, create_topic, produce, read_all
from tests.support.flows import ledger_rows, remote, write_flow
from tests.support.schemas import (
    KEY,
    VALUE,
    as_json,
    avro,
    client_of,
    from_avro,
    from_json,
    from_protobuf,
    protobuf,
    two_registries,
)

Unique = Callable[[str], str]
Registries = tuple[SchemaRegistryServer, SchemaRegistryServer]
FORMATS = {
    "avro": (avro, from_avro),
    "json": (as_json, from_json),
    "protobuf": (protobuf, from_protobuf),
}


@pytest.fixture(scope="module")
def registries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registries]:
    with two_registries(tmp_path_factory.mktemp("registries")) as both:
        yield both


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSource]:
    with terminal_spark("schemas", 2) as spark:
        yield spark


def flow_between(
    registries: Registries,
    folder: Path,
    primary: KafkaCluster,
    backup: KafkaCluster,
    topics: list[str],
    **options: object,
) -> Flow:
    options = {"sync_schemas": "translate-ids", **options}
    file = write_flow(folder, primary, backup, topics, **options)
    content = json.loads(file.read_text())
    content["source"]["schema.registry"] = {"url": registries[0].url}
    content["target"]["schema.registry.url"] = registries[1].url
    file.write_text(json.dumps(content))
    return load_flow(file)


def person(number: int) -> dict[str, object]:
    return {"name": f"N{number}", "city": {"name": "x" * (number % 50 + 1)}}


def test_records_of_all_formats_are_read_on_the_target_with_its_own_ids(
    folder: Path,
    primary: KafkaCluster,
    backup: KafkaCluster,
    unique: Unique,
    registries: Registries,
    spark: SparkSource,
) -> None:
    source, target = map(client_of, registries)
    topics = {name: unique(name) for name in FORMATS}
    for name, topic in topics.items():
        write, _ = FORMATS[name]
        create_topic(primary.bootstrap, topic, partitions=2)
        produce(
            primary.bootstrap,
            topic,
            [
                Record(
                    # Eight bytes that begin with 0, as a number does, and are no id.
                    key=i.to_bytes(8, "big")
                    if name != "avro"
                    else write(source, topic, KEY, person(i)),
                    value=write(source, topic, VALUE, person(i)),
                    partition=i % 2,
                )
                for i in range(100)
            ]
            + [Record(key=None, value=None, partition=0), Record(value=b"no schema", partition=1)],
        )
    flow = flow_between(registries, folder, primary, backup, [*topics.values()])

    this = Run(flow, "run-1")
    plan = this.plan()
    text = "\n".join(line.text for line in plan_text(plan))
    for step in (this.sync_topics, lambda: this.mirror(spark), lambda: this.verify(spark)):
        step()
    this.sync_groups()
    report = this.publish()

    avro_topic = topics["avro"]
    assert f"register {avro_topic}-value version 1 as {remote(flow, avro_topic)}-value" in text
    assert "register geo.City version 1 as geo.City" in text
    assert f"schema ids of {avro_topic}: translated in its key and value" in text
    assert plan.changes["schemas to register"] == 7
    assert report.state == "verified"
    known = stored_schemas(flow_state(flow)).ids
    assert len(known) == 6 or len(known) == 7
    assert not known.items() & {(it, it) for it in known}
    for name, topic in topics.items():
        _, read = FORMATS[name]
        copied = read_all(backup.bootstrap, remote(flow, topic))
        for partition, records in copied.items():
            *framed, last = records
            assert last.value == (b"no schema" if partition else None)
            for record, i in zip(framed, range(partition, 100, 2), strict=True):
                assert read(target, remote(flow, topic), VALUE, record.value) == person(i)
                if name == "avro":
                    assert read(target, remote(flow, topic), KEY, record.key) == person(i)
                else:
                    assert record.key == i.to_bytes(8, "big")
    rows = [row for row in ledger_rows(flow) if row["topic"] == avro_topic]
    assert {str(row["schema_ids"]).split()[0] for row in rows} == {"key+value"}
    assert {name for row in rows for name in row["rebuilt"]} == {"schema ids of the target"}
    # A second run finds nothing to do.
    assert not Run(flow, "run-2").plan().changes
