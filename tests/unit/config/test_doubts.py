"""What is valid in a flow's file and hardly meant is told, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.config import load_flow
from kafka_ferry.config.files.load import doubt_texts
from tests.unit.config.builders import PROPERTIES, YAML, properties_file, yaml_file

LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required username=a password=hunter2;"
)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            "topics: [order*]",
            ":7: topics: 'order*' is a regular expression, in which '*' repeats one letter. Write 'order.*' if it "
            "stands for any text.",
        ),
        ("topics.exclude: [tmp-*]", ":7: topics.exclude: 'tmp-*' is a regular expression"),
        ("groups: [billing*]\nsync.group.offsets.enabled: false", "Write 'billing.*'"),
        ("offsets: {o*: preserved}", ":7: offsets: 'o*' is a regular expression"),
        ("transform: [{topics: o*, where: 'true'}]", ":7: transform: 'o*' is"),
        (
            "groups: [billing]",
            ":7: groups: moves no group: sync.group.offsets.enabled is false by default. Set it to true",
        ),
        ("groups.exclude: [a]", ":7: groups.exclude: moves no group"),
        (
            "groups: []\nsync.group.offsets.enabled: true",
            ":7: groups: is empty: sync.group.offsets.enabled moves no group",
        ),
        (
            "topics: []\nheartbeats.replication.enabled: true",
            ":7: topics: is empty: nothing but heartbeats is copied",
        ),
        (
            "schedule: '* 2 * * *'",
            ":7: schedule: is due each minute from 2:00 to 2:59. Write '0 2 * * *' if once is meant.",
        ),
        (
            "schedule: '* 9-17 * * 1-5'",
            "is due each minute of the hours 9-17. Write '0 9-17 * * 1-5'",
        ),
        (
            "rate.limit.bytes: 10",
            ":7: rate.limit.bytes: is 10 bytes a second for the whole run. Write 10MiB for as many mebibytes.",
        ),
        (
            "on.source.topic.deleted: retire\nretire.after.ms: 7",
            "retire.after.ms: is 7 milliseconds, after which a copy is deleted. A day is 86400000.",
        ),
        (
            "start.date: 2999-01-01",
            ":7: start.date: is 2999-01-01: before that, the timetable starts no run",
        ),
        (
            "topics.configs: {o.*: {retention.ms: 7}}",
            ":7: topics.configs: keeps records of o.* for 7 milliseconds. Write retention.ms: 7d for 7 days.",
        ),
        (
            "topics: [customers]\ntransform: [{topics: customer, where: 'true'}]",
            "transform: names customer, which the flow does not copy. Did you mean 'customers'?",
        ),
        (
            "metrics.prometheus.push.credentials.file: /no/such",
            ":7: metrics.prometheus.push.credentials.file: /no/such is not on this machine. A run needs it.",
        ),
    ],
)
def test_a_doubt_about_a_yaml_file(tmp_path: Path, more: str, said: str) -> None:
    file = yaml_file(tmp_path, more)
    (text,) = doubt_texts(file, load_flow(file))
    assert said in text
    assert text.startswith((f"{file}:7: ", f"{file}:8: "))


def test_a_login_that_is_never_used(tmp_path: Path) -> None:
    file = properties_file(
        tmp_path,
        f"primary.security.protocol = SSL\nprimary.sasl.jaas.config = {LOGIN}\nprimary->backup.topics = o*",
    )
    login, pattern = sorted(doubt_texts(file, load_flow(file)))
    assert login == (
        f"{file}:6: primary.sasl.jaas.config: is not used: security.protocol of primary is SSL. A login needs "
        "SASL_SSL or SASL_PLAINTEXT."
    )
    assert pattern.startswith(f"{file}:7: primary->backup.topics: 'o*' is a regular expression")


def test_a_store_that_this_machine_lacks(tmp_path: Path) -> None:
    here = tmp_path / "here.pem"
    here.touch()
    file = properties_file(
        tmp_path,
        f"primary.ssl.truststore.location = {here}\nbackup.admin.ssl.keystore.location = /no/such\n",
    )
    assert doubt_texts(file, load_flow(file)) == [
        f"{file}:6: backup.admin.ssl.keystore.location: /no/such is not on this machine. A run needs it."
    ]


@pytest.mark.parametrize("more", ["", "topics: [o.*, '[a-z]*', '(ab)*', '\\w*']", "groups: []"])
def test_what_may_well_be_meant_is_no_doubt(tmp_path: Path, more: str) -> None:
    file = yaml_file(tmp_path, more, start=YAML)
    assert doubt_texts(file, load_flow(file)) == []
    file = properties_file(tmp_path, start=PROPERTIES)
    assert doubt_texts(file, load_flow(file)) == []
