"""Fields of records in Avro are read and changed, and everything else stays byte for byte."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from kafka_ferry.batches.rule_counts import FieldCounts
from kafka_ferry.model.schemas import SchemaVersion
from kafka_ferry.schemas.fields.avro import AvroSchema
from kafka_ferry.schemas.fields.record_schema import NotReadable, Reference
from kafka_ferry.schemas.registered import RegisteredSchema

CITY = {
    "type": "record",
    "name": "geo.City",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "zip", "type": ["null", "int"], "default": None},
    ],
}
EVERYTHING = {
    "type": "record",
    "name": "a.Person",
    "fields": [
        {"name": "email", "type": "string", "default": "none"},
        {"name": "nick", "type": ["null", "string"], "default": None},
        {"name": "n", "type": "long"},
        {"name": "i", "type": "int"},
        {"name": "f", "type": "double"},
        {"name": "is", "type": "boolean"},
        {"name": "b", "type": "bytes", "default": "\u00ff"},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["X", "Y"]}},
        {
            "name": "amount",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
        },
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "city", "type": ["null", "geo.City"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "by", "type": {"type": "map", "values": "long"}},
        {"name": "any", "type": ["string", "long", "a.K", "geo.City"]},
    ],
}
RECORD: dict[str, Any] = {
    **{"email": "e", "nick": None, "n": 2**40, "i": -5, "f": 1.5, "is": True, "b": b"\xfe"},
    **{"kind": "Y", "amount": Decimal("-12.34"), "at": 1_700_000_000_123_456},
    **{"city": {"name": "c", "zip": 3}, "tags": ["x"], "by": {"k": 1}, "any": ("a.K", "X")},
}


def registered(text: object, subject: str = "people-value") -> RegisteredSchema:
    return RegisteredSchema(SchemaVersion(subject, 1), 7, json.dumps(text))


def parsed() -> Any:
    named: dict[str, Any] = {}
    fastavro.parse_schema(CITY, named_schemas=named)
    return fastavro.parse_schema(EVERYTHING, named_schemas=named)


def written(record: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, parsed(), record)
    return stream.getvalue()


@pytest.fixture(scope="module")
def schema() -> AvroSchema:
    return AvroSchema(
        registered(EVERYTHING),
        [Reference(name, registered(CITY, "geo.City")) for name in ("a", "b")],
    )


PAYLOAD = written(RECORD)


def test_fields_have_the_types_of_their_schema(schema: AvroSchema) -> None:
    fields = schema.fields([*RECORD, "name", "zip"])
    types = {".".join(names): field.sql_type for names, field in fields.items()}
    assert types == {
        **{"email": "string", "nick": "string", "n": "bigint", "i": "int", "f": "double"},
        **{"is": "boolean", "b": "binary", "kind": "string", "amount": "decimal(5,2)"},
        **{"at": "bigint", "city": "struct<`name`: string, `zip`: int>", "city.name": "string"},
        **{"city.zip": "int", "tags": "array<string>", "by": "map<string,bigint>"},
        "any": "string",
    }
    assert fields["city", "zip"].has_default
    assert not fields["city", "name"].has_default
    assert [*schema.fields(["zip", "n"])] == [("n",)]


@pytest.mark.parametrize("digits", ["12345678901234567890123456789012345678", "-" + "9" * 38, "1"])
def test_a_decimal_keeps_its_digits(digits: str) -> None:
    of_38 = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
    one = AvroSchema(
        registered({"type": "record", "name": "R", "fields": [{"name": "a", "type": of_38}]}), []
    )
    unscaled = int(digits)
    content = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    payload = bytes([2 * len(content)]) + content
    (text,) = json.loads(one.as_json(payload, ["a"])).values()
    assert Decimal(text).as_tuple()[:2] == Decimal(digits).as_tuple()[:2]
    assert one.change(b"\x02\x00", {("a",): f'"{text}"'}) == payload
    for too_long in (f'"{text}1"', '"1e37"', '"1e999999999"', f'"{"1" * 500}"'):
        with pytest.raises(NotReadable):
            one.change(payload, {("a",): too_long})


def test_fields_are_read_as_json_without_losing_digits(schema: AvroSchema) -> None:
    found = json.loads(schema.as_json(PAYLOAD, [*RECORD, "missing"]))
    assert found == RECORD | {"b": "/g==", "amount": "-12.34", "any": "X"}
    assert json.loads(schema.as_json(PAYLOAD, ["n"])) == {"n": 2**40}


@pytest.mark.parametrize(
    ("names", "value", "expected"),
    [
        ("email", '"x"', {"email": "x"}),
        ("email", None, {"email": "none"}),
        ("nick", '"x"', {"nick": "x"}),
        ("nick", "null", {"nick": None}),
        ("n", "7", {"n": 7}),
        ("f", "7", {"f": 7.0}),
        ("is", "false", {"is": False}),
        ("b", '"AQ=="', {"b": b"\x01"}),
        ("b", None, {"b": b"\xff"}),
        ("kind", '"X"', {"kind": "X"}),
        ("amount", "999.99", {"amount": Decimal("999.99")}),
        ("amount", '"0"', {"amount": Decimal(0)}),
        ("city.name", '"x"', {"city": {"name": "x", "zip": 3}}),
        ("city.zip", None, {"city": {"name": "c", "zip": None}}),
        ("city", "null", {"city": None}),
        ("city", '{"name": "d"}', {"city": {"name": "d", "zip": None}}),
        ("tags", '["a", "b"]', {"tags": ["a", "b"]}),
        ("by", '{"a": 2}', {"by": {"a": 2}}),
        ("any", "9", {"any": 9}),
        # What the writer's schema lacks is not added, and there is nothing to remove.
        ("missing", "null", {}),
        ("missing", None, {}),
    ],
)
def test_a_field_is_changed_and_the_others_stay(
    schema: AvroSchema, names: str, value: str | None, expected: dict[str, Any]
) -> None:
    counts, path = FieldCounts(), tuple(names.split("."))
    found = schema.change(PAYLOAD, {path: value}, counts)
    assert found == written(RECORD | expected)
    assert counts.changed[path] == (found != PAYLOAD)


def test_a_field_of_a_record_that_is_null_changes_nothing(schema: AvroSchema) -> None:
    without = written(RECORD | {"city": None})
    counts = FieldCounts()
    assert schema.change(without, {("city", "name"): '"x"'}, counts) == without
    assert not +counts.changed


@pytest.mark.parametrize(
    ("names", "value", "why"),
    [
        ("email", "null", "the value is no string"),
        ("email", "1", "the value is no string"),
        ("n", '"1"', "the value is no long"),
        ("n", "true", "the value is no long"),
        ("i", "2147483648", "the value is no int"),
        ("kind", '"Z"', "the value is no enum"),
        ("amount", "1.234", "no decimal of that scale"),
        ("amount", "1000.00", "more digits"),
        ("amount", '"x"', "no decimal"),
        ("n", None, "n has no default"),
        ("missing", "1", "its schema has no field missing"),
        ("email.x", "1", "email is no record"),
    ],
)
def test_a_value_that_a_field_cannot_have_is_refused(
    schema: AvroSchema, names: str, value: str | None, why: str
) -> None:
    with pytest.raises(NotReadable, match=why):
        schema.change(PAYLOAD, {tuple(names.split(".")): value})


@pytest.mark.parametrize("payload", [b"", PAYLOAD[:-1], PAYLOAD + b"x", b"\xff" * 30])
def test_a_record_that_does_not_fit_its_schema_is_not_read(
    schema: AvroSchema, payload: bytes
) -> None:
    with pytest.raises(NotReadable, match="does not fit its schema"):
        schema.as_json(payload, ["n"])
    with pytest.raises(NotReadable, match="does not fit its schema"):
        schema.change(payload, {("n",): "1"})


def test_a_record_that_would_be_written_otherwise_is_not_changed() -> None:
    tags = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "tags", "type": {"type": "array", "items": "int"}},
            {"name": "n", "type": "int"},
        ],
    }
    # An array in two blocks, which is as valid as one.
    payload = b"\x02\x02\x02\x04\x00\x0a"
    schema = AvroSchema(registered(tags), ())
    assert json.loads(schema.as_json(payload, ["tags", "n"])) == {"tags": [1, 2], "n": 5}
    with pytest.raises(NotReadable, match="not written as Avro's libraries write it"):
        schema.change(payload, {("n",): "1"})


def test_a_record_that_cannot_be_written_again_is_not_quoted() -> None:
    """An int of more than 32 bits, which the library reads and does not write."""
    fields = [{"name": "u", "type": ["null", "int"]}, {"name": "n", "type": "int"}]
    schema = AvroSchema(registered({"type": "record", "name": "R", "fields": fields}), ())
    with pytest.raises(NotReadable) as error:
        schema.change(b"\x02" + b"\xff" * 5 + b"\x01\0", {("n",): "1"})
    assert str(error.value) == "it cannot be written again: ValueError"


def test_arrays_and_maps_of_unions_keep_their_types() -> None:
    kinds = ["null", {"type": "enum", "name": "K", "symbols": ["X"]}]
    inner = {"type": "record", "name": "I", "fields": [{"name": "n", "type": "int"}]}
    union = [
        "null",
        "I",
        {"type": "map", "values": kinds},
        {"type": "array", "items": ["null", "K"]},
    ]
    fields = [{"name": "i", "type": inner}, {"name": "u", "type": union, "default": None}]
    text = {"type": "record", "name": "R", "fields": fields}
    schema = AvroSchema(registered(text), ())
    for value in (None, ("I", {"n": 5}), {"n": "X", "m": None}, ["X", None]):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(text), {"i": {"n": 1}, "u": value})
        payload = stream.getvalue()
        assert schema.change(payload, {("i", "n"): "1"}) == payload
        assert schema.change(payload, {("u",): None}) == payload[:1] + b"\0"


@pytest.mark.parametrize(
    ("type_", "default", "written"),
    [
        (["I", "null"], {"n": 1}, b"\0\x02"),
        ([{"type": "map", "values": "int"}, "I"], {"n": 1}, b"\0\x02\x02n\x02\0"),
        ({"type": "array", "items": ["null", "I"]}, [{"n": 1}, None], b"\x04\x02\x02\0\0"),
        ({"type": "map", "values": "int"}, {}, b"\0"),
    ],
)
def test_a_default_is_of_the_first_type_that_it_may_have(
    type_: Any, default: Any, written: bytes
) -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "n", "type": "int"}]}
    fields = [{"name": "i", "type": inner}, {"name": "d", "type": type_, "default": default}]
    schema = AvroSchema(registered({"type": "record", "name": "R", "fields": fields}), ())
    payload = b"\x0a" + written
    assert schema.change(payload, {("d",): None}) == payload


@pytest.mark.parametrize(("length", "is_taken"), [(1_000, True), (1_001, False)])
def test_a_record_gets_no_default_that_is_far_longer_than_itself(
    length: int, *, is_taken: bool
) -> None:
    fields = [{"name": "a", "type": "string", "default": "d" * length}]
    schema = AvroSchema(registered({"type": "record", "name": "R", "fields": fields}), ())
    if is_taken:
        assert len(schema.change(b"\0", {("a",): None})) == length + 2
    else:
        with pytest.raises(NotReadable, match="a has a default of more than 1000 characters"):
            schema.change(b"\0", {("a",): None})


def test_what_is_no_schema_or_no_record_is_named() -> None:
    with pytest.raises(NotReadable, match="people-value version 1 is no schema of Avro"):
        AvroSchema(registered({"type": "nothing"}), ())
    text = AvroSchema(registered("string"), ())
    assert text.fields(["x"]) == {}
    with pytest.raises(NotReadable, match="its schema is no record"):
        text.as_json(b"\x02x", ["n"])
