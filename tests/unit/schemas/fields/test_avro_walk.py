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
    assert process_time() - began < 10


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
