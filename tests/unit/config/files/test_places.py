"""An error of a flow's file names its line and the wrong value, as it is written there, and what is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.config import load_flows
from kafka_ferry.config.files.places import KeyPlace, properties_places, yaml_places
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
        ("schedule: '*/15 * * *'", "and not '*/15 * * *'. It has 4 fields."),
        ("schedule: '@hourl'", "Did you mean '@hourly'?"),
        ("writers: many", ":7: writers: must be a whole number, and not 'many'"),
        ("catchup: maybe", ":7: catchup: must be true or false, and not 'maybe'"),
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
        ("topcis: a", ":7: topcis: is not an option of a flow. Did you mean 'topics'?"),
    ],
)
def test_an_option_of_a_yaml_file(tmp_path: Path, more: str, said: str) -> None:
    file = yaml_file(tmp_path, more)
    assert f"{file}{said}" in refused(file) or (said in refused(file) and said[0] != ":")


def test_no_value_is_its_own_suggestion(tmp_path: Path) -> None:
    assert refused(yaml_file(tmp_path, "schedule: 15m")).endswith("and not '15m'")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            f"{SCRAM};",
            SCRAM,
            ":6: source.sasl.jaas.config: it lacks a semicolon at its end. Its form is: <login module> required",
        ),
        (
            "SCRAM-SHA-256",
            "SCRAM-SHA256",
            "AWS_MSK_IAM, GSSAPI, and not 'SCRAM-SHA256'. Did you mean 'SCRAM-SHA-256'?",
        ),
        (
            "SASL_SSL",
            "SASL_SLS",
            ":4: source.security.protocol: must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, and not "
            "'SASL_SLS'. Did you mean 'SASL_SSL'?",
        ),
        ("  alias: primary\n", "", ":1: source.alias: is required"),
    ],
)
def test_a_login(tmp_path: Path, old: str, new: str, said: str) -> None:
    file = yaml_file(tmp_path, start=LOGIN.replace(old, new))
    assert said in refused(file)
    assert "hunter2" not in refused(file)


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
        ("topics.blaklist=a", "Did you mean 'topics.exclude'?"),
        (
            "topics = [a, b]",
            ":5: topics: '[a, b]' is one character of these, as a regular expression: leave the brackets out",
        ),
        (
            "clusters = primary; backup",
            ":5: clusters: 'primary; backup' is not a valid alias. List",
        ),
        ("primary.bootstrap.servers=http://h:1", ":5: primary.bootstrap.servers: must list"),
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


def test_places_of_what_cannot_be_read_are_none() -> None:
    assert yaml_places(b"a: [") == {}
    assert properties_places(b"a=\\u1") == {}
    assert yaml_places(b"a:\n  - {b: c}\n")["a.0.b"] == KeyPlace(2, "'c'")
