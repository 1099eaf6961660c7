"""What the expressions of rules see, and what they may use: the same in the plan's check and in the run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafka_ferry.errors import ConfigError
from kafka_ferry.model.results.failures import RangesFailed
from kafka_ferry.runs import Run
from kafka_ferry.spark.session import SparkSource, terminal_spark
from kafka_ferry.spark.transforms import checked_rules
from kafka_ferry.spark.transforms.arrow_rows import ROWS
from kafka_ferry.spark.transforms.query import RulesQuery, rules_session
from tests.support.records.builders import Record, read_all
from tests.support.runs.command_line import ferry_process
from tests.support.runs.pair import Pair
from tests.support.runs.proof import run_all
from tests.support.servers.http_server import QuietHandler, http_server

# More fields than Spark shows of a type.
_WIDE = f"struct({'1, ' * 30} topic)"
_MANY = " ".join(f"when '{place}' then 'a'" for place in range(60))
_TYPES = ",".join(f"a{place}:int" for place in range(30))
SALT = {"config.providers": ["env"], "transform.secrets": {"salt": "${env:FERRY_SALT}"}}


def _nested(expression: str, times: int) -> str:
    """An expression of itself, and so on, of the topic."""
    return expression.replace("{}", _nested(expression, times - 1)) if times else "topic"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSource]:
    with terminal_spark("expressions", 2) as spark:
        yield spark


@pytest.fixture(autouse=True)
def _salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRY_SALT", "not-for-anybody")


def refusal(pair: Pair, spark: SparkSource, rule: dict[str, object]) -> str:
    """What the plan says of a rule for the topic orders."""
    flow = pair.flow(["orders"], transform=[rule | {"topics": ["orders"]}], **SALT)
    with pytest.raises(ConfigError) as error:
        checked_rules(spark(), flow)
    return str(error.value)


def test_what_expressions_read_by_name_is_known_and_what_they_only_ask_for(
    pair: Pair, spark: SparkSource
) -> None:
    rule = {
        "topics": ["orders"],
        "format": {"value": "json"},
        "where": "headers['region'] = 'eu' and headers.test is null and coalesce(value.a.b, value.c) > 'x'",
        "set": {
            "value.list": "to_json(filter(from_json(value.list, 'array<int>'), x -> x > value.least))",
            "value.c": "upper(value.c)",
            "value.d": "nvl2(headers['h'], value.`odd name`, 'none')",
        },
    }
    flow = pair.flow(["orders"], transform=[rule])

    (reads,) = RulesQuery(rules_session(spark()), flow).reads

    assert {read.name for read in reads if read.verb == "read"} == {
        *("headers['region']", "value.list", "value.least", "value.c")
    }
    assert {read.name for read in reads if read.verb == "sought"} == {
        *("headers['test']", "headers['h']", "value.a.b", "value.odd name")
    }


@pytest.mark.usefixtures("without_docs")
def test_a_star_is_the_documented_columns_and_holds_no_secret(
    pair: Pair, spark: SparkSource
) -> None:
    topic = pair.topic("stars", [Record(key=b"k", value=b"v", headers=[("h", b"1"), ("g", b"2")])])
    rule = {
        "topics": [topic],
        "format": {"key": "string", "value": "string"},
        "set": {"value": "to_json(struct(*))", "headers['salt']": "sha1(secret('salt'))"},
    }
    flow = pair.flow([topic], transform=[rule], **SALT)

    report = run_all(flow, "run-1", spark).report()

    assert report
    assert report.state == "verified"
    ((copied,),) = pair.copied(flow, topic).values()
    assert copied.value is not None
    assert b"not-for-anybody" not in copied.value
    found = json.loads(copied.value)
    assert set(found) == {
        *("topic", "partition", "offset", "timestamp", "key", "value", "headers", "header_list")
    }
    assert (found["key"], found["value"]) == ("k", "v")
    assert found["headers"] == {"h": "1", "g": "2"}
    assert [it["name"] for it in found["header_list"]] == ["h", "g"]


@pytest.mark.parametrize(
    "expression",
    [
        "raise_error(secret('salt'))",
        "cast(cast(secret('salt') as int) as string)",
        "cast(to_timestamp(secret('salt'), 'yyyy') as string)",
        "regexp_replace(topic, '(' || secret('salt'), '')",
    ],
)
def test_an_error_of_an_expression_says_no_secret(
    pair: Pair, spark: SparkSource, expression: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark's own errors quote what could not be read."""
    topic = pair.topic("errors", [Record(key=b"k", value=b"v")])
    rule = {"topics": [topic], "set": {"value": expression}}
    flow = pair.flow([topic], transform=[rule], **SALT)
    this = Run(flow, "run-1")
    this.plan()
    this.sync_topics()

    with pytest.raises(RangesFailed) as error:
        this.mirror(spark)

    assert "set value failed" in str(error.value)
    stored = [it for it in Path(flow.state_path).rglob("*") if it.is_file()]
    said = [str(error.value).encode(), caplog.text.encode(), *(it.read_bytes() for it in stored)]
    assert len(said) > 2
    assert not [it for it in said if b"not-for-anybody" in it]


def test_a_field_of_bytes_is_refused_with_what_gives_them_fields(
    pair: Pair, spark: SparkSource
) -> None:
    said = refusal(pair, spark, {"where": "value.amount > 10"})

    assert "where" in said and "such as format: {value: json}" in said


def test_a_text_without_quotes_is_refused_with_where_to_put_them(
    pair: Pair, spark: SparkSource
) -> None:
    said = refusal(pair, spark, {"set": {"key": "masked"}})

    assert "set key" in said and "single quotes within the expression" in said


def test_no_variable_of_spark_s_reaches_an_expression(pair: Pair, spark: SparkSource) -> None:
    """Spark would put the driver's environment and properties there, also where one variable hides another."""
    topic = pair.topic("variables", [Record(key=b"k", value=b"v")])
    texts = {
        "a": "${a b:${env:FERRY_SALT}",
        "b": "${system:user.dir}",
        "c": "${spark:spark.app.name}",
        "d": "${hiveconf:spark.app.name}",
        "e": "${spark.app.name}",
    }
    rule = {
        "topics": [topic],
        "where": "'${spark.app.name}' = concat('$', '{spark.app.name}')",
        "set": {f"headers['{name}']": f"'{text}'" for name, text in texts.items()},
    }

    flow = pair.flow([topic], transform=[rule], **SALT)
    run_all(flow, "run-1", spark)

    ((copied,),) = pair.copied(flow, topic).values()
    assert {name: (value or b"").decode() for name, value in copied.headers} == texts


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("to_json(struct(*, secret('salt')))", "uses * beside secret()"),
        ("to_json(struct(* except (value), secret('salt')))", "uses * beside secret()"),
        ("secrets['salt']", "secrets"),
        ("concat(secret('salt'), secrets['salt'])", "secrets"),
        ("cast(_raw_rule as string)", "_raw_rule"),
        ("cast(_raw_secrets as string)", "_raw_secrets"),
        ("cast(rule as string)", "rule"),
        ("_read_value.it", "_read_value"),
        ("cast(filler as string)", "filler"),
        ("transform(array(1), x -> _raw_secrets['salt'])[0]", "_raw_secrets"),
    ],
)
def test_what_is_no_documented_column_is_out_of_reach(
    pair: Pair, spark: SparkSource, expression: str, why: str
) -> None:
    said = refusal(pair, spark, {"format": {"value": "string"}, "set": {"key": expression}})

    assert why in said
    assert "transform, rule 1 (orders), set key" in said
    assert "not-for-anybody" not in said


@pytest.mark.long
def test_what_only_a_lambda_names_is_there_when_the_rule_runs(
    pair: Pair, spark: SparkSource
) -> None:
    topic = pair.topic(
        "lambdas",
        [
            Record(
                key=b"k%d" % i, value=b'{"n":"%d","m":"x"}' % i, headers=[("h", b"not-for-anybody")]
            )
            for i in range(4)
        ],
    )
    rules = {
        "topics": [topic],
        "format": {"value": "json"},
        "where": "exists(array('k0', 'k2'), x -> x = cast(key as string))"
        " and exists(array('0', '2'), x -> x = value.n)"
        " and exists(array('h'), x -> headers[x] = secret('salt'))",
        "set": {"value.m": "transform(array('a'), value -> value)[0]"},
    }
    flow = pair.flow([topic], transform=[rules], **SALT)

    report = run_all(flow, "run-1", spark).report()

    assert report
    assert report.state == "verified"
    copied = pair.copied(flow, topic)[0]
    assert [it.value for it in copied] == [b'{"n":"0","m":"a"}', b'{"n":"2","m":"a"}']


@pytest.mark.short("string")
@pytest.mark.parametrize("form", ["string", "json"])
@pytest.mark.usefixtures("without_docs")
def test_a_format_that_no_expression_reads_changes_nothing(
    pair: Pair, spark: SparkSource, form: str
) -> None:
    topic = pair.topic("unread", [Record(key=b"k", value=b"\xff"), Record(key=b"l", value=None)])
    rule = {"topics": [topic], "format": {"value": form}, "where": "cast(key as string) = 'k'"}
    flow = pair.flow([topic], transform=[rule])

    report = run_all(flow, "run-1", spark).report()

    assert report
    assert report.state == "verified"
    assert [it.value for it in pair.copied(flow, topic)[0]] == [b"\xff"]


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("aes_encrypt(value, secret('salt'))", "aes_encrypt"),
        ("aes_encrypt(value, secret('salt'), 'GCM', 'DEFAULT', '')", "aes_encrypt"),
        ("builtin.aes_encrypt(value, secret('salt'))", "aes_encrypt"),
        ("identifier('aes_encrypt')(value, secret('salt'))", "identifier()"),
        ("reflect('java.lang.System', 'nanoTime')", "uses reflect"),
        ("(" * 2_000 + "value" + ")" * 2_000, "nested too deep"),
        ("schema_of_json(map('a', 1))", "makes no sense to Spark: java.lang.ClassCastException"),
        ("cast(cast(topic as decimal(99, 2)) as string)", "exceeds max precision"),
        ("version()", "version"),
        ("cast(timestamp > timestamp'now' as string)", "timestamp'now'"),
        ("cast(timestamp > timestamp '12:00:00' as string)", "timestamp '12:00:00'"),
        ('cast(date /* of */ "Today" as string)', "Today"),
        (r"cast(timestamp > timestamp'\156ow' as string)", r"timestamp'\156ow'"),
        (r"cast(timestamp > timestamp'\u000112:00' as string)", "may depend on the time"),
        (r"cast(timestamp > '\u000112:00' as string)", "today's date"),
        ("cast(cast('12:00:00' as timestamp) as string)", "today's date"),
        ("cast(cast(timestamp as date) > 'today' as string)", "a word for a day"),
        ("cast(cast('now' as timestamp_ntz) as string)", "a word for a day"),
        ("cast(to_date(concat('To', 'day UTC')) as string)", "a word for a day"),
        (f"to_json(cast({_WIDE} as struct<{_TYPES},z:timestamp>))", "to_timestamp"),
        (f"to_json(cast({_WIDE} as struct<{_TYPES},z:float>))", "cast(text as float)"),
        ("cast(theta_sketch_estimate(value) as string)", "theta_sketch_estimate"),
        ("to_json(str_to_map(cast(value as string)))", "builds a map"),
        ("to_json(map_from_entries(array(struct(topic, value))))", "builds a map"),
        ("cast(map_from_arrays(split(topic, ','), array(1))['a'] as string)", "builds a map"),
        ("map_concat(headers, map('a', 'b'))['a']", "builds a map"),
        ("map(topic, 'a', 'b', 'c')['b']", "builds a map"),
        ("transform_keys(headers, (k, v) -> v)['b']", "builds a map"),
        ("format_number(1, topic)", "format_number"),
        ("format_string('of %s', value)", "its place in memory"),
        ("printf('%2$s %1$h', map('a', topic), topic)", "its place in memory"),
        ("format_string('100%% %s', header_list)", "its place in memory"),
        ("format_string('at %1$-10tT', offset)", "time zone of the machine"),
        ("format_string(topic, offset)", "time zone of the machine"),
        ("cast(timestamp > 'T12:00' as string)", "today's date"),
        ("cast(timestamp > cast(key as string) as string)", "to_timestamp"),
        ("cast(to_timestamp(cast(key as string)) as string)", "to_timestamp"),
        ("cast(cast(array(topic) as array<timestamp>)[0] as string)", "to_timestamp"),
        ("cast(from_json(topic, 'a timestamp').a as string)", "to_timestamp"),
        (
            "cast(variant_get(to_variant_object(array(topic)), '$[0]', 'timestamp') as string)",
            "to_timestamp",
        ),
        ("cast(from_json(topic, 'a decimal(10,2)').a as string)", "cast(text as decimal)"),
        ("cast(from_csv(topic, 'a double').a as string)", "cast(text as double)"),
        ("cast(from_xml(topic, 'a array<decimal(9,0)>').a[0] as string)", "cast(text as decimal)"),
        (
            "cast(variant_get(to_variant_object(array(topic)), '$[0]', 'boolean') as string)",
            "cast(text as boolean)",
        ),
        ("cast(cast(split(topic, ',') as array<float>)[0] as string)", "cast(text as float)"),
        ("cast(from_xml(topic, 'a boolean').a as string)", "cast(text as boolean)"),
        ("get_json_object(topic, '$.a[*] [ * ].b')", "nested deep"),
        ("get_json_object(topic, concat('$[*]', '[*]'))", "write the path as a literal"),
        ("to_json(from_json(topic, 'a array<variant>'))", "nested deep"),
        ("to_json(from_xml(topic, 'variant'))", "nested deep"),
        ("cast(topic like any ('a%', '%a%b') as string)", "write a LIKE for each"),
        ("cast(topic not like all ('%a%_b%') as string)", "write a LIKE for each"),
        ("case when topic = 'a' then 'b' else " * 40 + "'c'" + " end" * 40, "within each other"),
        ("nvl(" * 40 + "topic" + ", 'a')" * 40, "within each other"),
        (_nested("cast({} like any (topic, topic || 'a') as string)", 25), "stands for more"),
        (_nested(f"case {{}} {_MANY} else topic end", 5), "stands for more"),
        (_nested("decode({}, " + "'a', 'b', " * 60 + "topic)", 5), "stands for more"),
        (_nested("cast({} between 'a' and 'b' as string)", 30), "stands for more"),
        (_nested("nullif({}, 'a')", 30), "stands for more"),
        (_nested("cast(nullifzero(cast({} as int)) as string)", 30), "stands for more"),
        (_nested("cast(to_number({}, '999') as string)", 30), "stands for more"),
        (_nested("from_csv({}, 'a string').a", 30), "stands for more"),
    ],
)
def test_what_may_give_something_else_the_next_time_or_take_hours_is_refused_by_name(
    pair: Pair, spark: SparkSource, expression: str, why: str
) -> None:
    said = refusal(pair, spark, {"set": {"value": expression}})

    assert why in said
    assert "transform, rule 1 (orders), set value" in said


def test_a_field_of_a_type_that_takes_hours_is_refused(pair: Pair, spark: SparkSource) -> None:
    rule = {
        "format": {"value": "json"},
        "types": {"value.b.interval": "int", "value.a": "array<interval>"},
        "where": "value.a is null or value.b.interval > 1",
    }

    assert "types: has an interval" in refusal(pair, spark, rule)
    rule["types"] = {"value.a": "array<varchar(3)>"}
    assert "is for columns of tables: write string" in refusal(pair, spark, rule)
    rule["types"] = {"value.a": "array<variant>"}
    assert "has a variant" in refusal(pair, spark, rule)
    rule["types"] = {"value.a": "map<array<int>, int>"}
    assert "types: [DATATYPE_MISMATCH" in refusal(pair, spark, rule)
    # Nor is a field that has such a name.
    rule["types"] = {"value.b.interval": "int", "value.a": "struct<interval: int>"}
    flow = pair.flow(["orders"], transform=[rule | {"topics": ["orders"]}])
    assert checked_rules(spark(), flow)


def evaluated(
    pair: Pair, spark: SparkSource, rule: dict[str, object], values: Sequence[bytes]
) -> list[Any]:
    """What a rule gives for records with these values."""
    flow = pair.flow(["orders"], transform=[rule])
    session = rules_session(spark())
    columns = {"rule": pa.array([0] * len(values), pa.int32()), "value": pa.array(values)}
    rows = pa.table(
        [columns.get(it.name, pa.nulls(len(values), it.type)) for it in ROWS], schema=ROWS
    )
    return RulesQuery(session, flow).with_results(session.createDataFrame(rows)).collect()


def test_a_text_that_takes_hours_to_become_a_number_fails_at_once(
    pair: Pair, spark: SparkSource
) -> None:
    """A far exponent, very many digits, or capital sigmas, whose small letters depend on all others."""
    slow = [b"1e-99999", b"1e9999999", b"9" * 100_000, "Σ".encode() * 20_000]
    rule = {
        "topics": ["orders"],
        "format": {"value": "string"},
        "set": {
            "headers['decimal']": "transform(array(value), x -> cast(x as decimal(10,2)))[0]",
            "headers['double']": "coalesce(try_cast(value as double), -1)",
            "headers['compared']": "if(try_cast(value as int) is null, false, value > 1.5)",
            "headers['boolean']": "try_cast(value as boolean)",
        },
    }
    values = [b"-1.50", b" 2 ", *slow]

    got = evaluated(pair, spark, rule, values)

    assert [[it and bytes(it) for it in row.results] for row in got[:2]] == [
        [b"-1.50", b"-1.5", b"false", None],
        [b"2.00", b"2.0", b"true", None],
    ]
    assert [row.failed for row in got] == [-1, -1, *[1] * len(slow)]
    assert bytes(got[-1].results[1]) == b"-1.0"


def test_csv_xml_and_numbers_that_take_hours_fail_at_once(pair: Pair, spark: SparkSource) -> None:
    """Long words with capital sigmas, very many elements where an array is read, and very many commas."""
    rule = {
        "topics": ["orders"],
        "format": {"value": "string"},
        "set": {
            "headers['csv']": "from_csv(value, 'a string').a",
            "headers['xml']": "size(from_xml(value, 'a array<string>').a)",
            "headers['number']": "if(value like ',%', try_to_number(value, '9,999'), 0)",
        },
    }
    fine = ["ΔΣ,ΣΔ" * 10_000, f"<r>{'<a>1</a>' * 1_000}</r>", ",123"]
    slow = ["Σ" * 5_000, f"{'δ' * 5_000}Σ", f"<r>{'<a/>' * 40_000}</r>", "," * 1_000]

    got = evaluated(pair, spark, rule, [it.encode() for it in (*fine, *slow)])

    assert [row.failed for row in got] == [-1, -1, -1, 1, 1, 2, 3]
    assert bytes(got[0].results[0]) == "ΔΣ".encode()
    assert bytes(got[1].results[1]) == b"1000"
    assert bytes(got[2].results[2]) == b"123"


def test_a_pattern_of_several_parts_takes_no_time_and_finds_what_spark_s_own_finds(
    pair: Pair, spark: SparkSource
) -> None:
    """Spark looks for each part after each place of the one before: of a text of some KiB, for minutes."""
    texts = [
        "",
        "ab",
        "aXbYc",
        "a\nb\nc",
        "a%b_c",
        "éaéb",
        "a.b*c",
        "\\a\\b",
        "A%B",
        "cab",
        "😀a😀b",
    ]
    patterns = [
        "%a%b%",
        "a%b%c%",
        "%a%b",
        "%a_b%c%",
        r"a\%b%\_%c",
        r"%\\%b%b",
        "%.%*%",
        "%é_%b",
        "_%_%_",
    ]
    written = [(kind, it.replace("\\", "\\\\")) for it in patterns for kind in ("like", "ilike")]
    slow = "value like '%test%internal%only%' or exists(array(value), x -> x ilike '%TEST%it%')"
    columns = [f"cast(value {kind} '{pattern}' as string)" for kind, pattern in written]
    headers = {f"headers['h{place}']": text for place, text in enumerate(columns)}
    rule = {"format": {"value": "string"}, "where": f"not ({slow})", "set": headers}
    flow = pair.flow(["orders"], transform=[{"topics": ["orders"], **rule}])
    session = rules_session(spark())
    values = [*(text.encode() for text in texts), b"test internal " * 20_000]
    columns_of = {"rule": pa.array([0] * len(values), pa.int32()), "value": pa.array(values)}
    rows = pa.table(
        [columns_of.get(it.name, pa.nulls(len(values), it.type)) for it in ROWS], schema=ROWS
    )

    got = RulesQuery(session, flow).with_results(session.createDataFrame(rows)).collect()

    own = session.createDataFrame([(text,) for text in texts], "value string").selectExpr(*columns)
    wanted = [[it.encode() for it in row] for row in own.collect()]
    assert [[bytes(it) for it in row.results] for row in got[:-1]] == wanted
    assert (got[-1].keep, got[-1].failed) == (True, -1)


@pytest.mark.parametrize(
    "expression",
    [
        "xpath_string(cast(value as string), 'a')",
        # Which the analyzer would evaluate.
        "from_json(topic, xpath_string('<!DOCTYPE a SYSTEM \"{url}\"><a>b int</a>', 'a')).b",
        "from_xml(topic, 'a string', map('rowValidationXSDPath', '{url}')).a",
        "from_xml(topic, 'a string', map('mode', 'FAILFAST', concat('rowvalidationxsd', 'path'), '{url}')).a",
        "from_xml(topic, schema_of_xml('<r><a>1</a></r>', map('RowValidationXSDPath', '{url}'))).a",
        "from_xml(topic, identifier('schema_of_xml')('<r/>', map('rowValidationXSDPath', '{url}'))).a",
        "to_xml(named_struct('a', topic), map('rowValidationXSDPath', '{url}'))",
    ],
)
def test_an_expression_fetches_no_address_and_no_file(
    pair: Pair, spark: SparkSource, expression: str
) -> None:
    """A schema of XML by its path, which constants are read with too; a DTD, which any producer names."""
    asked: list[str] = []

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.answer(404, b"")

    with http_server(Handler) as url:
        said = refusal(pair, spark, {"set": {"value": expression.format(url=f"{url}/a.xsd")}})

    assert not asked
    assert "transform, rule 1 (orders), set value" in said


CLASS = {"type": "udt", "pyClass": "the_flows_own.X", "serializedClass": "", "sqlType": "string"}
FIELD = {"name": "a", "type": CLASS, "nullable": True, "metadata": {}}
UDT, STRUCT = json.dumps(CLASS), json.dumps({"type": "struct", "fields": [FIELD]})


@pytest.mark.parametrize(
    "expression",
    [
        f"from_json(topic, '{STRUCT}').a",
        f"from_json(topic, concat('', '{STRUCT}')).a",
        f"from_csv(topic, ' {STRUCT}').a",
        f"from_xml(topic, '{STRUCT}').a",
        f"builtin.from_json(topic, '{STRUCT}').a",
        f"to_json(transform(array(topic), x -> from_json(x, '{STRUCT}')))",
        f"variant_get(to_variant_object(array(topic)), '$[0]', '{UDT}')",
        f"try_variant_get(to_variant_object(array(topic)), '$[0]', '{UDT}')",
        f"cast(schema_of_json('{{}}') || from_json(topic, reverse('{STRUCT[::-1]}')).a as string)",
    ],
)
def test_an_expression_names_no_class(
    pair: Pair,
    spark: SparkSource,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    expression: str,
) -> None:
    """Spark takes a schema in JSON too, and PySpark imports the Python class of a type in it."""
    (tmp_path / "the_flows_own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)

    said = refusal(pair, spark, {"set": {"value": expression}})

    assert "has a schema that is no text of DDL" in said
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "expression",
    [
        "(select max(nosuch) from csv.`{file}` with ('header'='true'))",
        "if(exists(select nosuch from json.`{file}`), 'a', 'b')",
        "if(topic in (select nosuch from text.`{file}`), 'a', 'b')",
        "transform(array(topic), x -> (select nosuch from csv.`{file}` with ('header'='true')))[0]",
    ],
)
def test_an_expression_reads_no_table(
    pair: Pair, spark: SparkSource, tmp_path: Path, expression: str
) -> None:
    """Spark's analyzer reads a file for its columns, and an error names those."""
    (file := tmp_path / "secret").write_text('{"login": "ferry"}\n')

    said = refusal(pair, spark, {"set": {"value": expression.format(file=file)}})

    assert "must be an expression over one record" in said
    assert "login" not in said


@pytest.mark.parametrize(
    "expression",
    [
        "from_xml(topic, schema_of_xml('<r><a>1</a></r>', map('mode', 'FAILFAST')), map('mode', 'FAILFAST')).a",
        "aes_encrypt(value, 'abcdefghijklmnop', 'ECB')",
        "aes_encrypt(value, 'abcdefghijklmnop', 'GCM', 'DEFAULT', substr(sha1(value), 1, 12))",
        "system.builtin.upper(cast(value as string))",
        "if(timestamp > timestamp'2024-01-01', 'now', 'today')",
        "if(timestamp > timestamp_ltz\" 2024-01-01 12:00\" or timestamp is null, 'a', 'b')",
        "cast(date 'epoch' = date r'2024-1-2' or cast(null as timestamp) > timestamp as string)",
        "if(timestamp > '2024-01-01 12:00:00', 'a', 'b')",
        "cast(cast(timestamp as date) > ' 2024-01-01' or to_date(topic) < 'epoch' as string)",
        "cast(to_timestamp(cast(key as string), 'HH:mm') as string)",
        "cast(cast(cast(key as string) as timestamp_ntz) as string)",
        "map('a', 'b')[cast(key as string)]",
        "cast(unix_timestamp(cast(key as string)) as string)",
        "to_json(struct(* except (key)))",
        "case "
        + "when topic = 'a' then nvl(topic, 'b') " * 40
        + f"else {'if(false, topic, ' * 40}topic{')' * 40} end",
        "regexp_replace(cast(value as string), '(a|b)+', '')",
    ],
)
def test_what_is_known_to_give_the_same_is_accepted(
    pair: Pair, spark: SparkSource, expression: str
) -> None:
    rule = {"topics": ["orders"], "set": {"value": expression}}

    assert checked_rules(spark(), pair.flow(["orders"], transform=[rule]))


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("regexp_replace(topic, '(a', '')", "'(a' is no regular expression: Unclosed group"),
        ("cast(topic rlike concat('[', 'a') as string)", "'[a' is no regular expression"),
        ("cast(regexp_count(topic, '*') as string)", "'*' is no regular expression"),
        ("split(topic, '(')[0]", "'(' is no regular expression"),
        ("to_json(filter(split(topic, ','), x -> x rlike '(a|b)*c'))", "make the group possessive"),
        ("to_json(filter(split(topic, ','), x -> topic rlike x))", "make the group possessive"),
    ],
)
def test_a_regular_expression_that_cannot_be_is_refused(
    pair: Pair, spark: SparkSource, expression: str, why: str
) -> None:
    assert why in refusal(pair, spark, {"set": {"value": expression}})


@pytest.mark.long
def test_a_record_on_which_a_regular_expression_fails_goes_to_the_dead_letter_topic(
    pair: Pair, spark: SparkSource
) -> None:
    values = [b"ab" * 50_000 + b"c", b"abc", b"ab" * 150 + b"c", b"short"]
    keys = [b"b+", b"(", b"b+", b"b+"]
    topic = pair.topic("deep", [Record(key=k, value=v) for k, v in zip(keys, values, strict=True)])
    possessive = pair.topic("possessive", [Record(key=b"b+", value=values[0])])
    texts = {"key": "string", "value": "string"}
    rules = [
        {
            "topics": [possessive],
            "format": texts,
            "where": "exists(array(value), x -> x rlike '^(a|b)*+c')",
            "set": {"value": "regexp_replace(value, '(?:a|b)++c', key)"},
        },
        {
            "topics": [topic],
            "format": texts,
            "where": "value rlike '(a|b)*c' or value = 'short'",
            "set": {"value": "regexp_replace(value, key, '')"},
        },
    ]
    flow = pair.flow([topic, possessive], transform=rules, on_transform_error="dead-letter")

    report = run_all(flow, "run-1", spark).report()

    assert report
    assert report.state == "verified"
    assert [it.value for it in pair.copied(flow, topic)[0]] == [b"a" * 150 + b"c", b"short"]
    assert [it.value for it in pair.copied(flow, possessive)[0]] == [b"b+"]
    letters = read_all(pair.backup.bootstrap, flow.dead_letter_name)[0]
    errors = {it.value: dict(it.headers)["ferry.error"] for it in letters}
    assert errors == {values[0]: b"rule 2: where failed", values[1]: b"rule 2: set value failed"}


@pytest.mark.long
def test_a_rule_that_spark_cannot_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    assert ferry_process("init", "a:1", "b:2", "--config", file).returncode == 0
    file.write_text(file.read_text() + 'transform: [{topics: o.*, where: "= ="}]\n')
    checked = ferry_process("check", "--config", file)
    assert checked.returncode == 9
    line = len(file.read_text().splitlines())
    where = f"{file}:{line}: transform, rule 1 (o.*), where: [PARSE_SYNTAX_ERROR]"
    assert where in checked.stderr
