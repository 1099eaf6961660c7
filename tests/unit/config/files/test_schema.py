"""Editors are told by the schema what a YAML flow may say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from kafka_ferry.config import load_flow
from kafka_ferry.config.files.schema import flow_schema, schema_text
from kafka_ferry.config.flow import OPTIONS
from tests import PROJECT
from tests.unit.config.builders import YAML

CONFIGS = PROJECT / "include" / "configs"
VALIDATOR = Draft7Validator(flow_schema())


class _Loader(yaml.SafeLoader):
    """As editors read YAML: dates are text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def problems(text: str) -> list[str]:
    data: Any = yaml.load(text, _Loader)
    return [error.message for error in VALIDATOR.iter_errors(data)]


def test_the_schema_beside_the_flows_is_as_make_docs_writes_it() -> None:
    assert (CONFIGS / "flow.schema.json").read_text() == schema_text()


def test_the_schema_is_one() -> None:
    Draft7Validator.check_schema(flow_schema())


@pytest.mark.parametrize(
    "file",
    [*CONFIGS.glob("*.yaml"), *(PROJECT / "docs" / "examples").rglob("*.yaml")],
    ids=lambda file: file.name,
)
def test_the_projects_flows_are_what_it_describes(file: Path) -> None:
    assert problems(file.read_text()) == []


def test_the_demos_flow_names_it() -> None:
    first = (CONFIGS / "primary_to_backup.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=flow.schema.json"


PAGE = (PROJECT / "docs" / "configuration.md").read_text()
BLOCKS = [block.partition("```")[0] for block in PAGE.split("```yaml\n")[1:]]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[0][:30])
def test_the_docs_say_what_it_describes_and_what_can_be_loaded(tmp_path: Path, block: str) -> None:
    text = block if "\ntarget:" in block else YAML + block
    assert problems(text) == []
    if "${" in text and "config.providers:" not in text:
        text += "config.providers: [file, env, dir]\n"
    (tmp_path / "flow.yaml").write_text(text)
    assert load_flow(tmp_path / "flow.yaml").enabled


def test_each_option_is_there_with_its_explanation_and_its_default() -> None:
    options = flow_schema()["properties"]
    assert set(OPTIONS) <= options.keys()
    assert all(options[name]["description"] for name in OPTIONS)
    assert options["writers"]["default"] == 32
    assert options["offsets"]["default"] == "translated"
    assert json.loads(schema_text())["properties"]["topics"]["default"] == [".*"]


@pytest.mark.parametrize(
    "more",
    [
        "topics: [a, 'b.*']",
        "topics: a, b",
        "writers: 4",
        "writers: '4'",
        "transaction.max.bytes: 64MiB",
        "fetch.max.bytes: 1000",
        "enabled: false",
        "schedule:",
        "schedule: '@daily'",
        "start.date: 2026-02-03",
        "topics.rename: {a: b}",
        "topics.rename: a:b, c:d",
        "offsets: preserved",
        "offsets: {a: preserved, 'b.*': auto}",
        "offsets: a:preserved",
        "offsets.start: {a: 0, b: log-start, c: '7'}",
        "replication.policy.class: company.naming.ByTeam",
        "dead.letter.topic:",
        "topic.filter.class: DefaultTopicFilter",
        "config.providers: [file]\nconfig.providers.file.param.allowed.paths: /run/secrets",
    ],
)
def test_what_a_flow_may_say_is_accepted(more: str) -> None:
    assert problems(YAML + more) == []


@pytest.mark.parametrize(
    "more",
    [
        "topic: x",
        "topics_exclude: x",
        "offset.lag.max: 1",
        "topics: 5",
        "topics: [1]",
        "writers: 0",
        "writers: many",
        "writers: ${env:WRITERS}",
        "writers: 1.5",
        "transaction.max.bytes: 64MB",
        "retire.after.ms: 64MiB",
        "enabled: perhaps",
        "start.date: 5",
        "topics.rename: {a: 'b c'}",
        "topics.rename: [a]",
        "offsets: same",
        "offsets: {a: same}",
        "offsets.start: -1",
        "on.source.truncation: adopt",
        "replication.policy.separator: /",
        "isolation.level: serializable",
        "file: x",
    ],
)
def test_a_misspelt_key_or_a_wrong_value_is_not(more: str) -> None:
    assert problems(YAML + more)


@pytest.mark.parametrize(
    ("old", "new", "accepted"),
    [
        ("alias: primary", "alias: eu.west", True),
        ("alias: primary", "alias: a\n  consumer: {fetch.max.wait.ms: 5, check.crcs: true}", True),
        ("alias: primary", "alias: a\n  consumer.fetch.max.wait.ms: 5\n  admin:", True),
        ("source:9092", "[a:1, b:2]", True),
        ("bootstrap.servers: source:9092", "airflow.connection: my_kafka", True),
        ("alias: primary", "alias: a/b", False),
        ("alias: primary", "alias: 5", False),
        ("  alias: primary\n", "", False),
        ("  bootstrap.servers: source:9092\n", "", False),
        ("alias: primary", "alias: a\n  ssl.trustore.type: x", False),
        ("alias: primary", "alias: a\n  consumers: {a: b}", False),
        ("alias: primary", "alias: a\n  consumer: x", False),
        ("alias: primary", "alias: a\n  admin: {a: {}}", False),
        ("alias: primary", "alias: a\n  fetch.min.bytes: 1", False),
    ],
)
def test_a_cluster_has_an_alias_brokers_and_its_clients_properties(
    old: str, new: str, accepted: bool
) -> None:
    assert (problems(YAML.replace(old, new, 1)) == []) is accepted


@pytest.mark.parametrize("text", ["", "source: {alias: a, bootstrap.servers: 'a:1'}", "- a"])
def test_source_and_target_are_required(text: str) -> None:
    assert problems(text)
