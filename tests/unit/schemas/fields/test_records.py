"""Keys and values with the ids of their schemas."""

from __future__ import annotations

import json
import uuid

import pytest

from kafka_ferry.config.options.transform import RegistryFormat
from kafka_ferry.model.schemas import SchemaVersion
from kafka_ferry.schemas.fields.record_schema import NotReadable, references_of
from kafka_ferry.schemas.fields.records import RegistryRecords
from kafka_ferry.schemas.translate import MOST_UNKNOWN
from tests.support.servers.registries import MemoryRegistry

HEADER = b"__value_schema_id"
CITY = {"type": "record", "name": "City", "fields": [{"name": "name", "type": "string"}]}
NUMBER = {"name": "n", "type": "int"}
ONE = {"type": "record", "name": "Place", "fields": [NUMBER]}
TWO = {"type": "record", "name": "Place", "fields": [NUMBER, {"name": "in", "type": "City"}]}


@pytest.fixture
def registry() -> MemoryRegistry:
    """The schemas 1, which 3 refers to, 2 and 3."""
    registry = MemoryRegistry()
    registry.add("City", json.dumps(CITY))
    registry.add("places-value", json.dumps(ONE))
    registry.add("places-value", json.dumps(TWO), ("City", SchemaVersion("City", 1)))
    return registry


def records_of(registry: MemoryRegistry, form: RegistryFormat, *names: str) -> RegistryRecords:
    return RegistryRecords(lambda: registry, form, names, HEADER, "places-value")


def of(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


def test_each_record_is_read_by_its_own_schema(registry: MemoryRegistry) -> None:
    records = records_of(registry, "avro", "n", "in")
    assert json.loads(records.as_json(of(2, b"\x0a"))) == {"n": 5}
    asked = registry.asked
    assert json.loads(records.as_json(of(2, b"\x0c"))) == {"n": 6}
    assert registry.asked == asked, "a schema is asked for once"
    assert json.loads(records.as_json(of(3, b"\x0a\x02x"))) == {"n": 5, "in": {"name": "x"}}


def test_a_version_that_is_registered_again_meanwhile_is_no_schema_of_the_id(
    registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "places", lambda _: [SchemaVersion("places-value", 1)])
    with pytest.raises(NotReadable, match="the schema 3 is not known"):
        records_of(registry, "avro", "n").with_fields(of(3, b"\x0a"), {("n",): "6"})


def test_a_record_in_protobuf_is_read_with_what_its_schema_imports(
    registry: MemoryRegistry,
) -> None:
    city = 'syntax = "proto3"; package geo; message City { string name = 1; }'
    place = 'syntax = "proto3"; import "c.proto"; message Place { int32 n = 1; geo.City in = 2; }'
    registry.add("City-proto", city, kind="PROTOBUF")
    reference = ("c.proto", SchemaVersion("City-proto", 1))
    number = registry.add("places-value", place, reference, kind="PROTOBUF").id
    records = records_of(registry, "protobuf", "n", "in")
    content = of(number, b"\0\x08\x05\x12\x03\x0a\x01x")
    assert json.loads(records.as_json(content)) == {"n": 5, "in": {"name": "x"}}
    assert records.with_fields(content, {("in", "name"): '"y"'}) == content[:-1] + b"y"
    for other in (of(2, b"\x0a"), content[:5] + b"\2\2"):
        assert records.as_json(other) == b"\xff"
    with pytest.raises(NotReadable, match="places-value version 1 is AVRO, and not PROTOBUF"):
        records.with_fields(of(2, b"\x0a"), {("n",): "6"})


PLACE = 'syntax = "proto3"; message Other {} message Place { int32 n = 1; }'


@pytest.mark.parametrize("by", ["id", "GUID"])
@pytest.mark.parametrize(
    ("form", "indexes", "content", "changed"),
    [("avro", b"", b"\x0a", b"\x0c"), ("protobuf", b"\2\2", b"\x08\5", b"\x08\6")],
)
def test_the_id_may_stand_in_a_header(
    registry: MemoryRegistry,
    form: RegistryFormat,
    indexes: bytes,
    content: bytes,
    changed: bytes,
    by: str,
) -> None:
    text = PLACE if form == "protobuf" else json.dumps(ONE)
    schema = registry.add("places-value", text, kind=form.upper())
    told = b"\1" + uuid.UUID(schema.guid).bytes if by == "GUID" else of(schema.id, b"")
    headers = [(b"other", b"x"), (HEADER, told + indexes)]
    records = records_of(registry, form, "n")
    assert json.loads(records.as_json(content, headers)) == {"n": 5}
    assert records.with_fields(content, {("n",): "6"}, headers) == changed
    asked = registry.asked
    records.as_json(content, headers)
    assert registry.asked == asked


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([None], "its header does not have the id of one schema"),
        ([b""], "its header does not have the id of one schema"),
        ([b"\2\0\0\0\2"], "its header does not have the id of one schema"),
        ([b"\1\0\0\0\2"], "its header does not have the id of one schema"),
        ([of(2, b""), of(3, b"")], "its header does not have the id of one schema"),
        ([of(2, b"\0")], "its header has more than the id of a schema"),
        ([b"\1" + bytes(16)], "the schema 00000000-0000-0000-0000-000000000000 is not known"),
    ],
)
def test_a_header_that_tells_no_schema_is_refused(
    registry: MemoryRegistry, values: list[bytes | None], why: str
) -> None:
    headers = [(HEADER, value) for value in values]
    records = records_of(registry, "avro", "n")
    assert records.as_json(b"\x0a", headers) == b"\xff"
    with pytest.raises(NotReadable, match=why):
        records.with_fields(b"\x0a", {("n",): "6"}, headers)


def test_protobuf_in_a_header_has_its_indexes_there(registry: MemoryRegistry) -> None:
    number = registry.add("places-value", PLACE, kind="PROTOBUF").id
    records = records_of(registry, "protobuf", "n")
    for indexes in (b"", b"\2\2\x08"):
        assert records.as_json(b"\x08\5", [(HEADER, of(number, indexes))]) == b"\xff"


def test_a_changed_record_keeps_the_id_of_its_schema(registry: MemoryRegistry) -> None:
    records = records_of(registry, "avro", "n")
    changes = {("n",): "6", ("in", "name"): '"y"'}
    assert records.with_fields(of(3, b"\x0a\x02x"), changes) == of(3, b"\x0c\x02y")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "does not begin with the id"),
        (b"\1\0\0\0\2\x0a", "does not begin with the id"),
        (of(99, b"\x0a"), "the schema 99 is not known"),
        (of(2, b""), "does not fit its schema"),
    ],
)
def test_what_cannot_be_read_is_no_json_and_is_not_changed(
    registry: MemoryRegistry, content: bytes, why: str
) -> None:
    records = records_of(registry, "avro", "n")
    with pytest.raises(ValueError, match="utf-8"):
        json.loads(records.as_json(content).decode())
    for _ in range(2):
        with pytest.raises(NotReadable, match=why):
            records.with_fields(content, {("n",): "6"})


def test_a_producer_cannot_have_a_registry_asked_for_each_record(registry: MemoryRegistry) -> None:
    records, asked = records_of(registry, "avro", "n"), registry.asked
    records.as_json(of(2, b"\x0a"))
    for number in range(100, 100 + 3 * MOST_UNKNOWN):
        assert records.as_json(of(number, b"\x0a")) == b"\xff"
    assert registry.asked - asked == 1 + MOST_UNKNOWN
    # What was read before is still read.
    assert json.loads(records.as_json(of(2, b"\x0c"))) == {"n": 6}


def test_ids_that_no_registry_knows_make_no_other_producers_records_fail(
    registry: MemoryRegistry,
) -> None:
    records, number = records_of(registry, "avro", "n"), 100
    for number in range(100, 100 + MOST_UNKNOWN):
        records.as_json(of(number, b"\x0a"))
    assert json.loads(records.as_json(of(2, b"\x0a"))) == {"n": 5}
    asked = registry.asked
    assert records.as_json(of(number + 1, b"\x0a")) == b"\xff"
    assert registry.asked == asked


def test_a_task_reads_no_more_schemas_than_so_many_characters(
    registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_ferry.schemas.fields.records.MOST_TEXT", 50)
    records = records_of(registry, "avro", "n")
    assert json.loads(records.as_json(of(2, b"\x0c"))) == {"n": 6}
    assert records.as_json(of(3, b"\x0c\x02a")) == b"\xff"
    assert json.loads(records.as_json(of(2, b"\x0c"))) == {"n": 6}


def test_a_schema_refers_to_no_more_than_so_many_characters(
    registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chain of some hundred large ones would be in memory at once."""
    monkeypatch.setattr("kafka_ferry.schemas.fields.record_schema.MOST_TEXT", 100)
    middle = registry.add("large", "x" * 60)
    registry.add("chain", "y" * 60, ("large", middle.at))
    schema = registry.add("root", "{}", ("chain", SchemaVersion("chain", 1)))
    with pytest.raises(NotReadable, match="refers to schemas of more than 100 characters"):
        references_of(registry, schema)


def test_a_schema_that_the_registry_does_not_give_is_the_failure_of_its_records(
    registry: MemoryRegistry,
) -> None:
    schema = registry.add("refers", "{}", ("gone", SchemaVersion("gone", 1)))
    records = records_of(registry, "avro", "n")
    assert records.as_json(of(schema.id, b"\x0c")) == b"\xff"
    assert json.loads(records.as_json(of(2, b"\x0c"))) == {"n": 6}
