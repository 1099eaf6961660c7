"""The documentation knows every name that reports and ledgers use."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from pydantic import BaseModel

from kafka_ferry.batches import Reason, Rebuilt
from kafka_ferry.cli.entry import app
from kafka_ferry.config import Flow, load_flows
from kafka_ferry.ledger import CopiedRange, ReleasedTopic
from kafka_ferry.ledger.record import Entry
from kafka_ferry.model import Mark, ProducerState
from kafka_ferry.verify.checks import WARNINGS
from tests import PROJECT

DOCS = PROJECT / "docs"
CONCEPTS, LEDGER, OPERATIONS = (
    (DOCS / f"{page}.md").read_text() for page in ("concepts", "ledger", "operations")
)


@pytest.mark.parametrize("name", [*Reason, *Rebuilt], ids=repr)
def test_every_reason_is_a_row_of_a_table_in_the_concepts(name: StrEnum) -> None:
    assert f"\n| {name} | " in CONCEPTS


def test_every_field_of_a_range_and_of_a_mark_is_in_the_ledgers_description() -> None:
    described = set(re.findall(r"`(\w+)`", LEDGER))
    assert {*CopiedRange.model_fields, *ReleasedTopic.model_fields} <= described
    assert {field.name for kind in (Mark, ProducerState) for field in fields(kind)} <= described


@pytest.mark.parametrize("kind", get_args(Entry), ids=lambda kind: kind.__name__)
def test_every_type_of_record_has_a_section_that_names_its_fields(kind: type[BaseModel]) -> None:
    own = kind.model_fields["type"].default
    (section,) = re.findall(rf"^## `{own}`\n(.*?)(?=^## |\Z)", LEDGER, re.M | re.S)
    common = {"version", "type", "flow", "run", "at"}
    assert kind.model_fields.keys() - common <= set(re.findall(r"`(\w+)`", section))


@pytest.mark.parametrize("check", WARNINGS.checks, ids=lambda check: check.left)
def test_every_option_that_a_warning_names_is_explained(check) -> None:
    for option in re.findall(r"\bon(?:\.[a-z]+)+", check.advice):
        assert f"`{option}`" in OPERATIONS or f"`{option}:" in OPERATIONS


def test_every_value_of_every_policy_is_explained_where_something_fails() -> None:
    policies = {
        field.alias: field.annotation
        for field in Flow.model_fields.values()
        if (field.alias or "").startswith("on.")
    }
    assert len(policies) == 16
    for option, values in policies.items():
        rows = re.findall(rf"\| `{re.escape(option or '')}` \| (.+) \|", OPERATIONS)
        assert [re.findall(r"`([^`]+)`", row) for row in rows] == [list(values.__args__)]


RECIPES = re.findall(r"^```yaml\n(source:.*?)^```", (DOCS / "recipes.md").read_text(), re.M | re.S)


@pytest.mark.parametrize("recipe", RECIPES, ids=range(len(RECIPES)))
def test_every_recipe_is_a_flow_that_is_valid(recipe: str, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(recipe)
    (flow,) = load_flows(tmp_path / "flow.yaml")
    assert list(flow.topics) == ["orders", "payments.*"]
    assert flow.replication_factor == -1, "what works on a cluster of any size"


def test_the_transforms_page_has_flows_that_are_valid(tmp_path: Path) -> None:
    examples = re.findall(
        r"^```yaml\n(source:.*?)^```", (DOCS / "transforms.md").read_text(), re.M | re.S
    )
    topics = []
    for example in examples:
        (tmp_path / "flow.yaml").write_text(example)
        (flow,) = load_flows(tmp_path / "flow.yaml")
        topics.append([rule.topics for rule in flow.transform])

    assert topics == [[("orders.*",), ("customers",), ("clicks",)], [("accounts",), ("visits",)]]


def test_the_schema_registry_page_has_flows_that_are_valid(tmp_path: Path) -> None:
    page = (DOCS / "schema-registry.md").read_text()
    first, more = re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)
    for example in (first, first + more):
        (tmp_path / "flow.yaml").write_text(example)
        (flow,) = load_flows(tmp_path / "flow.yaml")
        assert flow.sync_schemas == "translate-ids"
    assert flow.schemas_ids_in.of("payments.eu") == "value"
    assert flow.schemas_ids_in.of("orders") == "subjects"
    assert flow.schemas_subjects == ("com[.]acme[.].*",)


def test_the_index_names_every_page() -> None:
    named = set(re.findall(r"\]\(([\w/-]+\.md)", (DOCS / "index.md").read_text()))
    assert named | {"index.md"} == {it.relative_to(DOCS).as_posix() for it in DOCS.rglob("*.md")}


def test_there_are_recipes() -> None:
    assert len(RECIPES) == 8


def commands() -> Iterator[str]:
    """The calls of ``ferry`` in blocks of the README and the docs, without remarks and what else is on the line."""
    for page in (DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))):
        for block in re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.M | re.S):
            lines = block.replace("\\\n", " ").splitlines()
            yield from (
                found[1] for it in lines if (found := re.match(r"(ferry .+?)(?: +[#|>&].*)?$", it))
            )


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_every_command_of_the_docs_is_one_and_has_the_options_that_it_names(command: str) -> None:
    called: Any = typer.main.get_command(app)
    words = shlex.split(command)[1:]
    while words and words[0] in getattr(called, "commands", ()):
        called = called.commands[words.pop(0)]
    assert not hasattr(called, "commands")
    known = {option for it in called.params for option in (*it.opts, *it.secondary_opts)}
    assert {word.split("=")[0] for word in words if word.startswith("--")} <= known
