"""Rules in Spark SQL between two real clusters: what is left out, what changes, and that all of it is proved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafka_ferry.batches.record_format.codecs import ZSTD
from kafka_ferry.batches.record_format.content import Content
from kafka_ferry.batches.record_format.records import dense_batch
from kafka_ferry.clock import now_ms
from kafka_ferry.config import load_flows
from kafka_ferry.errors import ConfigError, FerryError
from kafka_ferry.model import RunOptions, TopicPartition, Window
from kafka_ferry.model.results.failures import RangesFailed
from kafka_ferry.runs import Run
from kafka_ferry.runs.certificates import find_certificates
from kafka_ferry.spark.session import SparkSource, terminal_spark
from kafka_ferry.spark.transforms import checked_rules
from kafka_ferry.wire import connect
from kafka_ferry.wire.produce import produce
from tests.support.records.builders import Record, create_topic, read_all
from tests.support.runs.flows import ledger_rows, make_flow
from tests.support.runs.pair import Pair
from tests.support.runs.proof import plan_a_day_later, run_all
from tests.support.waiting import wait_until

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSource]:
    with terminal_spark("transforms", 2) as spark:
        yield spark


def send(pair: Pair, topic: str, *values: bytes) -> None:
    """Write values as one batch to the source, as no client of a library's packs them."""
    contents = [Content(b"k", value).encode() for value in values]
    records = [(at, now_ms(), b"\0", content) for at, content in enumerate(contents)]
    partition = TopicPartition(topic, 0)
    with connect(pair.flow([topic]).source) as cluster:
        leader = cluster.leaders([partition])[partition].node
        answer = produce(cluster, leader, partition, dense_batch(records, ZSTD).encode())
    assert not answer.error_code


@pytest.mark.long
@pytest.mark.timeout(600)
def test_some_kilobytes_that_decompress_to_much_more_end_neither_spark_nor_another_partition(
    pair: Pair, spark: SparkSource
) -> None:
    topic, other = pair.topic("packed"), pair.topic("other", [Record(value=b"v")])
    rule = {
        "topics": [topic],
        "format": {"value": "json"},
        "set": {"value.a": "upper(value.a)"},
    }
    flow = pair.flow([topic, other], transform=[rule], **{"on.transform.error": "dead-letter"})
    send(pair, topic, *[b'{"a":"' + b"x" * MIB + b'"}'] * 100)
    send(pair, topic, b'{"a":"' + b"y" * (60 * MIB) + b'"}')

    report = run_all(flow, "run-1", spark).report()

    assert report
    assert (report.state, report.counts.records) == ("verified", 101)
    assert report.counts.reasons == {"dead-lettered": 1}
    assert report.counts.rebuilt["too large to be changed at once"] == 2
    values = {it.value for it in pair.copied(flow, topic)[0]}
    assert values == {b'{"a":"' + b"X" * MIB + b'"}'}


@pytest.mark.long
def test_a_filter_by_header_leaves_records_out_with_a_reason(
    pair: Pair, spark: SparkSource
) -> None:
    topic = pair.topic(
        "orders",
        [
            Record(
                key=b"%d" % i,
                value=b"v%d" % i,
                headers=[("region", b"eu" if i % 3 == 0 else b"us"), ("n", None)],
                partition=i % 2,
            )
            for i in range(300)
        ],
        partitions=2,
    )
    flow = pair.flow(
        [topic],
        transform=[{"topics": ["orders.*"], "where": "headers['region'] = 'eu'"}],
        certificates_enabled=True,
    )

    report = run_all(flow, "run-1", spark).report()

    assert report
    assert report.state == "verified"
    assert (report.counts.records, report.counts.reasons) == (100, {"filtered": 200})
    assert [*map(str, report.counts.rules)] == ["rule 1 left out 200 of 300 records"]
    assert report.counts.rules[0].by_name == {"read:headers['region']": 300}
    copied = [it for of in pair.copied(flow, topic).values() for it in of]
    assert sorted(int(it.key) for it in copied) == list(range(0, 300, 3))
    assert {tuple(it.headers) for it in copied} == {(("region", b"eu"), ("n", None))}

    (rule,) = flow.transform
    assert {row["transform"] for row in ledger_rows(flow)} == {rule.fingerprint()}
    (certificate,) = find_certificates(flow).all
    (certified,) = json.loads(certificate.header.rules["transform"])
    assert (certified["fingerprint"], certified["copied"]) == (rule.fingerprint(), [topic])
    assert certified["where"] == rule.where
    assert certificate.header.reasons == {"filtered": 200}

    # By the rule all was dealt with; without it, what it has left out is still to be copied, and nothing else.
    whole = RunOptions(window=Window(0, now_ms() + 60_000))
    (note,) = (it for it in Run(flow, "none").plan(whole).remarks.notes if it.topic == topic)
    assert "but those that were left out, in the ranges with any of them: filtered 200" in str(note)
    plain = pair.flow([topic], certificates_enabled=True)
    for run, records in (("backfill", 200), ("again", 0)):
        backfill = Run(plain, run)
        backfill.plan(whole)
        backfill.sync_topics()
        backfill.mirror(spark)
        backfill.verify(spark)
        backfill.sync_groups()
        backfill.publish()
        done = backfill.report()
        assert done
        assert (done.state, done.counts.records) == ("verified", records)
    copied = [it for of in pair.copied(flow, topic).values() for it in of]
    assert sorted(int(it.key) for it in copied) == list(range(300))


@pytest.mark.usefixtures("without_docs")
def test_a_certificate_names_the_rules_by_which_records_were_copied_and_not_those_of_the_file(
    pair: Pair, spark: SparkSource
) -> None:
    topic = pair.topic("changed", [Record(value=b"a"), Record(value=b"b")])
    kept = pair.topic("kept", [Record(value=b"c")])
    options = {"certificates_enabled": True}
    rules = [{"topics": [topic], "where": "value = 'a'"}, {"topics": [kept], "where": "true"}]
    first = pair.flow([topic, kept], transform=rules, **options)
    run = Run(first, "run-1")
    run.plan()
    run.sync_topics()
    run.mirror(spark)
    run.verify(spark)
    run.sync_groups()
    used = [first.fingerprint_of(it) for it in (topic, kept)]

    now = pair.flow([topic], transform=[{"topics": [topic], "where": "value = 'b'"}], **options)
    Run(now, "run-1").publish()

    (certificate,) = find_certificates(now).all
    said = {it["fingerprint"]: it for it in json.loads(certificate.header.rules["transform"])}
    assert [said[it]["copied"] for it in used] == [[topic], [kept]]
    assert {it["unknown"] for it in said.values()} == {
        "the flow's file has changed since, and no longer has this rule"
    }
    assert json.loads(certificate.header.rules["topics"]) == [topic, kept]


def a_customer(number: int) -> bytes:
    """JSON with what no parser keeps: digits, white space, order, a name twice."""
    return (
        f'{{ "id": {number}, "amount": 1.50,\n  "email": "{number}@example.org", "ip":"10.0.0.{number}",'
        f' "who": {{"name": "N{number}", "age": 1E2}}, "ip" : "again" }}'
    ).encode()


def test_fields_and_headers_are_masked_and_everything_else_stays_byte_for_byte(
    pair: Pair, spark: SparkSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRY_SALT", "not-for-anybody")
    topic = pair.topic("customers")
    records = [
        Record(
            key=b"%d" % i,
            value=a_customer(i),
            headers=[("cookie", b"c"), ("kept", b"1"), ("cookie", b"d")],
            timestamp=1_000 + i,
        )
        for i in range(50)
    ]
    pair.produce(topic, [*records, Record(key=b"gone", value=None)])
    rule = {
        "topics": [topic],
        "format": {"value": "json"},
        "types": {
            "value.amount": "decimal(10,2)",
            "value.who": "struct<name string>",
            "value.unused": "int",
        },
        "set": {
            "value.email": "sha2(concat(value.email, secret('salt')), 256)",
            "value.who.name": None,
            "value.amount": "value.amount * 2",
            "value.missing": "value.missing",
            "value.new": "upper(value.who.name)",
            "headers['masked']": "'true'",
        },
        "drop": ["value.ip", "headers['cookie']"],
    }
    secrets = {"config.providers": ["env"], "transform.secrets": {"salt": "${env:FERRY_SALT}"}}
    flow = pair.flow([topic], transform=[rule], **secrets)

    report = run_all(flow, "run-1", spark).report()

    assert report
    assert (report.state, report.counts.records) == ("verified", 51)
    (counts,) = report.counts.rules
    assert (counts.changed, counts.records) == (51, 51)
    assert counts.by_name == {
        "set:value.email": 50,
        "read:value.email": 50,
        "set:value.who.name": 50,
        "read:value.who.name": 50,
        "set:value.amount": 50,
        "read:value.amount": 50,
        "set:value.missing": 0,
        "read:value.missing": 0,
        "set:value.new": 0,
        "added:value.new": 50,
        "set:headers['masked']": 0,
        "added:headers['masked']": 51,
        # They have it twice.
        "drop:value.ip": 100,
        "drop:headers['cookie']": 50,
    }
    assert sum(row.rule.evaluated for row in report.proof.ranges) == 51
    *masked, tombstone = pair.copied(flow, topic)[0]
    assert (tombstone.key, tombstone.value) == (b"gone", None)
    for i, record in enumerate(masked):
        digest = hashlib.sha256(b"%d@example.orgnot-for-anybody" % i).hexdigest()
        assert record.value is not None
        assert record.value.decode() == (
            f'{{ "id": {i}, "amount": 3.00,\n  "email": "{digest}",'
            f' "who": {{"name": null, "age": 1E2}},"new":"N{i}"}}'
        )
        assert list(record.headers) == [("kept", b"1"), ("masked", b"true")]
        assert record.timestamp == 1_000 + i
    everything = [*Path(flow.state_path).rglob("*"), Path(flow.file)]
    assert not [it for it in everything if it.is_file() and b"not-for-anybody" in it.read_bytes()]


@pytest.mark.short("fail", "dead-letter")
@pytest.mark.parametrize("policy", ["fail", "dead-letter", "pass"])
@pytest.mark.usefixtures("without_docs")
def test_a_record_for_which_a_rule_fails_is_never_changed_silently(
    pair: Pair, spark: SparkSource, policy: str
) -> None:
    topic = pair.topic("broken")
    values = [b'{"n": 1}', b'{"n": 2}', b'{"n": "x"}', b"no json", b'{"n": 5}']
    pair.produce(topic, [Record(value=value) for value in values])
    rule = {
        "topics": [topic],
        "format": {"value": "json"},
        "set": {"value.n": "cast(value.n as int) + 1"},
    }
    flow = pair.flow([topic], transform=[rule], on_transform_error=policy)

    if policy == "fail":
        with pytest.raises(RangesFailed, match=r"at offset 2 of .*: rule 1: set value.n failed"):
            run_all(flow, "run-1", spark)
    else:
        assert run_all(flow, "run-1", spark).report()

    copied = [it.value for it in pair.copied(flow, topic)[0]]
    changed = [b'{"n": 2}', b'{"n": 3}', b'{"n": 6}']
    if policy == "fail":
        assert copied == changed[:2]
    elif policy == "pass":
        assert copied == [*changed[:2], *values[2:4], changed[2]]
    else:
        assert copied == changed
        letters = read_all(pair.backup.bootstrap, flow.dead_letter_name)[0]
        assert [letter.value for letter in letters] == values[2:4]
        errors = [dict(letter.headers)["ferry.error"] for letter in letters]
        assert errors == [
            b"rule 1: set value.n failed",
            b"rule 1: reading the value as json failed",
        ]


@pytest.mark.long
@pytest.mark.usefixtures("without_docs")
def test_filtered_records_are_offsets_without_a_record_where_offsets_are_preserved(
    pair: Pair, spark: SparkSource
) -> None:
    topic = pair.topic("kept", [Record(key=b"%d" % i, value=b"v") for i in range(40)])
    rule = {"topics": [topic], "format": {"key": "string"}, "where": "cast(key as int) % 4 != 0"}
    flow = pair.flow([topic], transform=[rule], offsets="preserved")

    report = run_all(flow, "run-1", spark).report()

    assert report
    assert (report.state, report.counts.reasons) == ("verified", {"filtered": 10})
    copied = pair.copied(flow, topic)[0]
    assert [(it.offset, it.key) for it in copied] == [(i, b"%d" % i) for i in range(40) if i % 4]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"where": "nothing(value)"}, "uses nothing, which is not among"),
        ({"where": "rand() > 0.5"}, "uses rand, which is not among"),
        ({"where": "timestamp > current_timestamp()"}, "uses current_timestamp, which is not"),
        ({"where": "timestamp > current_date"}, "depends on chance, the time"),
        ({"where": "partition = (select 1)"}, "one record"),
        ({"where": "count(*) > 1"}, "uses count, which is not among the functions over one record"),
        ({"where": "'yes'"}, "gives string where it must give true or false"),
        ({"set": {"value": "array(1)"}}, "use to_json"),
        ({"set": {"value": "(1"}}, "PARSE_SYNTAX_ERROR"),
        ({"set": {"value": "nope"}}, "nope"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_before_anything_is_copied(
    pair: Pair, spark: SparkSource, rule: dict[str, object], why: str
) -> None:
    flow = pair.flow(["orders"], transform=[rule | {"topics": ["orders"]}])

    with pytest.raises(ConfigError) as error:
        checked_rules(spark(), flow)

    assert why in str(error.value)
    assert "transform, rule 1 (orders)" in str(error.value)


@pytest.mark.usefixtures("without_docs")
def test_a_changed_rule_is_in_the_plan_and_holds_from_where_the_ledger_says(
    pair: Pair, spark: SparkSource
) -> None:
    topic = pair.topic("changing", [Record(key=b"a"), Record(key=b"b")])
    rule = {"topics": [topic], "where": "key = X'61'"}
    flow = pair.flow([topic], transform=[rule])
    first = run_all(flow, "run-1", spark)
    pair.produce(topic, [Record(key=b"a"), Record(key=b"b")])
    changed = pair.flow([topic])

    second = run_all(changed, "run-2", spark)

    (change,) = first.stored_plan().rules
    assert (change.rule, change.before) == (1, None)
    assert not first.stored_plan().changes.keys() & {"transform_rules_to_change"}
    (change,) = second.stored_plan().rules
    assert (change.rule, change.before) == (0, flow.transform[0].fingerprint())
    assert second.stored_plan().changes == {"transform_rules_to_change": 1}
    assert [it.key for it in pair.copied(flow, topic)[0]] == [b"a", b"a", b"b"]
    told = {(row["start"], row["transform"]) for row in ledger_rows(flow)}
    assert told == {(0, flow.transform[0].fingerprint()), (2, "")}


def test_a_rule_that_cannot_be_stops_the_plan(pair: Pair, spark: SparkSource) -> None:
    topic = pair.topic("wrong", [Record(value=b"1")])
    rule = {"topics": [topic], "where": "uuid() = 'a'"}
    flow = pair.flow([topic], transform=[rule])

    with pytest.raises(ConfigError, match="uses uuid, which is not among"):
        Run(flow, "run-1").plan(spark=spark)


MASKS = """
from dataclasses import replace

ALLOWED = ("eu", "uk")


def by_country(record, secrets):
    if dict(record.headers).get("country", b"").decode() not in ALLOWED:
        return None
    if record.value is None:
        raise KeyError(secrets["key"])
    if record.value == b"exit":
        raise SystemExit(0)
    masked = record.value.replace(b"ann", secrets["salt"].encode())
    return replace(record, value=masked)
"""


@pytest.mark.long
@pytest.mark.parametrize("offsets", ["translated", "preserved"])
def test_a_python_function_does_what_sql_does_not(
    offsets: str, pair: Pair, spark: SparkSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRY_SALT", "not-for-anybody")
    monkeypatch.setenv("FERRY_KEY", '-----BEGIN-----\nit\'s "not-for-anybody"\n')
    topic, other = pair.unique("people"), pair.unique("others")
    create_topic(pair.primary.bootstrap, topic)
    create_topic(pair.primary.bootstrap, other)
    countries = (b"eu", b"us", b"uk")
    records = [
        Record(value=b"ann %d" % i, headers=(("country", countries[i % 3]),)) for i in range(30)
    ]
    pair.produce(topic, records, compression="zstd")
    eu = (("country", b"eu"),)
    pair.produce(topic, [Record(value=None, headers=eu), Record(value=b"exit", headers=eu)])
    pair.produce(other, records)
    (pair.folder / "transforms").mkdir()
    (pair.folder / "transforms" / "masks.py").write_text(MASKS)
    flow = make_flow(
        pair.folder,
        *(pair.primary, pair.backup, [topic, other]),
        config_providers=["env"],
        transform_secrets={"salt": "${env:FERRY_SALT}", "key": "${env:FERRY_KEY}"},
        transform_functions=str(pair.folder / "transforms"),
        transform=[{"topics": [topic], "function": "masks.by_country"}],
        on_transform_error="dead-letter",
        offsets=offsets,
    )

    report = run_all(flow, "run-1", spark).report()

    assert report
    assert (report.state, report.counts.reasons["filtered"]) == ("verified", 10)
    assert sum(row.rule.evaluated for row in report.proof.ranges) == 32
    assert [*map(str, report.counts.rules)] == ["rule 1 changed 20 and left out 10 of 30 records"]
    ((*copied,),) = pair.copied(flow, topic).values()
    wanted = [i for i in range(30) if i % 3 != 1]
    assert [it.value for it in copied] == [b"not-for-anybody %d" % i for i in wanted]
    if offsets == "preserved":
        assert [it.offset for it in copied] == wanted
    (dead,) = read_all(pair.backup.bootstrap, flow.dead_letter_name).values()
    errors = [dict(letter.headers)["ferry.error"] for letter in dead]
    failed = b"masks.by_country failed: "
    assert errors == [failed + b"KeyError: '******'", failed + b"SystemExit: 0"]
    ((*same,),) = pair.copied(flow, other).values()
    assert [it.value for it in same] == [it.value for it in records]
    written = [path for path in (pair.folder / "state").rglob("*") if path.is_file()]
    assert not [path for path in written if b"not-for-anybody" in path.read_bytes()]

    (pair.folder / "transforms" / "masks.py").write_text(MASKS.replace('"uk"', '"us"'))
    pair.produce(topic, records[:1])
    (changed,) = Run(flow, "run-2").plan(spark=spark).rules
    assert changed.before not in ("", None, changed.fingerprint)


@pytest.mark.usefixtures("without_docs")
def test_transforms_of_mirrormaker_2s_properties_do_what_they_do_there(
    pair: Pair, spark: SparkSource
) -> None:
    topic = pair.topic("orders")
    marks = (("it's", None), ("cookie", b"c"))
    pair.produce(
        topic,
        [
            Record(value=b"gone by its header", headers=marks[:1]),
            Record(key=b"gone", value=None),
            Record(value=b"kept", headers=marks[1:]),
        ],
    )
    file = pair.folder / "mm2.properties"
    file.write_text(rf"""
        clusters = primary, backup
        primary.bootstrap.servers = {pair.primary.bootstrap}
        backup.bootstrap.servers = {pair.backup.bootstrap}
        primary->backup.enabled = true
        topics = {topic}
        replication.factor = 1
        state.dir = {pair.folder / "state"}
        primary->backup.transforms = marked, tombstones, others, drop, mark
        primary->backup.transforms.marked.type = Filter
        primary->backup.transforms.marked.predicate = marked
        primary->backup.transforms.tombstones.type = org.apache.kafka.connect.transforms.Filter
        primary->backup.transforms.tombstones.predicate = tombstone
        primary->backup.transforms.others.type = Filter
        primary->backup.transforms.others.predicate = named
        primary->backup.transforms.others.negate = true
        primary->backup.transforms.drop.type = DropHeaders
        primary->backup.transforms.drop.headers = cookie
        primary->backup.transforms.mark.type = InsertHeader
        primary->backup.transforms.mark.header = from
        primary->backup.transforms.mark.value.literal = it's \\ here
        primary->backup.predicates = marked, tombstone, named
        primary->backup.predicates.marked.type = HasHeaderKey
        primary->backup.predicates.marked.name = it's
        primary->backup.predicates.tombstone.type = RecordIsTombstone
        primary->backup.predicates.named.type = TopicNameMatches
        primary->backup.predicates.named.pattern = primary\\.orders.*
        """)
    (flow,) = load_flows(file)

    report = run_all(flow, "run-1", spark).report()

    assert report
    assert report.counts.reasons == {"filtered": 2}
    ((copied,),) = pair.copied(flow, topic).values()
    assert (copied.value, copied.headers) == (b"kept", (("from", b"it's \\ here"),))


@pytest.mark.long
def test_a_broker_that_fails_in_mid_copy_costs_and_doubles_nothing(
    pair: Pair, spark: SparkSource
) -> None:
    topic = pair.topic("again", partitions=4)
    records = [
        Record(key=b"%d" % i, value=b'{"n":%d, "x":"%s"}' % (i, b"y" * 500), partition=i % 4)
        for i in range(60_000)
    ]
    pair.produce(topic, records)
    rule = {
        "topics": [topic],
        "format": {"value": "json"},
        "where": "cast(value.n as int) % 2 = 0",
        "set": {"value.x": "'z'"},
    }
    flow = pair.flow(
        [topic], transform=[rule], writers=1, transaction_max_bytes=50_000, fetch_max_bytes=200_000
    )
    this = Run(flow, "run-1")
    this.plan(spark=spark)
    this.sync_topics()

    def disturb() -> None:
        wait_until(lambda: any(pair.copied(flow, topic).values()), 120)
        pair.backup.kill()
        pair.backup.restart()

    with ThreadPoolExecutor(1) as pool:
        disturbing = pool.submit(disturb)
        outcomes = this.mirror(spark)
        disturbing.result()
    assert not [it.failure for it in outcomes if it.failure]
    this.verify(spark)
    this.sync_groups()
    this.publish()

    copied = [it for of in pair.copied(flow, topic).values() for it in of]
    assert sorted(int(it.key or b"") for it in copied) == list(range(0, 60_000, 2))
    assert {it.value for it in copied} == {b'{"n":%d, "x":"z"}' % i for i in range(0, 60_000, 2)}


@pytest.mark.long
@pytest.mark.usefixtures("without_docs")
def test_a_topic_with_a_rule_and_nothing_new_does_not_stop_the_flow(
    pair: Pair, spark: SparkSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = pair.topic("empty")
    topic = pair.topic("quiet", [Record(key=b"%d" % i, value=b"v") for i in range(20)])
    rule = {"topics": [topic, empty], "where": "key > X'35'"}
    flow = pair.flow([topic, empty], transform=[rule])
    first = run_all(flow, "run-1", spark)
    plan_a_day_later(monkeypatch)

    second = run_all(flow, "run-2", spark)

    assert {(it.topic, len(it)) for it in first.stored_plan().ranges} == {(topic, 20), (empty, 0)}
    assert {(it.topic, len(it)) for it in second.stored_plan().ranges} == {(topic, 0), (empty, 0)}
    assert [it.key for it in pair.copied(flow, topic)[0]] == [b"6", b"7", b"8", b"9"]


def test_a_rule_that_changes_between_plan_and_copy_stops_the_copy(
    pair: Pair, spark: SparkSource
) -> None:
    topic = pair.topic("swapped", [Record(value=b"1")])
    Run(pair.flow([topic]), "run-1").plan()
    rule = {"topics": [topic], "where": "value is null"}
    this = Run(pair.flow([topic], transform=[rule]), "run-1")
    this.sync_topics()

    with pytest.raises(FerryError, match="has changed since the run was planned"):
        this.mirror(spark)

    assert pair.copied(this.flow, topic)[0] == []
