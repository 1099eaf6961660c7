import time
from pathlib import Path

import pytest

from kafka_ferry.config import load_flow
from kafka_ferry.errors import ConfigError
from tests.unit.config.builders import YAML, properties_file, yaml_file

# Seven lines, and 43 million values.
LAUGHS = "x0: &x0 [a, a, a, a, a, a, a, a, a]\n" + "".join(
    f"x{at}: &x{at} [{', '.join([f'*x{at - 1}'] * 9)}]\n" for at in range(1, 8)
)


def refused(file: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_flow(file)
    assert caught.value.file == str(file)
    return caught.value


def test_a_file_holds_one_flow_with_dotted_names(tmp_path: Path) -> None:
    flow = load_flow(
        yaml_file(
            tmp_path,
            """
topics: [orders, "pay.{1,5}"]
topics.exclude: a, b
replication.policy.class: IdentityReplicationPolicy
replication.factor: 1
transaction.max.bytes: 1MiB
start.date: 2026-02-03
schedule: 0 4 * * *
enabled: false
""",
        )
    )
    assert flow.name == "primary->backup"
    assert flow.topics == ("orders", "pay.{1,5}")
    assert flow.topics_exclude == ("a", "b")
    assert flow.replication_policy_class == "IdentityReplicationPolicy"
    assert (flow.replication_factor, flow.transaction_max_bytes) == (1, 1024 * 1024)
    assert (str(flow.start_date), flow.schedule) == ("2026-02-03", "0 4 * * *")
    assert flow.enabled is False
    assert flow.file == str(tmp_path / "flow.yaml")


def test_values_of_client_properties_are_text_as_java_writes_it(tmp_path: Path) -> None:
    start = """\
source:
  alias: primary
  bootstrap.servers: [a:1, b:2]
  ssl.keystore.location: "  /x  "
  consumer: {fetch.max.wait.ms: 500, check.crcs: true}
  producer.acks: all
  admin:
target: {alias: backup, bootstrap.servers: "c:3"}
"""
    assert load_flow(yaml_file(tmp_path, start=start)).source.properties == {
        "bootstrap.servers": "a:1,b:2",
        "ssl.keystore.location": "/x",
        "consumer.fetch.max.wait.ms": "500",
        "consumer.check.crcs": "true",
        "producer.acks": "all",
    }


@pytest.mark.parametrize(("text", "number"), [("010", 10), ("0777", 777), ("'12'", 12), ("12", 12)])
def test_a_number_is_decimal_as_in_properties(tmp_path: Path, text: str, number: int) -> None:
    assert load_flow(yaml_file(tmp_path, f"writers: {text}\n")).writers == number
    properties = properties_file(tmp_path, "writers = " + text.strip("'"))
    assert load_flow(properties).writers == number


def test_what_is_no_decimal_number_is_text_as_it_was_written(tmp_path: Path) -> None:
    start = """\
source: {alias: no, bootstrap.servers: "a:1", consumer: {client.rack: 010, client.id: 1.10}, producer.client.id: 1e3}
target: {alias: 12:30, bootstrap.servers: "c:3"}
"""
    with pytest.raises(ConfigError, match=r"target\.alias"):
        load_flow(yaml_file(tmp_path, start=start))
    flow = load_flow(yaml_file(tmp_path, start=start.replace("12:30", "0x10")))
    assert (flow.source.alias, flow.target.alias) == ("no", "0x10")
    assert flow.source.properties == {
        "bootstrap.servers": "a:1",
        "consumer.client.rack": "010",
        "consumer.client.id": "1.10",
        "producer.client.id": "1e3",
    }


def test_anchors_and_merged_mappings_are_no_duplicates(tmp_path: Path) -> None:
    start = """\
source: &base {alias: a, bootstrap.servers: "a:1", security.protocol: SSL}
target: {<<: *base, alias: b, bootstrap.servers: "b:1"}
"""
    flow = load_flow(yaml_file(tmp_path, start=start))
    assert (flow.target.alias, flow.target.properties["security.protocol"]) == ("b", "SSL")


@pytest.mark.parametrize(
    ("more", "key", "reason"),
    [
        ("topic: x", "topic", "Did you mean 'topics'?"),
        ("replication.facto: 1", "replication.facto", "Did you mean 'replication.factor'?"),
        ("topics_exclude: x", "topics_exclude", "Did you mean 'topics.exclude'?"),
        ("file: x", "file", "is not an option"),
        ("offset.lag.max: 1", "offset.lag.max", "has no effect here: translation is exact"),
        ("topic.filter.class: company.Filter", "topic.filter.class", "cannot run here"),
        ("transforms: [a]", "transforms", "cannot run here"),
        ("transforms: [{topics: [a]}]", "transforms", "as rules under transform"),
        ("transforms: {topics: [a]}", "transforms", "as rules under transform"),
        ("config.providers.fil.param.x: y", "config.providers.fil.param.x", "no provider"),
        ("topics.rename: {a: b, c: b}", "topics.rename", "the same name 'b'"),
        ("topics.blacklist: x", "topics.blacklist", "Use topics.exclude"),
        ("1: x", "1", "is not an option"),
        ("topics: [1]", "topics.0", "must be text (in YAML: put it in quotes)"),
        ("topics: ['*']", "topics", "not a valid regular expression"),
        ("writers: many", "writers", "whole number"),
        ("writers: 1\nwriters: 2", "writers", "is given twice, in line 7 too"),
        ("a: [", "line 7", "is not valid YAML"),
        ("a: [b\nc: d", "line 8", "Is the bracket '[' of line 7 closed?"),
        ("a: {b: c\nd: e", "line 8", "Is the bracket '{' of line 7 closed?"),
        ("a: 'b\nc: d", "line 8", "Is the quote of line 7 closed?"),
        ("a: b: c", "line 7", "is not valid YAML"),
        ("a:\n\tb: c", "line 8", "it is indented by a tab. Indent with spaces."),
        ("---\na: b", "line 7", "is not valid YAML"),
        ("start.date: 2024-02-30", "start.date", "must be a day or a moment"),
        ("topics: [a, !!timestamp b]", "topics.1", "If it is text, put it in quotes."),
        (f"writers: {'9' * 5_000}", "writers", "is no number (line 7)"),
        (f"writers: 0x{'f' * 5_000}", "writers", "must be a whole number"),
        ("writers: 1:3", "writers", "must be a whole number"),
        ("writers: 1_0", "writers", "must be a whole number"),
        ("writers: 3.0", "writers", "must be a whole number"),
        ("writers: 1e1", "writers", "must be a whole number"),
        ("writers: !!int 010", "writers", "is no number (line 7)"),
        ("priority: +5", "priority", "must be a whole number"),
        ("rate.limit.bytes: 12:30", "rate.limit.bytes", "must be a number of bytes"),
        ("start.date: 20260101", "start.date", "must be a day or a moment"),
        ("start.date: 2026-W01-1", "start.date", "must be a day or a moment"),
        ("start.date: 1767225600", "start.date", "must be a day or a moment"),
        ("deadline: 30", "deadline", "must be a span of time"),
        ("deadline: 1:30", "deadline", "must be a span of time"),
        ("audit.lag: 30", "audit.lag", "must be a span of time"),
        ("topics.start: 20261101", "topics.start", "must be earliest, latest, a moment"),
        (f"offsets.start: 0x{'f' * 5_000}", "offsets.start", "must be log-start or an offset"),
        (f"transaction.max.bytes: '{'9' * 5_000}'", "transaction.max.bytes", "a number of bytes"),
        (f"deadline: {'9' * 5_000} seconds", "deadline", "must be a span of time"),
        ("writers: !!int many", "writers", "is no number"),
        ("enabled: !!bool maybe", "enabled", "is no true or false"),
        ("topics: &a [*a]", "line 7", "contains itself"),
        ("topics.rename: &a {b: *a}", "line 7", "contains itself"),
        (f"topics: {'[' * 3_000}", "line 7", "nests more than 50 levels deep"),
        (f"topics: {'[' * 100_000}", "line 7", "nests more than 50 levels deep"),
        (f"topics: {'{a: ' * 3_000}", "line 7", "nests more than 50 levels deep"),
        (LAUGHS, "line 12", "comes to more than 200,000 values"),
        # Each value has its keys before it where one looks for what is wrong: 190 GB for a key of a megabyte.
        (f"? {'k' * 100_000}\n: [{'1,' * 1_000}]", "line 1", "more than 67,108,864 characters"),
        (
            f"topics: [&a {'a' * 1_000_000}{', *a' * 70}]",
            "line 7",
            "more than 67,108,864 characters",
        ),
        (
            f"offsets: '{', '.join(f't{n}:auto' for n in range(50_000))}'",
            "offsets",
            "take too long to compile together",
        ),
        # In 400 KB, 5 GB; in 16 MiB of short ones, hours.
        (
            f"...\n%TAG !a! {'t' * 400_000}\n--- [{'!a!b c, ' * 6_000}]",
            "line 8",
            "a prefix of tags",
        ),
        # Nodes of eight million values would take 5 GB, and a text of two megabytes Python's own reader 20 s.
        (f"topics: [{'a,' * 8_000_000}]", "file", "has more than 200,000 values"),
        (f"topics: [{'a' * 2_000_000}, }}", "line 7", "is not valid YAML"),
        # As keys of one mapping, numbers of one hash take time by their number's square.
        (f"topics: {{{(2**61 - 1) * 50}: 1}}", f"topics.{(2**61 - 1) * 50}", "is no number"),
        (
            "\n".join(f"key{n}: 1" for n in range(1_000)),
            "file",
            "has 1,002 keys, and may have 1,000",
        ),
        ("state.dir: s3://KEY:hunter2@bucket/x", "state.dir", "must not hold a user's name"),
        ("state.dir: s3://KEY@bucket", "state.dir", "must not hold a user's name"),
        ('state.dir: "a\\0b"', "state.dir", "has a character that no text can have"),
        ('topics: ["\\uD800"]', "topics.0", "has a character that no text can have"),
    ],
)
def test_an_error_names_key_and_reason(tmp_path: Path, more: str, key: str, reason: str) -> None:
    error = refused(yaml_file(tmp_path, more))
    assert error.key == key
    assert reason in str(error)


def test_to_leave_out_many_names_takes_no_square_of_their_number(tmp_path: Path) -> None:
    began = time.process_time()
    error = refused(
        yaml_file(tmp_path, f"topics: {'b,' * 30_000}\ntopics.exclude: {'a,' * 30_000}b")
    )
    assert "leaves out all that topics names" in str(error)
    assert time.process_time() - began < 4


@pytest.mark.parametrize(
    ("old", "new", "key", "reason"),
    [
        ("alias: primary", "alias: true", "source.alias", "put it in quotes"),
        ("alias: primary", "alias: a/b", "source.alias", "must consist of letters, digits"),
        ("  alias: primary\n", "", "source.alias", "is required"),
        ("alias: backup", "alias: primary", "target.alias", "an alias other than"),
        ("source:9092", "source", "source.bootstrap.servers", "host:port"),
        ("  bootstrap.servers: source:9092", "", "source.bootstrap.servers", "is required"),
        (
            "alias: primary",
            "alias: a\n  ssl.trustore.type: x",
            "source.ssl.trustore.type",
            "truststore",
        ),
        ("alias: primary", "alias: a\n  consumers: {a: b}", "source.consumers", "mean 'consumer'"),
        ("alias: primary", "alias: a\n  consumer: x", "source.consumer", "must be a mapping"),
        ("alias: primary", "alias: a\n  admin: {a: {}}", "source.admin.a", "text or a number"),
        (
            "alias: primary",
            "alias: a\n  fetch.min.bytes: 1",
            "source.fetch.min.bytes",
            "under consumer",
        ),
    ],
)
def test_an_error_within_a_cluster_names_the_side(
    tmp_path: Path, old: str, new: str, key: str, reason: str
) -> None:
    error = refused(yaml_file(tmp_path, start=YAML.replace(old, new, 1)))
    assert error.key == key
    assert reason in str(error)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is empty"),
        ("# nothing\n", "is empty"),
        ("- a", "must hold a mapping"),
        ("text", "must hold a mapping"),
    ],
)
def test_a_file_that_is_no_flow_is_refused(tmp_path: Path, content: str, reason: str) -> None:
    assert reason in str(refused(yaml_file(tmp_path, start=content)))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_bytes(b"a: \xff")
    assert "UTF-8" in str(refused(file))


def test_source_and_target_are_required_mappings(tmp_path: Path) -> None:
    error = refused(yaml_file(tmp_path, start="source: x"))
    assert error.key == "source"
    assert "source: must be a mapping" in str(error)
    assert "target: is required" in str(error)


def test_all_problems_are_listed_and_the_first_is_the_errors_own(tmp_path: Path) -> None:
    error = refused(yaml_file(tmp_path, "topic: x\nwriters: 0\nretries: -1"))
    assert error.key == "topic"
    for place in ("7: topic: is not an option", "8: writers: must be", "9: retries: must be"):
        assert f"{error.file}:{place}" in str(error)


@pytest.mark.parametrize("line", ["  ssl.key.password: *hunter2", "  ssl.key.password: !hunter2 x"])
def test_a_syntax_error_does_not_repeat_what_may_be_a_password(tmp_path: Path, line: str) -> None:
    assert "hunter2" not in str(refused(yaml_file(tmp_path, start=f"source:\n{line}\n")))


def test_a_value_that_stands_for_nothing_is_not_repeated(tmp_path: Path) -> None:
    start = "source:\n  ssl.key.password: !!int hunter2\n"
    assert "hunter2" not in str(refused(yaml_file(tmp_path, start=start)))


def test_a_value_may_stand_in_several_places_by_an_alias(tmp_path: Path) -> None:
    flow = load_flow(yaml_file(tmp_path, "topics: &a [x, y]\ngroups: *a"))
    assert flow.topics == flow.groups == ("x", "y")
