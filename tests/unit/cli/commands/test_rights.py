"""``ferry rights``: a flow's rights, as a list, as JSON and as commands, without any broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_ferry.config import load_flow
from kafka_ferry.runs.rights import needed_rights
from tests.support.runs.command_line import ferry

FLOW = """
source: {alias: primary, bootstrap.servers: "source:9092"}
target: {alias: backup, bootstrap.servers: "target:9092"}
topics: [orders, "payments.*"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "flow.yaml"
    file.write_text(FLOW)
    return file


def test_the_rights_are_listed_by_cluster_and_resource(file: Path) -> None:
    said = ferry("rights", "--config", file)
    assert said.returncode == 0
    source, target = said.stdout.split("\nbackup\n")
    assert source.startswith("primary\n")
    # A narrow terminal breaks lines within the columns.
    assert "DESCRIBE_CONFIGS" in source
    assert "ALTER_CONFIGS" in target


def test_programs_get_every_right_with_its_reason(file: Path) -> None:
    found = json.loads(ferry("rights", "--config", file, "--json").stdout)
    needed = needed_rights(load_flow(file))
    assert [(it["side"], it["operation"], it["name"]) for it in found] == [
        (it.side, it.right.operation, it.right.name) for it in needed
    ]
    assert found[0] == {
        "side": "source",
        "cluster": "primary",
        "operation": "READ",
        "resource_type": "TOPIC",
        "name": "orders",
        "pattern_type": "LITERAL",
        "why": "to copy the topics, and their configs",
    }


def test_a_principal_gets_commands_for_both_clusters(file: Path) -> None:
    options = ("--principal", "User:ferry", "--command-config", "admin.properties")
    lines = ferry("rights", "--config", file, *options).stdout.splitlines()
    assert [line for line in lines if line.startswith("#")] == ["# primary", "# backup"]
    begin = "kafka-acls.sh --bootstrap-server {} --command-config admin.properties --add "
    begin += "--allow-principal User:ferry --operation "
    assert (
        begin.format("source:9092")
        + "DescribeConfigs --operation Read --topic payments --resource-pattern-type prefixed"
    ) in lines
    assert begin.format("target:9092") + "Read --group 'ferry.primary->backup'" in lines


def test_brokers_that_only_the_workers_know_have_a_placeholder(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    reference = "config.providers: [env]\n"
    file.write_text(reference + FLOW.replace("source:9092", "${env:FERRY_NOT_SET_HERE}"))
    said = ferry("rights", "--config", file, "--principal", "User:ferry")
    assert said.returncode == 0
    assert "--bootstrap-server BROKER --add" in said.stdout
    assert "--bootstrap-server target:9092 --add" in said.stdout


def test_a_principal_without_a_type_is_an_error(file: Path) -> None:
    said = ferry("rights", "--config", file, "--principal", "ferry")
    assert said.returncode == 9
    assert "User:ferry" in said.stderr
