"""What a record in Avro may cost follows from its length, whatever its schema says."""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
from time import process_time
from typing import Any

import fastavro
import pytest

from kafka_ferry.model.schemas import SchemaVersion
from kafka_ferry.schemas.fields.avro import AvroSchema
from kafka_ferry.schemas.fields.record_schema import NotReadable
from kafka_ferry.schemas.registered import RegisteredSchema


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": type_} for field, type_ in fields],
    }


def schema(text: Any) -> AvroSchema:
    return AvroSchema(RegisteredSchema(SchemaVersion("s", 1), 1, json.dumps(text)), [])


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def varint(number: int) -> bytes:
    number, found = number << 1, bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def nested(deep: int) -> dict[str, Any]:
    """Records within each other, of a byte together."""
    inner = record(("b", "boolean"), name="N0")
    for number in range(1, deep):
        inner = record(("a", inner), name=f"N{number}")
    return inner


def chain(length: int) -> list[tuple[str, Any]]:
    """As ``nested``, by their names: in fields that may be null, a hundred of which have them."""
    types = [record(("b", "boolean"), name="R0")]
    types += [record(("a", f"R{number - 1}"), name=f"R{number}") for number in range(1, length)]
    return [(f"f{at}", ["null", *types[at : at + 99]]) for at in range(0, length, 99)]


MANY = varint(2**31)
TREE = record(("x", "int"), ("next", ["null", "R"]), ("below", array("R")))
EVIL = {
    "a list within itself": (record(("next", ["null", "R"])), b"\x02" * 10_000),
    "an array within itself": (record(("a", array("R"))), b"\x02" * 10_000),
    "a record of itself": (record(("a", "R")), b""),
    "a map within itself": (record(("m", {"type": "map", "values": "R"})), b"\x02\x02a" * 5_000),
    "two records of each other": (
        record(("b", record(("a", ["null", "R"]), name="B"))),
        b"\x02" * 10_000,
    ),
    "nulls": (record(("a", array("null"))), MANY + b"\0"),
    "empty records": (record(("a", array(record(name="E")))), MANY + b"\0"),
    "records of empty records": (
        record(("a", array(record(("e", record(name="E")), name="F")))),
        MANY + b"\0",
    ),
    "fixed 0": (record(("a", array({"type": "fixed", "name": "F", "size": 0}))), MANY + b"\0"),
    "a record of a record, and so on": (
        record(*chain(9_900), ("a", "R9899")),
        b"\0" * 100 + b"\x01",
    ),
    "records of records": (
        record(("a", array(nested(60)))),
        varint(200_000) + b"\1" * 200_000 + b"\0",
    ),
    "arrays of nulls": (record(("a", array(array("null")))), b"\x02" + MANY + b"\0\0"),
}


@pytest.mark.parametrize("kind", EVIL)
def test_a_few_bytes_take_neither_the_process_nor_its_memory(kind: str) -> None:
    text, payload = EVIL[kind]
    evil = schema(text)
    names = [field["name"] for field in text["fields"]]
    began, before = process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(NotReadable):
        evil.as_json(payload, names)
    with pytest.raises(NotReadable):
        evil.change(payload, {(names[0],): None})
    assert process_time() - began < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


def test_what_a_producer_would_write_is_read() -> None:
    tree: Any = {"x": 0, "next": None, "below": []}
    for number in range(20):
        tree = {"x": number, "next": {**tree, "below": []}, "below": [tree]}
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(TREE), tree)
    found = json.loads(schema(TREE).as_json(stream.getvalue(), ["x", "next"]))
    assert (found["x"], found["next"]["x"], found["next"]["next"]["x"]) == (19, 18, 17)

    nulls = record(("a", array("null")), ("e", record(name="E")))
    assert json.loads(schema(nulls).as_json(varint(100) + b"\0", ["a", "e"])) == {
        "a": [None] * 100,
        "e": {},
    }


def test_only_schemas_that_need_it_are_walked() -> None:
    plain = record(
        ("a", array("int")), ("b", ["null", "string"]), ("c", record(("d", "long"), name="C"))
    )
    assert not schema(plain)._walk.is_needed
    assert schema(TREE)._walk.is_needed


def test_a_record_is_not_spread_by_the_names_of_its_schema() -> None:
    wide = record(("a", array(record(("n" * 100_000, "int"), name="W"))))
    with pytest.raises(NotReadable, match="more values than bytes"):
        schema(wide).as_json(varint(10_000) + b"\x02" * 10_000 + b"\0", ["a"])
    kinds = record(("a", array({"type": "enum", "name": "K", "symbols": ["S" * 100_000]})))
    with pytest.raises(NotReadable, match="more values than bytes"):
        schema(kinds).as_json(varint(10_000) + b"\0" * 10_001, ["a"])
    assert len(schema(kinds).as_json(b"\0", ["a"])) < 20
    empty = schema(record(("a", "int"), *((f"n{number}", "null") for number in range(9_000))))
    began = process_time()
    for _ in range(1_000):
        with pytest.raises(NotReadable, match="more values than bytes"):
            empty.as_json(b"\0", ["a"])
    assert process_time() - began < 2


def test_a_schema_is_walked_once() -> None:
    names = [f"f{number}" for number in range(12)]
    began = process_time()
    tangled = schema(record(*((name, ["null", "R"]) for name in names)))
    with pytest.raises(NotReadable, match="paths"):
        tangled.fields(names)
    assert tangled.fields(["f1"])["f1",].sql_type == "string"
    doubled: Any = record(("x", "int"), name="T0")
    for number in range(1, 40):
        doubled = record(("a", doubled), ("b", f"T{number - 1}"), name=f"T{number}")
    assert len(schema(doubled).fields(["a"])["a",].sql_type) < 100_000
    doubled = record(("x", "int"), name="T0")
    for number in range(1, 8):
        fields = ((letter * 10_000, f"T{number - 1}") for letter in "bc")
        doubled = record(("a" * 10_000, doubled), *fields, name=f"T{number}")
    assert schema(record(("a", doubled))).fields(["a"])["a",].sql_type == "string"
    assert process_time() - began < 10


def decimal(precision: object, scale: object = 2) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


FEW = [{"type": "fixed", "name": f"F{number}", "size": 1} for number in range(90)]


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        # A number is written in the square of its length.
        (decimal(38), varint(1_000_000) + b"\x7f" * 1_000_000),
        (["null", decimal(5)], b"\x02" + varint(1_000_000) + b"\x7f" * 1_000_000),
        # Each value may be any of the union's types.
        (array(["long", *FEW, "boolean"]), varint(200_000) + varint(91) * 200_000),
    ],
)
def test_a_long_record_takes_no_longer_than_its_length_explains(text: Any, payload: bytes) -> None:
    slow = schema(record(("a", text)))
    began = process_time()
    with pytest.raises(NotReadable):
        slow.as_json(payload, ["a"])
    assert process_time() - began < 5


def tangled(deep: int) -> list[Any]:
    """A record or a map whose only value is one again, and so on."""
    types: Any = ["int"]
    for _ in range(deep):
        types = ["int", "R", {"type": "map", "values": types}]
    return [record(("x", types), ("z", "int")), {"type": "map", "values": types}]


def test_a_map_that_might_be_a_record_is_written_at_once() -> None:
    default: Any = 5
    for _ in range(40):
        default = {"x": default}
    text = record(("a", "int"), ("d", tangled(40)), name="T")
    text["fields"][1]["default"] = {"z": 0, "x": default["x"]}
    payload = b"\x02" + b"\x02\x02\x02x" + b"\x04\x02\x02x" * 39 + b"\0\x0a" + b"\0" * 40
    began = process_time()
    assert schema(text).change(payload, {("a",): "2"}) == b"\x04" + payload[1:]
    with pytest.raises(NotReadable):
        schema(text).change(payload, {("d",): json.dumps({"y": default})})
    with pytest.raises(NotReadable, match="a default does not fit its schema"):
        schema(text).change(payload, {("d",): None})
    assert process_time() - began < 5


@pytest.mark.parametrize("precision", [10**8, None, "", True, 0, [], 39])
@pytest.mark.parametrize("value", ["1", '"1"', "1e9"])
def test_a_decimal_of_a_wrong_precision_is_bytes(precision: object, value: str) -> None:
    try:
        wrong = schema(record(("a", decimal(precision, 0))))
    except NotReadable:
        return
    assert wrong.fields(["a"])["a",].sql_type == "binary"
    assert json.loads(wrong.as_json(b"\x02\x01", ["a"])) == {"a": "AQ=="}
    began = process_time()
    with pytest.raises((NotReadable, ValueError)):
        wrong.change(b"\x02\x01", {("a",): value})
    assert process_time() - began < 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ([record(name=f"R{number}") for number in range(101)], "more than 100 types"),
        (
            {"type": "enum", "name": "E", "symbols": [f"S{number}" for number in range(2_001)]},
            "more than 2,000 symbols",
        ),
        (record(*((f"f{number}", "int") for number in range(40_000))), "more than 100,000 parts"),
    ],
)
def test_a_schema_of_which_each_value_would_take_long_is_none(text: Any, why: str) -> None:
    with pytest.raises(NotReadable, match=why):
        schema(text)


def test_a_schema_of_many_types_is_read_at_once() -> None:
    types = [record(("f", f"A{number - 1}"), name=f"A{number}") for number in range(1, 10_000)]
    began = process_time()
    chain = record(*((f"f{number}", one) for number, one in enumerate([record(name="A0"), *types])))
    assert schema(chain)._walk.is_needed
    assert process_time() - began < 20


def test_a_name_ends_no_type() -> None:
    inner = record(("x`: int>, y: struct<`z", "int"), name="X")
    try:
        sql_type = schema(record(("a", inner))).fields(["a"])["a",].sql_type
    except NotReadable:
        return
    assert sql_type == "struct<`x``: int>, y: struct<``z`: int>"


def test_a_schema_that_is_nested_without_end_is_refused() -> None:
    text = '{"type":"array","items":' * 50_000 + '"int"' + "}" * 50_000
    code = (
        "import sys; from tests.unit.schemas.fields.test_avro_walk import *\n"
        "try: AvroSchema(RegisteredSchema(SchemaVersion('s', 1), 1, sys.stdin.read()), [])\n"
        "except NotReadable: print('refused')"
    )
    for depth in (300, 50_000):
        nested = text if depth == 50_000 else '{"type":"array","items":' * 300 + '"int"' + "}" * 300
        done = subprocess.run(
            [sys.executable, "-c", code], input=nested, capture_output=True, text=True, check=False
        )
        assert done.stdout.strip() == "refused", (done.returncode, done.stderr[-300:])
