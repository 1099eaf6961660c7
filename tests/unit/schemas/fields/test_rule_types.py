"""Rules get the types of their records' schemas, and cannot change a schema."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.errors import ConfigError
from kafka_ferry.schemas.fields import rule_types
from kafka_ferry.schemas.fields.avro import AvroSchema
from kafka_ferry.schemas.fields.rule_types import with_registry_types
from tests.support.servers.registries import MemoryRegistry

MakeFlow = Callable[..., Flow]


@pytest.fixture
def a_flow(tmp_path: Path) -> MakeFlow:
    """Makes a flow with a rule."""

    def make(**rule: Any) -> Flow:
        registry = {"url": "http://localhost:1"}
        flow = {
            "source": {"alias": "a", "bootstrap.servers": "a:1", "schema.registry": registry},
            "target": {"alias": "b", "bootstrap.servers": "b:1"},
            "topics": [".*"],
            "transform": [{"topics": ["orders.*"], "format": {"value": "avro"}, **rule}],
        }
        # JSON is YAML.
        (tmp_path / "flow.yaml").write_text(json.dumps(flow))
        return load_flow(tmp_path / "flow.yaml")

    return make


def a_schema(**types: Any) -> str:
    fields = [
        {"name": name, "type": type_} | ({"default": None} if isinstance(type_, list) else {})
        for name, type_ in types.items()
    ]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> MemoryRegistry:
    found = MemoryRegistry()

    @contextmanager
    def open_registry(_: object) -> Iterator[MemoryRegistry]:
        yield found

    monkeypatch.setattr(rule_types, "open_registry", open_registry)
    return found


def test_the_newest_version_says_which_types_the_named_fields_have(
    registry: MemoryRegistry, a_flow: MakeFlow
) -> None:
    registry.add("orders-value", a_schema(n="int"))
    registry.add("orders-value", a_schema(n="long", other="int"))
    registry.add("clicks-value", a_schema(n="string"))
    registry.add("orders-key", a_schema(n="string"))
    flow = a_flow(where="value.n > 1")

    (rule,) = with_registry_types(flow).transform

    assert rule.types == (("value.n", "bigint"),)
    assert flow.transform[0].types == ()


def test_topics_of_a_rule_have_the_same_types_where_it_names_a_field(
    registry: MemoryRegistry, a_flow: MakeFlow
) -> None:
    registry.add("orders-value", a_schema(n="int", m="int"))
    registry.add("orders.eu-value", a_schema(n="int", m="string"))
    assert with_registry_types(a_flow(where="value.n > 1")).transform[0].types == (
        ("value.n", "int"),
    )
    with pytest.raises(
        ConfigError, match=r"names value\.m, which is int in orders-value and string"
    ):
        with_registry_types(a_flow(where="value.m > 1"))


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"set": {"value.new": "1"}}, "sets value.new, which is no field in orders-value"),
        ({"drop": ["value.n"]}, "drops value.n, which has no default in orders-value"),
    ],
)
def test_a_rule_that_would_change_a_schema_is_refused(
    registry: MemoryRegistry, a_flow: MakeFlow, rule: dict[str, Any], why: str
) -> None:
    registry.add("orders-value", a_schema(n="int", nick=["null", "string"]))
    with pytest.raises(ConfigError, match=why):
        with_registry_types(a_flow(**rule))
    with_registry_types(a_flow(drop=["value.nick"], set={"value.n": "1"}))


PROTOBUF = """
syntax = "proto2";
message Order {
  optional uint64 n = 1; required string email = 2; optional Address address = 3;
  message Address { optional string city = 1; }
}
"""


def test_a_rule_for_protobuf_gets_the_types_of_its_schema_too(
    registry: MemoryRegistry, a_flow: MakeFlow
) -> None:
    registry.add("orders-value", PROTOBUF, kind="PROTOBUF")
    protobuf = {"value": "protobuf"}

    flow = a_flow(format=protobuf, where="value.n > 1 and value.address.city = 'x'")

    assert dict(with_registry_types(flow).transform[0].types) == {
        **{"value.n": "decimal(20,0)", "value.address": "struct<`city`: string>"},
        "value.address.city": "string",
        # Records may be addresses too.
        "value.city": "string",
    }
    with pytest.raises(ConfigError, match=r"sets value\.address\.zip, which is no field in orders"):
        with_registry_types(a_flow(format=protobuf, set={"value.address.zip": "1"}))
    with pytest.raises(ConfigError, match=r"drops value\.email, which has no default"):
        with_registry_types(a_flow(format=protobuf, drop=["value.email"]))
    # Its records fail one by one.
    with_registry_types(a_flow(set={"value.new": "1"}))


def test_a_schema_that_cannot_be_read_stops_no_other_topic(
    registry: MemoryRegistry, a_flow: MakeFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer may register any."""
    registry.add("orders-value", a_schema(n="int"))
    registry.add("orders.eu-value", "[" * 100_000)
    registry.add("orders.us-value", a_schema(n={"type": {"type": "int"}}))
    listed = registry.subjects()
    # Deleted since the subjects were listed.
    monkeypatch.setattr(registry, "subjects", lambda: [*listed, "orders.de-value"])
    with_registry_types(a_flow(where="value.n > 1"))

    def fields(self: AvroSchema, words: object) -> object:
        raise RecursionError(words)

    monkeypatch.setattr(AvroSchema, "fields", fields)
    assert with_registry_types(a_flow(where="value.n > 1")).transform[0].types == ()


def test_a_library_that_is_missing_is_named_with_the_extra(
    registry: MemoryRegistry, a_flow: MakeFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.add("orders-value", PROTOBUF, kind="PROTOBUF")
    monkeypatch.setitem(sys.modules, "kafka_ferry.schemas.fields.protobuf.schema", None)
    with pytest.raises(ConfigError, match="needs a package that is not installed") as error:
        with_registry_types(a_flow(format={"value": "protobuf"}, where="value.n > 1"))
    assert "kafka-ferry[schema-registry]" in str(error.value.advice)


def test_a_flow_without_such_records_asks_no_registry(a_flow: MakeFlow) -> None:
    flow = a_flow(format={}, where="true")
    assert with_registry_types(flow) is flow
