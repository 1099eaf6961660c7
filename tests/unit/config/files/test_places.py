"""An error of a flow's file names its line and the wrong value, as it is written there, and what is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.config import load_flows
from kafka_ferry.config.files.load import no_flow
from kafka_ferry.config.files.places import (
    KeyPlace,
    properties_places,
    properties_twins,
    yaml_places,
)
from kafka_ferry.errors import ConfigError
from tests.unit.config.builders import properties_file, yaml_file

SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="hunter2"'
LOGIN = f"""\
source:
  alias: primary
  bootstrap.servers: a:1
  security.protocol: SASL_SSL
  sasl.mechanism: SCRAM-SHA-256
  sasl.jaas.config: {SCRAM};
target: {{alias: backup, bootstrap.servers: "b:1"}}
"""
SERVERS = """\
source: {alias: primary, bootstrap.servers: "HERE"}
target: {alias: backup, bootstrap.servers: "b:1"}
"""


def refused(file: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_flows(file)
    return str(caught.value)


# The first line of what is added to a YAML file is 7.
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            "topics: {include: [*.internal]}",
            r": line 7: *.internal begins with '*', which YAML takes for an alias. Put it in quotes, and write any "
            r"text as '.*': '.*\.internal'.",
        ),
        ("topics:\n  - *orders", ": line 8: *orders begins with '*'"),
        ("topics.include: *orders", ": line 7: a value begins with '*'"),
        (
            "topics: {include: ['.*']}",
            ":7: topics: must be a list, or text with commas, and not a mapping with 'include'",
        ),
        (
            "topics: a b",
            ":7: topics: 'a b' holds a blank, as no topic's name does: put a comma between names, 'a, b'",
        ),
        (
            "replication.policy.separator: /",
            ":7: replication.policy.separator: must consist of letters, digits, '.', '_' and '-', as topics' "
            "names do, and not '/'",
        ),
        (
            "timezone: Europe/Berln",
            "and not 'Europe/Berln'. Did you mean 'Europe/Berlin'?",
        ),
        (
            "timezone: CEST",
            ":7: timezone: must be a time zone such as UTC or Europe/Berlin, and not 'CEST'",
        ),
        (
            "offsets: {orders: preserve}",
            ":7: offsets: 'orders' must be one of translated, preserved, auto, and not 'preserve'",
        ),
        ("schedule: every 15 minutes", "and not 'every 15 minutes'. Did you mean '15 minutes'?"),
        ("schedule: '*/15 * * *'", "and not '*/15 * * *'. It has 4 fields: it needs minute, hour"),
        ("schedule: '@hourl'", "Did you mean '@hourly'?"),
        ("writers: many", ":7: writers: must be a whole number, and not 'many'"),
        ("catchup: maybe", ":7: catchup: must be true or false, and not 'maybe'"),
        ("catchup: yes", ":7: catchup: must be true or false, and not 'yes'. Write 'true'."),
        (
            "transform: [{topics: a, where: \"key = secret('salt')\"}]",
            ":7: transform.0: uses secret('salt'), which transform.secrets does not have",
        ),
        ("sync.schemas: keep-ids", ":7: sync.schemas: needs schema.registry.url of both clusters"),
        ("retries: -1", ":7: retries: must be at least 0, and not '-1'"),
        ("shards: 5000", ":7: shards: must be at most 1000, and not '5000'"),
        ("pool: ''", ":7: pool: must not be empty"),
        ("shard.by: site", ":7: shard.by: must be 'size' or 'topic', and not 'site'"),
        ("verify: most", ":7: verify: is not an option of a flow. There is verify."),
        (
            "on.source.truncation: contin",
            ":7: on.source.truncation: must be 'fail' or 'continue', and not 'contin'. Did you mean 'continue'?",
        ),
        (
            "replication.policy.class: IdentityReplicatonPolicy",
            "and not 'IdentityReplicatonPolicy'. Did you mean 'IdentityReplicationPolicy'?",
        ),
        ("rate.limit.bytes: 64MB", "and not '64MB'. Did you mean '64MiB'?"),
        (
            "transform: [{topics: a, wheres: 'true'}]",
            ":7: transform.0: has no 'wheres'. Did you mean 'where'?",
        ),
        (
            "notify: [{slak: ops}]",
            ":7: notify: needs in each channel exactly one of slack, email, webhook. Did you mean 'slack'?",
        ),
        (
            "alias: a",
            ":7: alias: is not an option of a flow. It belongs to a cluster: indent it below source or target.",
        ),
        (
            "retention.ms: 7",
            ":7: retention.ms: is not an option of a flow. It is a config of topics: write topics.configs: "
            "{'.*': {retention.ms: ...}}.",
        ),
        (
            "num.partitions: 6",
            ":7: num.partitions: is not an option of a flow. Remote topics have as many partitions as their source",
        ),
        ("every: 5 minutes", ":7: every: is not an option of a flow. Did you mean 'schedule'?"),
        (
            "transform: {topics: a, set: {key: null}}",
            ":7: transform: must be a list of rules, and not a mapping with 'topics', 'set'. Write '- ' before the",
        ),
        (
            "transform: [{topics: a, format: json, where: 'true'}]",
            ":7: transform.0.format: must be a mapping, such as {value: ...}, and not 'json'",
        ),
        ("topcis: a", ":7: topcis: is not an option of a flow. Did you mean 'topics'?"),
        (
            "topics: []",
            ":7: topics: must name a topic, or any of them: '.*', and not an empty list",
        ),
        (
            "topics: [orders]\ntopics.exclude: [orders, x]",
            ":8: topics.exclude: leaves out all that topics names: orders",
        ),
        (
            "topics: [o.*]\ntopics.exclude: [o.*]",
            ":8: topics.exclude: leaves out all that topics names: o.*",
        ),
        ("groups.exclude: ['.*']", ":7: groups.exclude: leaves out all that groups names: .*"),
        ("topics: [/orders/]", "an expression stands without slashes, 'orders'"),
        (
            "transform: [{topics: order%, where: 'true'}]",
            "'order%' holds '%', as no topic's name does: any text is '.*', 'order.*'",
        ),
        (
            "topics: {orders: preserved}",
            "not a mapping with 'orders'. Write topics: [one, two.*]. What holds for single topics has options",
        ),
        (
            "topics: {exclude: [a]}",
            ":7: topics: must be a value of its own, and not a mapping with 'exclude'. Write topics.exclude at the",
        ),
        ("schedule: 15m", "and not '15m'. Did you mean '15 minutes'?"),
        ("schedule: every 1h 30 min", "Did you mean '1 hour 30 minutes'?"),
        (
            "deadline: 45m",
            ":7: deadline: must be a span of time such as 15 minutes, 1 day 12 hours or PT15M, and not '45m'. "
            "Did you mean '45 minutes'?",
        ),
        (
            "schedule: '0 25 * * *'",
            ":7: schedule: has '25' as its hour, which must be within 0-23",
        ),
        (
            "auto.offset.reset: 2026-11-01",
            ":7: auto.offset.reset: must be earliest or latest, and not '2026-11-01': write topics.start: 2026-11-01",
        ),
        ("start.date: 2026-02-30", ", and not '2026-02-30', which is in no calendar"),
        ("topics.start: 2026-02-30", ", and not '2026-02-30', which is in no calendar"),
        (
            "state.dir: ${HOME}/ferry",
            ":7: state.dir: must be a path as it is: no variable is looked up in it, and not '${HOME}/ferry'",
        ),
        ("schedule: 15", ", and not '15'. A number needs its unit, such as '15 minutes'"),
        ("schedule: '15'", ", and not '15'. A number needs its unit, such as '15 minutes'"),
        (
            "removals.max: 50",
            ":7: removals.max: must be a share from 0 to 1, and not '50'. Did you mean '0.5'?",
        ),
        ("removals.max: 5%", "must be a share from 0 to 1, and not '5%'. Did you mean '0.05'?"),
        (
            "fill.max.ms: 10 min",
            ":7: fill.max.ms: must be a whole number of milliseconds, such as 60000, and not '10 min'. Did you mean "
            "'600000'?",
        ),
        ("topics: a; b", "holds ';', as no topic's name does: put a comma between names, 'a, b'"),
        (
            "topics.rename: {'o\\.(.*)': $1}",
            ":7: topics.rename: 'o\\.(.*)' is an expression, and topics get other names one by one",
        ),
        (
            "topics.configs: {retention.ms: 7}",
            ":7: topics.configs: has the config retention.ms where a topic's name or pattern stands: write "
            '{".*": {retention.ms: 7}} for all topics',
        ),
        ("topics.configs: {retention.hours: 7}", 'write {".*": {retention.ms: 7h}} for all topics'),
        (
            "topics.configs: retention.ms: 7",
            ": line 7: is not valid YAML: mapping values are not allowed here. Does a second key stand in the line? "
            "Write KEY: {NAME: VALUE}.",
        ),
        (
            "notify: [{type: slack, channel: ops}]",
            ":7: notify: needs in each channel exactly one of slack, email, webhook with the id of an Airflow "
            "connection, such as {slack: ferry_ops}",
        ),
        ("notify: 'slack:#ops'", "by its id, and not a channel of Slack: the connection has"),
        ("notify:\n- slack: #ops", "by its id; in YAML, '#' begins a comment"),
        (
            "writers: 1\nwriters: 2",
            ":8: writers: is given twice, in line 7 too. Keep the right one.",
        ),
    ],
)
def test_an_option_of_a_yaml_file(tmp_path: Path, more: str, said: str) -> None:
    file = yaml_file(tmp_path, more)
    assert f"{file}{said}" in refused(file) or (said in refused(file) and said[0] != ":")


def test_no_value_is_its_own_suggestion(tmp_path: Path) -> None:
    assert refused(yaml_file(tmp_path, "schedule: x")).endswith("and not 'x'")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            f"{SCRAM};",
            SCRAM,
            ":6: source.sasl.jaas.config: it lacks a semicolon at its end. Its form is: ScramLoginModule required",
        ),
        (
            "SCRAM-SHA-256",
            "SCRAM-SHA256",
            "AWS_MSK_IAM, GSSAPI, and not 'SCRAM-SHA256'. Did you mean 'SCRAM-SHA-256'?",
        ),
        (
            f"SCRAM-SHA-256\n  sasl.jaas.config: {SCRAM};",
            f"scram-sha-256\n  sasl.jaas.config: {SCRAM}",
            "Did you mean 'SCRAM-SHA-256'?\nFILE:6: source.sasl.jaas.config: it lacks a semicolon",
        ),
        (
            "SASL_SSL",
            "SASL_SLS",
            ":4: source.security.protocol: must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, and not "
            "'SASL_SLS'. Did you mean 'SASL_SSL'?",
        ),
        ("  alias: primary\n", "", ":1: source.alias: is required"),
        (
            "  security.protocol: SASL_SSL\n",
            "",
            ":1: source.security.protocol: is required where there is sasl.mechanism: without it, no client logs in. "
            "Set it to SASL_SSL, or to PLAINTEXT if none is to.",
        ),
        (
            f"  sasl.jaas.config: {SCRAM};\n",
            "",
            ":1: source.sasl.jaas.config: is required with SCRAM-SHA-256. Its form is: ScramLoginModule required",
        ),
        ('username="a" ', "", ":6: source.sasl.jaas.config: username and password are required."),
        (
            "  sasl.mechanism: SCRAM-SHA-256\n",
            "",
            ":1: source.sasl.mechanism: is required: org.apache.kafka.common.security.scram.ScramLoginModule is for "
            "SCRAM-SHA-256 or SCRAM-SHA-512",
        ),
        (
            f"  sasl.mechanism: SCRAM-SHA-256\n  sasl.jaas.config: {SCRAM};\n",
            "",
            ":1: source.sasl.mechanism: is required with SASL_SSL. Set it to one of PLAIN, SCRAM-SHA-256,",
        ),
        (
            "bootstrap.servers: a:1",
            "bootstrap: {servers: a:1}",
            ":3: source.bootstrap: must be text or a number, and not a mapping with 'servers'. Write "
            "bootstrap.servers as one key.",
        ),
        (
            "bootstrap.servers: a:1",
            "bootstrap.servers: a:1\n  writers: 2",
            ":4: source.writers: is an option of the flow, and of no cluster. Write writers at the left margin.",
        ),
        (
            "bootstrap.servers: a:1",
            "bootstrap.servers: a:1\n  consumer: {auto.offset.reset: latest}",
            ":4: source.consumer.auto.offset.reset: is an option of the flow, and of no cluster. Write "
            "auto.offset.reset at the left margin.",
        ),
        (
            "b:1",
            "b:1,PLAINTEXT://A:1",
            ":7: target.bootstrap.servers: names a:1, as the source does: a cluster is never mirrored into itself.",
        ),
        (
            "alias: backup",
            "alias: primary",
            ":7: target.alias: must be an alias other than the source's, and not 'primary'",
        ),
    ],
)
def test_a_login(tmp_path: Path, old: str, new: str, said: str) -> None:
    file = yaml_file(tmp_path, start=LOGIN.replace(old, new))
    assert said.replace("FILE", str(file)) in refused(file)
    assert "hunter2" not in refused(file)


@pytest.mark.parametrize(
    ("password", "said"),
    [
        (
            "${KAFKA_PW}",
            "${KAFKA_PW} is no reference, and would be taken as it is. Write ${env:KAFKA_PW}. Add env to",
        ),
        ("$KAFKA_PW", "what looks like a variable is no reference, and would be taken as it is."),
        ("{{ var.value.pw }}", "what looks like a variable is no reference"),
        ("$(KAFKA_PW)", "what looks like a variable is no reference"),
        (
            "${fil:/a:b}",
            "${fil:/a:b} has a provider that the file does not declare. Did you mean 'file'?",
        ),
        (
            "${vault:a:b}",
            "${vault:a:b} has a provider that the file does not declare. Declare vault in",
        ),
    ],
)
def test_a_shells_reference(tmp_path: Path, password: str, said: str) -> None:
    text = refused(yaml_file(tmp_path, start=LOGIN.replace("hunter2", password)))
    assert f":6: source.sasl.jaas.config: {said}" in text
    for mine in ("pa$$w0rd", "a$B", "$lower", "10$", "{a}"):
        load_flows(yaml_file(tmp_path, start=LOGIN.replace("hunter2", mine)))


def test_a_provider_of_which_nothing_says_what_it_is(tmp_path: Path) -> None:
    text = refused(yaml_file(tmp_path, start=LOGIN + "config.providers: [vault]\n"))
    assert "config.providers: has vault, of which the file does not say what it is" in text


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        (
            "http://host:9092",
            ", and not 'http://host:9092'. That is the address of a page: write 'host:9092'.",
        ),
        ("https://host/x", "write 'host:9092'."),
        ("host", "'host' has no port, which often is 9092: 'host:9092'."),
        ("a:1,host", "'host' has no port"),
        ("host:99999", "The port of 'host:99999' is not between 1 and 65535."),
        ("a:1;b:2", "Put commas between brokers: 'a:1, b:2'."),
        ("a:1 b:2", "Put commas between brokers: 'a:1, b:2'."),
        ("a:1,,b:2", "Between two commas is none."),
        ("u:hunter2@host:1", "No broker's address has '@': a login is in sasl.jaas.config."),
        ("a=1", "'a=1' is not of that form."),
    ],
)
def test_bootstrap_servers(tmp_path: Path, servers: str, said: str) -> None:
    file = yaml_file(tmp_path, start=SERVERS.replace("HERE", servers))
    place = f"{file}:1: source.bootstrap.servers: must list brokers as host:port, host:port"
    assert refused(file).startswith(place)
    assert said in refused(file)
    assert "hunter2" not in refused(file)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            "replication.factor = zero",
            ":5: replication.factor: must be a whole number, and not 'zero'",
        ),
        ("primary->backup.topics = \\\n  a b", ":5: primary->backup.topics: 'a b' holds a blank"),
        ("# no\n\nwriters=0", ":7: writers: must be at least 1, and not '0'"),
        ("writers=1\nwriters=x", ":6: writers: must be a whole number, and not 'x'"),
        (
            "primary -> backup.topics = a",
            ":5: primary: is not an option of MirrorMaker 2 or Kafka Ferry. A key ends at its first blank: write "
            "primary->backup.topics.",
        ),
        (
            "writers = 8 # eight",
            ":5: writers: must be a whole number, and not '8 # eight'. A comment needs a line of its own in a "
            "properties file: write 8",
        ),
        ("clusters = primary, backup ! two", "in a properties file: write primary, backup"),
        ("schedule = @daily # night", "in a properties file: write @daily"),
        (
            'schedule = "0 * * * *"',
            """and not '"0 * * * *"'. Values in a properties file have no quotes: write 0 * * * *""",
        ),
        ("notify = slack:http://x # y", "needs a line of its own in a properties file"),
        ("topics.blaklist=a", "Did you mean 'topics.exclude'?"),
        (
            "topics = [a, b]",
            ":5: topics: '[a, b]' is one character of these, as a regular expression: leave the brackets out, 'a, b'",
        ),
        (
            "clusters = primary; backup",
            ":5: clusters: 'primary; backup' is not a valid alias. List",
        ),
        ("primary.bootstrap.servers=http://h:1", ":5: primary.bootstrap.servers: must list"),
        (
            'topics = "orders", "payments"',
            ":5: topics: '\"orders\"' holds quotes, which are part of the value here: leave them out, "
            "'orders, payments'",
        ),
        ("groups = 'a'", """:5: groups: "'a'" holds quotes"""),
        (
            "backup.bootstrap.servers = x:2, source:9092",
            ":5: backup.bootstrap.servers: names source:9092, as the source does",
        ),
        (
            "primary->backup.enabled = yes\nwriters = x",
            ":6: writers: must be a whole number, and not 'x'",
        ),
        (
            "primary->backup.enabled = yes",
            ":5: primary->backup.enabled: must be true or false, and not 'yes'. Write 'true'.",
        ),
        (
            "clusters = primary, primary",
            ":5: clusters: lists 'primary' twice. Is one of the two another?",
        ),
    ],
)
def test_a_key_of_a_properties_file(tmp_path: Path, more: str, said: str) -> None:
    file = properties_file(tmp_path, more)
    assert f"{file}{said}" in refused(file) or (said in refused(file) and said[0] != ":")


def test_a_file_of_the_other_kind(tmp_path: Path) -> None:
    yaml = properties_file(tmp_path, start="source:\n  alias: a\n")
    assert "Is the file YAML? Then its name has to end in .yaml." in refused(yaml)
    properties = yaml_file(tmp_path, start="clusters = a, b\na.bootstrap.servers = x:1\n")
    assert "Is it a properties file? Then its name has to end in .properties." in refused(
        properties
    )


def test_a_clients_file_is_no_flows(tmp_path: Path) -> None:
    file = properties_file(tmp_path, start="bootstrap.servers=a:1\ngroup.id=mm\n")
    assert "Then: ferry mirror-maker --consumer.config" in refused(file)


def test_all_that_is_wrong_with_a_file_is_told_in_its_order(tmp_path: Path) -> None:
    more = "writers: x\nfoo: 1\ntopics: ['${env:A}']\nschedule: 15m"
    lines = refused(yaml_file(tmp_path, more)).splitlines()
    assert [line.split(": ")[1] for line in lines] == ["writers", "foo", "topics", "schedule"]


def test_the_flow_that_a_file_does_not_enable_is_named(tmp_path: Path) -> None:
    file = properties_file(tmp_path, "primary->backup.enabled = false")
    assert str(no_flow(file)).endswith("enables no flow. Write primary->backup.enabled = true.")
    assert str(no_flow(file, ["primary"])).endswith(
        "enables no flow into primary. Write backup->primary.enabled = true."
    )
    assert str(no_flow(properties_file(tmp_path), ["primary"])).endswith(
        "It enables primary->backup; what counts is the cluster after the arrow."
    )


def test_a_key_that_a_properties_file_has_twice_is_told(tmp_path: Path) -> None:
    content = b"writers = 1\nwriters = 2\na.ssl.key.password = x\na.ssl.key.password = hunter2\n"
    assert properties_twins(content) == [
        ("writers in line 1", "line 2 gives it again, as '2'"),
        ("a.ssl.key.password in line 3", "line 4 gives it again"),
    ]
    (flow,) = load_flows(properties_file(tmp_path, "writers = 1\nwriters = 2"))
    assert flow.ignored == (("writers in line 5", "line 6 gives it again, as '2'"),)


def test_places_of_what_cannot_be_read_are_none() -> None:
    assert yaml_places(b"a: [") == {}
    assert properties_places(b"a=\\u1") == {}
    assert yaml_places(b"a:\n  - {b: c}\n")["a.0.b"] == KeyPlace(2, "'c'")
