"""What a record in Protobuf may cost follows from its length, whatever its schema says."""

from __future__ import annotations

import resource
from time import process_time

import pytest

from kafka_ferry.model.schemas import SchemaVersion
from kafka_ferry.schemas.fields.protobuf.schema import ProtobufSchema
from kafka_ferry.schemas.fields.protobuf.walk import ProtobufWalk
from kafka_ferry.schemas.fields.record_schema import NotReadable
from kafka_ferry.schemas.registered import RegisteredSchema
from tests.support.records.schemas import proto_class

WIDE = "".join(f"optional int64 f{number} = {number};" for number in range(1, 4_001))
TEXT = f"""
syntax = "proto2";
message Top {{
  optional string email = 1;
  repeated Wide wide = 2;
  optional Top inner = 3;
  repeated group Old = 4 {{ optional int32 x = 1; }}
  repeated bool flags = 5;
}}
message Wide {{ {WIDE} }}
"""
SCHEMA = ProtobufSchema(RegisteredSchema(SchemaVersion("s", 1), 1, TEXT, "PROTOBUF"), [])
Top = proto_class("Top", top=TEXT)
MANY = 20_000
EVIL = {
    "messages with many fields": b"\x12\0" * MANY,
    "messages with many fields within another": b"\x1a\x80\xf1\x04" + b"\x12\0" * 40_000,
    "and within a group without a name": b"\x2b" + b"\x12\0" * MANY + b"\x2c" + b"\x12\0" * MANY,
    "groups within each other": b"\x23" * MANY + b"\x24" * MANY,
    "a group that ends as another": b"\x23\x2c" * MANY,
    "a group without an end": b"\x08\0" * MANY + b"\x23",
    "a message that ends outside of its own": b"\x1a\x02\x0a\x03abc" + b"\x08\0" * MANY,
    "more values than any record has": b"\x28\x01" * 3_000_000,
    "a text that is cut off": b"\x28\x01" * MANY + b"\x0a\xff\x01",
    "no field": b"\x28\x01" * MANY + b"\x0f",
}


@pytest.mark.parametrize("kind", EVIL)
def test_a_few_bytes_take_neither_the_process_nor_its_memory(kind: str) -> None:
    began, before = process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(NotReadable):
        SCHEMA.as_json(b"\0" + EVIL[kind], ["email"])
    with pytest.raises(NotReadable):
        SCHEMA.change(b"\0" + EVIL[kind], {("email",): None})
    assert process_time() - began < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000  # KiB


def test_a_long_record_that_a_producer_would_write_is_read() -> None:
    flags = Top(email="e", flags=[True] * 100_000, old=[{"x": 1}] * 10_000, wide=[{"f1": 1}] * 50)
    record = Top(email="é" * 100_000, inner=flags, wide=[{"f4000": -1}] * 50).SerializeToString()
    walk = ProtobufWalk(Top.DESCRIPTOR, 1_008)
    walk.check(record)
    walk._walk(record)

    changed = SCHEMA.change(b"\0" + record, {("inner", "email"): '"*"'})

    assert Top.FromString(changed[1:]).inner.email == "*"
