"""Two real registries whose ids differ: schemas are mirrored, and records have the target's ids."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import SerializationContext

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.errors import ConfigError, FerryError, VerificationFailed
from kafka_ferry.model import RunOptions, Window
from kafka_ferry.report.plan_text import plan_text
from kafka_ferry.runs import Run
from kafka_ferry.runs.certificates import find_certificates
from kafka_ferry.runs.plan.backfill import pin_positions
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.schemas.ids import FlowSchemas, MirroredSchema, store_schemas, stored_schemas
from kafka_ferry.spark.session import SparkSource, no_spark, terminal_spark
from kafka_ferry.spark.transforms import checked_rules
from kafka_sandbox.schema_registry import SchemaRegistryServer
from tests import PROJECT
from tests.support.records.builders import Record, create_topic, read_all
from tests.support.records.schemas import (
    KEY,
    VALUE,
    as_json,
    avro,
    client_of,
    from_avro,
    from_json,
    from_protobuf,
    proto_class,
    protobuf,
    two_registries,
)
from tests.support.runs.flows import (
    copy_planned,
    failures,
    ledger_rows,
    plan_now,
    remote,
    write_flow,
)
from tests.support.runs.pair import Pair
from tests.support.runs.proof import run_all

Registries = tuple[SchemaRegistryServer, SchemaRegistryServer]
SECRET = "not-for-anybody"
NOW = 1_700_000_000_000
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


def flow_between(registries: Registries, pair: Pair, topics: list[str], **options: object) -> Flow:
    options = {"sync_schemas": "translate-ids", **options}
    file = write_flow(pair.folder, pair.primary, pair.backup, topics, **options)
    content = json.loads(file.read_text())
    content["source"]["schema.registry"] = {"url": registries[0].url}
    content["target"]["schema.registry.url"] = registries[1].url
    # These registries take any login.
    content["target"]["schema.registry.basic.auth.user.info"] = f"ferry:{SECRET}"
    file.write_text(json.dumps(content))
    return load_flow(file)


def person(number: int) -> dict[str, object]:
    return {"name": f"N{number}", "city": {"name": "x" * (number % 50 + 1)}}


def test_the_page_about_registries_shows_what_its_flow_does(
    pair: Pair, registries: Registries
) -> None:
    """The first flow of the page, with the addresses and the alias of this test, and the plan that it shows.

    It comes first, since the others mirror a schema that it shows.
    """
    source, target = map(client_of, registries)
    page = (PROJECT / "docs" / "schema-registry.md").read_text()
    (example,) = re.findall(r"^```yaml\n(source:.*?)^```", page, re.M | re.S)
    (shown,) = re.findall(r"^```text\n(.*?)^```", page, re.M | re.S)
    places = {
        "primary:9092": pair.primary.bootstrap,
        "backup:9092": pair.backup.bootstrap,
        "http://primary-registry:8081": registries[0].url,
        "http://backup-registry:8081": registries[1].url,
        "alias: primary": f"alias: {pair.folder.name}",
        "topics: [": "replication.factor: -1\nemit.heartbeats.enabled: false\ntopics: [",
    }
    for place, here in places.items():
        example = example.replace(place, here)
    (pair.folder / "flow.yaml").write_text(f"{example}state.dir: {pair.folder / 'state'}\n")
    for topic in ("orders", "clicks"):
        create_topic(pair.primary.bootstrap, topic)
    record = Record(value=avro(source, "orders", VALUE, person(1)))
    pair.produce("orders", [record])
    pair.produce("clicks", [record])
    flow = load_flow(pair.folder / "flow.yaml")

    text = [line.text for line in plan_text(Run(flow, "plan").plan(save=False))]
    assert not failures(copy_planned(flow, plan_now(flow)))

    changes = [line for line in text if line.startswith("register")]
    assert changes == shown.replace("primary.", f"{pair.folder.name}.").splitlines()
    (copied,) = read_all(pair.backup.bootstrap, f"{pair.folder.name}.orders")[0]
    assert from_avro(target, f"{pair.folder.name}.orders", VALUE, copied.value) == person(1)
    # No subject is named after this topic, so what it holds is copied as it is.
    (as_it_is,) = read_all(pair.backup.bootstrap, f"{pair.folder.name}.clicks")[0]
    assert as_it_is.value == record.value


def test_records_of_all_formats_are_read_on_the_target_with_its_own_ids(
    pair: Pair, registries: Registries, spark: SparkSource
) -> None:
    source, target = map(client_of, registries)
    topics = {name: pair.unique(name) for name in FORMATS}
    for name, topic in topics.items():
        write, _ = FORMATS[name]
        create_topic(pair.primary.bootstrap, topic, partitions=2)
        pair.produce(
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
                for i in range(20)
            ]
            + [Record(key=None, value=None, partition=0), Record(value=b"no schema", partition=1)],
        )
    flow = flow_between(registries, pair, [*topics.values()], certificates_enabled=True)

    this = Run(flow, "run-1")
    plan = this.plan()
    text = "\n".join(line.text for line in plan_text(plan))
    for step in (this.sync_topics, lambda: this.mirror(spark), lambda: this.verify(spark)):
        step()
    this.sync_groups()
    report = this.publish()

    avro_topic = topics["avro"]
    assert f"register {avro_topic}-value version 1 as {remote(flow, avro_topic)}-value" in text
    assert f"schema ids of {avro_topic}: translated in its key and value" in text
    assert plan.changes["schemas_to_register"] == 6
    assert report.state == "verified"
    assert len(report.topics.translated_ids) == 3
    known = stored_schemas(flow_state(flow)).ids
    assert len(known) == 6
    assert not known.items() & {(it, it) for it in known}
    for name, topic in topics.items():
        _, read = FORMATS[name]
        copied = pair.copied(flow, topic)
        for partition, records in copied.items():
            *framed, last = records
            assert last.value == (b"no schema" if partition else None)
            for record, i in zip(framed, range(partition, 20, 2), strict=True):
                assert read(target, remote(flow, topic), VALUE, record.value) == person(i)
                if name == "avro":
                    assert read(target, remote(flow, topic), KEY, record.key) == person(i)
                else:
                    assert record.key == i.to_bytes(8, "big")
    rows = [row for row in ledger_rows(flow) if row["topic"] == avro_topic]
    assert {str(row["schema_ids"]).split()[0] for row in rows} == {"key+value"}
    assert {name for row in rows for name in row["rebuilt"]} == {"schema ids of the target"}
    (certificate,) = find_certificates(flow).all
    (key_and_value,) = {str(row["schema_ids"]) for row in rows}
    assert json.loads(certificate.header.rules["sync.schemas"])[avro_topic] == key_and_value
    written = [it for it in (pair.folder / "state").rglob("*") if it.is_file()]
    assert not [it for it in written if SECRET.encode() in it.read_bytes()]
    # A second run finds nothing to do.
    assert not Run(flow, "run-2").plan().changes


ACCOUNT = {
    "type": "record",
    "name": "Account",
    "fields": [
        {"name": "email", "type": "string"},
        {"name": "age", "type": ["null", "int"], "default": None},
        {
            "name": "balance",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
    ],
}
NICK = {"name": "nick", "type": ["null", "string"], "default": None}


@pytest.mark.usefixtures("without_docs")
def test_a_rule_reads_and_changes_fields_in_avro(
    pair: Pair, registries: Registries, spark: SparkSource
) -> None:
    """Of two versions of a schema, with ids of the target, and evaluated again by the verification."""
    source, target = map(client_of, registries)
    topic = pair.topic("accounts")
    newer = ACCOUNT | {"fields": [*ACCOUNT["fields"], NICK]}
    context = SerializationContext(topic, VALUE)
    older, newer = (AvroSerializer(source, Schema(json.dumps(it))) for it in (ACCOUNT, newer))
    adults = [{"email": f"{i}@x.org", "age": 20 + i, "balance": Decimal("1.50")} for i in range(4)]
    children = [it | {"age": age} for it, age in zip(adults, (3, None), strict=False)]
    # Under a subject of the producer's own, the number is a text, which Java could take hours to read.
    texts = [
        it | ({"type": "string"} if it["name"] == "balance" else {}) for it in ACCOUNT["fields"]
    ]
    own = Schema(json.dumps(ACCOUNT | {"name": "Own", "fields": texts}))
    with_texts = AvroSerializer(source, own, conf={"subject.name.strategy": lambda *_: "own"})
    slow = with_texts(adults[0] | {"balance": "1e-100000"}, context)
    broken = [slow, b"no schema", b"\0\0\x0f\0\0{}", older(adults[0], context) + b"more"]
    values = [
        *(older(it, context) for it in (*adults[:2], *children)),
        *(newer(it | {"nick": "n"}, context) for it in adults[2:]),
        *broken,
        None,
    ]
    pair.produce(topic, [Record(value=it) for it in values])
    rule = {
        "topics": [topic],
        "format": {"value": "avro"},
        "where": "value is null or value.age >= 18 and value.balance = 1.50",
        "set": {"value.email": "upper(value.email)", "value.balance": "value.balance * 2"},
        "drop": ["value.nick"],
    }
    flow = flow_between(
        registries, pair, [topic], transform=[rule], on_transform_error="dead-letter"
    )

    report = run_all(flow, "run-1", spark).report()

    assert report
    assert report.state == "verified"
    assert report.counts.reasons == {"filtered": 2, "dead-lettered": 4}
    assert sum(row.rule.evaluated for row in report.proof.ranges) == len(values)
    *copied, tombstone = pair.copied(flow, topic)[0]
    assert tombstone.value is None
    wanted = [it | {"email": str(it["email"]).upper(), "balance": Decimal("3.00")} for it in adults]
    assert [from_avro(target, remote(flow, topic), VALUE, it.value) for it in copied] == [
        *wanted[:2],
        *(it | {"nick": None} for it in wanted[2:]),
    ]
    letters = read_all(pair.backup.bootstrap, flow.dead_letter_name)[0]
    too_slow, *unread, too_long = [it.value or b"" for it in letters]
    assert (too_slow[5:], unread) == (slow[5:], broken[1:3])
    # Dead letters lie on the target, and have its ids too.
    assert (too_long[5:], too_long[:5]) == (broken[3][5:], (copied[0].value or b"")[:5])
    assert {dict(it.headers)["ferry.error"] for it in letters} == {
        b"rule 1: reading the value as avro failed"
    }

    for wrong, why in (
        ({"set": {"value.new": "1"}}, "sets value.new, which is no field"),
        ({"drop": ["value.email"]}, "drops value.email, which has no default"),
    ):
        changed = rule | {"set": {}, "drop": []} | wrong
        refused = flow_between(registries, pair, [topic], transform=[changed])
        with pytest.raises(ConfigError, match=why):
            checked_rules(spark(), refused)


CITY_FILE = 'syntax = "proto3"; package geo; message City { string name = 1; }'
ACCOUNT_FILE = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "city.proto";
message Other { int32 x = 1; }
message Account {
  enum Kind { HOME = 0; WORK = 1; }
  string email = 1;
  optional int32 age = 2;
  uint64 balance = 3;
  geo.City city = 4;
  google.protobuf.Timestamp since = 5;
  map<string, string> labels = 6;
  oneof contact { string phone = 7; string fax = 8; }
  Kind kind = 9;
  %s
}
"""


@pytest.mark.long
def test_a_rule_reads_and_changes_fields_in_protobuf(
    pair: Pair, registries: Registries, spark: SparkSource
) -> None:
    """Of a schema that is text and one that is a descriptor, with ids of the target, and evaluated again."""
    source, target = map(client_of, registries)
    topic = pair.topic("accounts")
    older_text = ACCOUNT_FILE % ""
    account = proto_class("Account", city=CITY_FILE, account=ACCOUNT_FILE % "string nick = 10;")
    serializer = ProtobufSerializer(account, source, {"use.deprecated.format": False})
    context = SerializationContext(topic, VALUE)

    def message(i: int, **more: Any) -> Any:
        since = {"seconds": NOW // 1000, "nanos": 123_456_000}
        found = account(
            email=f"{i}@x.org", age=20 + i, balance=2**63, since=since, fax="f", nick="n"
        )
        found.city.name = f"c{i}"
        found.labels.update({"b": "1", "a": "2"})
        for name, value in more.items():
            setattr(found, name, value)
        return found

    adults = [message(i, kind=i % 2) for i in range(4)]
    children = [message(5, age=3), message(6)]
    children[1].ClearField("age")
    city = SchemaReference("city.proto", "city.proto", 1)
    source.register_schema("city.proto", Schema(CITY_FILE, "PROTOBUF"))
    older = source.register_schema(f"{topic}-value", Schema(older_text, "PROTOBUF", [city]))
    written = [serializer(it, context) or b"" for it in (*adults, *children)]
    # To the older schema, the nick is an unknown field.
    written[0] = b"\0" + older.to_bytes(4, "big") + written[0][5:]
    broken = [b"no schema", b"\0\0\x0f\0\0{}", written[1][:5] + b"\2\x0e", written[1] + b"\xff"]
    records = [Record(value=it) for it in (*written, *broken, None)]
    # The id and the message's indexes may stand in a header.
    in_header = [("__value_schema_id", written[2][:7])]
    records[2] = Record(value=written[2][7:], headers=in_header)
    pair.produce(topic, records)
    rule = {
        "topics": [topic],
        "format": {"value": "protobuf"},
        "where": "value is null or value.age >= 18 and value.city.name like 'c%' "
        "and value.labels.a = '2' and value.kind in ('HOME', 'WORK')",
        "set": {
            "value.email": "upper(value.email)",
            "value.balance": "value.balance + 1",
            "value.city.name": "concat(value.city.name, '!')",
            "value.since": "value.since + interval 1 day",
            "value.phone": "case when value.kind = 'WORK' then '+1' end",
        },
        "drop": ["value.nick"],
    }
    flow = flow_between(
        registries, pair, [topic], transform=[rule], on_transform_error="dead-letter"
    )

    report = run_all(flow, "run-1", spark).report()

    assert report
    assert report.state == "verified"
    assert report.counts.reasons == {"filtered": 2, "dead-lettered": 4}
    assert sum(row.rule.evaluated for row in report.proof.ranges) == len(records)
    *copied, tombstone = pair.copied(flow, topic)[0]
    assert tombstone.value is None
    for it in adults:
        it.email = it.email.upper()
        it.balance += 1
        it.city.name += "!"
        it.since.seconds += 86_400
        if it.kind:
            it.phone = "+1"
        it.ClearField("nick")
    adults[0].nick = "n"
    # What Apicurio has as text, this deserializer does not read.
    alone = ProtobufDeserializer(account, {"use.deprecated.format": False})
    assert alone(copied[0].value, context) == adults[0]
    with_registry = ProtobufDeserializer(account, {"use.deprecated.format": False}, target)
    for record, adult in zip(copied[1:], adults[1:], strict=True):
        remotely = SerializationContext(remote(flow, topic), VALUE, headers=list(record.headers))
        assert with_registry(record.value, remotely) == adult
    assert copied[2].headers[0][1] == (copied[1].value or b"")[:7] != in_header[0][1]
    found = target.get_schema(int.from_bytes((copied[0].value or b"")[1:5], "big"))
    assert found.schema_str == older_text
    letters = read_all(pair.backup.bootstrap, flow.dead_letter_name)[0]
    assert [(it.value or b"")[5:] for it in letters] == [it[5:] for it in broken]
    assert {dict(it.headers)["ferry.error"] for it in letters} == {
        b"rule 1: reading the value as protobuf failed"
    }

    wrong = rule | {"set": {"value.new": "1"}, "drop": []}
    refused = flow_between(registries, pair, [topic], transform=[wrong])
    with pytest.raises(ConfigError, match=r"sets value\.new, which is no field"):
        checked_rules(spark(), refused)


def test_a_schema_that_is_registered_after_the_plan_is_mirrored_by_the_task_that_needs_it(
    pair: Pair, registries: Registries
) -> None:
    source, target = map(client_of, registries)
    topic = pair.topic("late")
    pair.produce(topic, [Record(value=avro(source, topic, VALUE, person(1)))])
    flow = flow_between(registries, pair, [topic])
    plan = plan_now(flow)
    # The run's schemas are mirrored by now; its range ends after a record with another one.
    later = Schema(json.dumps("string"))
    number = source.register_schema(f"{topic}-value", later)
    pair.produce(topic, [Record(value=b"\0" + number.to_bytes(4, "big") + b"\2x")])
    ranges = tuple(replace(it, end=2) for it in plan.ranges)

    outcomes = copy_planned(flow, replace(plan, ranges=ranges))

    assert not failures(outcomes)
    first, second = pair.copied(flow, topic)[0]
    assert from_avro(target, remote(flow, topic), VALUE, first.value) == person(1)
    found = target.get_schema(int.from_bytes(second.value[1:5], "big"))
    assert found.schema_str == later.schema_str
    assert target.get_versions(f"{remote(flow, topic)}-value") == [1, 2]


@pytest.mark.parametrize("policy", ["fail", "dead-letter", "pass"])
def test_a_record_with_an_id_that_no_schema_has(
    pair: Pair, registries: Registries, policy: str
) -> None:
    source, target = map(client_of, registries)
    topic = pair.topic("unknown")
    # This registry takes no id of more than 31 bits: asked for it, it knows no such path.
    schema_id = 983_040 if policy == "fail" else 2**32 - 1
    known = avro(source, topic, VALUE, person(1))
    unknown = b"\0" + schema_id.to_bytes(4, "big") + b"{}"
    values = [known, unknown, known]
    pair.produce(topic, [Record(value=it) for it in values])
    flow = flow_between(registries, pair, [topic], on_unknown_schema=policy)

    outcomes = copy_planned(flow, plan_now(flow))

    copied = [it.value for it in pair.copied(flow, topic)[0]]
    assert from_avro(target, remote(flow, topic), VALUE, copied[0]) == person(1)
    if policy == "fail":
        (failure,) = failures(outcomes)
        assert "offset 1" in failure
        assert "the schema 983040 is not known" in failure
        assert len(copied) == 1
        return
    assert not failures(outcomes)
    assert copied[-1] == copied[0]
    if policy == "pass":
        assert copied[1:2] == [unknown]
        return
    assert len(copied) == 2
    (letter,) = read_all(pair.backup.bootstrap, flow.dead_letter_name)[0]
    assert letter.value == unknown
    assert b"the schema 4294967295 is not known" in dict(letter.headers)["ferry.error"]
    (row,) = ledger_rows(flow)
    assert row["reasons"] == {"dead-lettered": 1}


def test_ids_in_headers_and_preserved_offsets(pair: Pair, registries: Registries) -> None:
    """Confluent's serializer puts GUIDs into headers, which this registry has none of: so an id stands there."""
    source, target = map(client_of, registries)
    topic = pair.topic("headers")
    framed = avro(source, topic, VALUE, person(1))
    header = ("__value_schema_id", framed[:5])
    pair.produce(topic, [Record(value=framed)] * 3)
    pair.produce(topic, [Record(value=framed[5:], headers=[header])] * 2)
    flow = flow_between(
        registries,
        pair,
        [topic],
        offsets="preserved",
        replication_policy_class="IdentityReplicationPolicy",
        schemas_ids_in={topic: "value"},
    )

    assert not failures(copy_planned(flow, plan_now(flow)))

    copied = read_all(pair.backup.bootstrap, topic)[0]
    assert [it.offset for it in copied] == [0, 1, 2, 3, 4]
    read = AvroDeserializer(target)
    for record in copied:
        context = SerializationContext(topic, VALUE, headers=list(record.headers))
        assert read(record.value, context) == person(1)
    assert copied[0].value[:5] == copied[4].headers[0][1] != framed[:5]


def test_a_map_that_is_no_longer_true_is_told_and_replaced(
    pair: Pair, registries: Registries
) -> None:
    source, _ = map(client_of, registries)
    topic = pair.topic("moved")
    framed = avro(source, topic, VALUE, person(1))
    pair.produce(topic, [Record(value=framed)])
    flow = flow_between(registries, pair, [topic])
    plan_now(flow)
    state, number = flow_state(flow), int.from_bytes(framed[1:5], "big")
    known = stored_schemas(state)
    wrong = tuple(replace(it, target_id=it.target_id + 1) for it in known.schemas)
    gone = MirroredSchema(9_999_999, 1, "gone-value", 1)
    store_schemas(state, FlowSchemas((*wrong, gone), known.remote_topics))

    plan = Run(flow, "run-2").plan()
    plan_now(flow, "run-2")

    (note,) = [note.message for note in plan.remarks.notes if "other ids" in note.message]
    assert str(number) in note
    assert stored_schemas(state) == known


def test_ids_that_were_changed_between_two_steps_are_given_to_no_record(
    pair: Pair, registries: Registries
) -> None:
    topic = pair.topic("forged")
    pair.produce(topic, [Record(value=avro(client_of(registries[0]), topic, VALUE, person(1)))])
    flow = flow_between(registries, pair, [topic])
    plan = plan_now(flow)
    # As a user who writes in the state folder: of the flow, and of the run.
    for folder in (flow_state(flow), Run(flow, "run-1")._folder.files):
        known = stored_schemas(folder)
        wrong = tuple(replace(it, target_id=it.target_id + 1) for it in known.schemas)
        store_schemas(folder, replace(known, schemas=wrong))

    with pytest.raises(FerryError, match="not those that both registries have given"):
        Run(flow, "run-1").mirror(no_spark, expected=plan.digest)

    assert pair.copied(flow, topic) == {0: []}


def test_what_an_earlier_run_has_copied_is_not_proved_by_ids_that_are_no_more(
    pair: Pair, registries: Registries, spark: SparkSource
) -> None:
    topic = pair.topic("unproved")
    pair.produce(topic, [Record(value=avro(client_of(registries[0]), topic, VALUE, person(1)))])
    flow = flow_between(registries, pair, [topic])
    assert not failures(copy_planned(flow, plan_now(flow)))
    # As if the target's registry had had other schemas then.
    folder = Run(flow, "run-1")._folder.files
    known = stored_schemas(folder)
    others = tuple(replace(it, target_digest="another") for it in known.schemas)
    store_schemas(folder, replace(known, schemas=others))
    this = Run(flow, "run-2")
    this.plan()
    this.sync_topics()
    this.mirror(no_spark)

    with pytest.raises(VerificationFailed, match="has other schemas than before, or none"):
        this.verify(spark)


@pytest.mark.long
def test_what_a_transform_rule_leaves_gets_its_ids_too(
    pair: Pair, registries: Registries, spark: SparkSource
) -> None:
    source, target = map(client_of, registries)
    topic = pair.topic("ruled")
    value = avro(source, topic, VALUE, person(1))
    pair.produce(
        topic,
        [Record(key=b"%d" % i, value=value, headers=[("n", b"%d" % (i % 2))]) for i in range(10)],
    )
    # The subject of another schema is named after the record, and is not among those that the flow mirrors.
    late = source.register_schema("com.acme.Late", Schema(json.dumps("bytes")))
    pair.produce(
        topic, [Record(value=b"\0" + late.to_bytes(4, "big") + b"\2x", headers=[("n", b"0")])]
    )
    rule = {"topics": [topic], "where": "headers['n'] = '0'"}
    flow = flow_between(registries, pair, [topic], transform=[rule])

    report = run_all(flow, "run-1", spark).report()

    assert report
    assert report.state == "verified"
    *copied, last = pair.copied(flow, topic)[0]
    # The next run does not ask for it again.
    assert (
        int.from_bytes((last.value or b"")[1:5], "big")
        == stored_schemas(flow_state(flow)).ids[late]
    )
    # Nor does it forget it: both registries still have it under these ids.
    plan_now(flow, "run-2")
    assert late in stored_schemas(flow_state(flow)).ids
    assert [it.key for it in copied] == [b"0", b"2", b"4", b"6", b"8"]
    for record in copied:
        assert from_avro(target, remote(flow, topic), VALUE, record.value) == person(1)


def test_records_get_no_ids_by_what_another_registry_said_of_the_source(
    pair: Pair, registries: Registries
) -> None:
    """The source's registry is exchanged for one in which its ids are of other schemas, or of none."""
    source, _ = map(client_of, registries)
    topic = pair.topic("exchanged")
    framed = avro(source, topic, VALUE, person(1))
    pair.produce(topic, [Record(value=framed)])
    flow = flow_between(registries, pair, [topic])
    assert not failures(copy_planned(flow, plan_now(flow)))
    pair.produce(topic, [Record(value=framed)])

    exchanged = flow_between((registries[1], registries[1]), pair, [topic])
    plan = plan_now(exchanged, "run-2")
    (failure,) = failures(copy_planned(exchanged, plan))

    number = int.from_bytes(framed[1:5], "big")
    notes = [str(note) for note in plan.remarks.notes]
    assert any(f"has no subject {topic}-value any more" in note for note in notes)
    assert any(f"{number} were mirrored before" in note for note in notes)
    assert f"the schema {number} is not known" in failure
    assert len(pair.copied(flow, topic)[0]) == 1


def test_a_backfill_gives_its_records_their_ids_too(pair: Pair, registries: Registries) -> None:
    source, target = map(client_of, registries)
    topic = pair.topic("filled")
    value = avro(source, topic, VALUE, person(1))
    pair.produce(topic, [Record(value=value, timestamp=NOW + i) for i in range(4)])
    flow = flow_between(registries, pair, [topic], auto_offset_reset="latest")
    this = Run(flow, "backfill")
    this.plan(RunOptions(window=Window(NOW + 1, NOW + 3)))
    plan = this.sync_topics()
    assert not failures(pin_positions(flow, plan.run, plan.pins))

    assert not failures(copy_planned(flow, plan))

    copied = pair.copied(flow, topic)[0]
    assert [it.timestamp for it in copied] == [NOW + 1, NOW + 2]
    assert from_avro(target, remote(flow, topic), VALUE, copied[1].value) == person(1)


def test_a_registry_that_knows_no_import_mode_cannot_keep_ids(
    pair: Pair, registries: Registries
) -> None:
    source, target = map(client_of, registries)
    topic = pair.topic("kept")
    value = avro(source, topic, VALUE, person(1))
    pair.produce(topic, [Record(value=value)])
    flow = flow_between(registries, pair, [topic], sync_schemas="keep-ids")

    plan = plan_now(flow)

    assert not failures(copy_planned(flow, plan))
    assert any("does not set the mode of" in it for it in plan.remarks.unapplied)
    assert f"{remote(flow, topic)}-value" not in target.get_subjects()
    (copied,) = pair.copied(flow, topic)[0]
    assert copied.value == value
