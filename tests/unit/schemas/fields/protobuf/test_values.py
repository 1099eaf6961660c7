"""Fields of every type become what Spark has of them, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafka_ferry.schemas.fields.protobuf.values import is_message, put, readable, sql_type
from kafka_ferry.schemas.fields.record_schema import NotReadable, load_json
from tests.support.records.schemas import proto_class

FILE = """
syntax = "proto2";
package a;
import "google/protobuf/timestamp.proto";
message All {
  enum Closed { X = 0; Y = 5; }
  message Part { required int32 n = 1; optional string s = 2; oneof k { int32 p = 3; int32 q = 4; } }
  message Empty {}
  optional int32 i = 1; optional sint32 si = 2; optional sfixed32 sf = 3;
  optional uint32 u = 4; optional fixed32 fi = 5;
  optional int64 l = 6; optional sint64 sl = 7; optional sfixed64 sfl = 8;
  optional uint64 ul = 9; optional fixed64 fl = 10;
  optional float f = 11; optional double d = 12; optional bool is = 13;
  optional string s = 14 [default = "else"]; optional bytes b = 15; optional Closed kind = 16;
  repeated int32 numbers = 17 [packed = true]; repeated Part parts = 18;
  map<string, Part> by = 19; map<bool, int64> flags = 20; map<int64, Closed> kinds = 21;
  optional Part part = 22; optional google.protobuf.Timestamp at = 23; optional All next = 24;
  optional group Old = 25 { optional int32 x = 1; } repeated google.protobuf.Timestamp times = 26;
  optional Empty none = 27;
}
"""
OPEN_FILE = """
syntax = "proto3";
enum Kind { X = 0; Y = 5; }
message Open { Kind kind = 1; int32 n = 2; optional int32 m = 3; repeated Kind kinds = 4; }
"""
All = proto_class("a.All", all=FILE)
Open = proto_class("Open", open=OPEN_FILE)
FIELDS = {it.name: it for it in All.DESCRIPTOR.fields}
OPEN = {it.name: it for it in Open.DESCRIPTOR.fields}

PART = "struct<`n`: int, `s`: string, `p`: int, `q`: int>"


def test_fields_have_types_of_spark() -> None:
    types = {name: sql_type(field) for name, field in FIELDS.items() if name != "next"}
    assert types == {
        **dict.fromkeys(("i", "si", "sf"), "int"),
        **dict.fromkeys(("u", "fi", "l", "sl", "sfl"), "bigint"),
        **dict.fromkeys(("ul", "fl"), "decimal(20,0)"),
        **{"f": "float", "d": "double", "is": "boolean", "s": "string", "b": "binary"},
        **{"kind": "string", "numbers": "array<int>", "parts": f"array<{PART}>", "part": PART},
        **{"by": f"map<string,{PART}>", "flags": "map<string,bigint>"},
        **{"kinds": "map<string,string>", "at": "timestamp", "times": "array<timestamp>"},
        **{"old": "struct<`x`: int>", "none": "struct<>"},
    }
    # A message within itself is text.
    assert sql_type(FIELDS["next"]).endswith("`none`: struct<>>")
    assert "`next`: string" in sql_type(FIELDS["next"])
    assert [name for name, field in FIELDS.items() if is_message(field)] == [
        *("part", "next", "old", "none")
    ]


VALUES = [
    *((name, "-5") for name in ("i", "si", "sf", "l", "sl", "sfl")),
    *((name, "4294967295") for name in ("u", "fi")),
    *((name, str(2**64 - 1)) for name in ("ul", "fl")),
    ("l", str(-(2**63))),
    *(("f", it) for it in ("1.5", "3.0", "NaN", "-Infinity")),
    *(("d", it) for it in ("0.1", "1E300", "Infinity")),
    ("is", "false"),
    *(("s", it) for it in ('""', '"\\u0000\\u00e4\\ud83d\\ude00"')),
    ("b", '"/g=="'),
    ("kind", '"Y"'),
    ("numbers", "[1, -2]"),
    ("parts", '[{"n": 1, "s": "x", "p": null, "q": 4}]'),
    ("by", '{"b": {"n": 2, "s": null, "p": null, "q": null}}'),
    ("flags", '{"false": 1, "true": 2}'),
    ("kinds", '{"-7": "Y", "9": "X"}'),
    ("part", '{"n": 0, "s": null, "p": 0, "q": null}'),
    ("at", '"2023-11-14T22:13:20.123456+00:00"'),
    ("at", '"0001-01-01T00:00:00+00:00"'),
    ("times", '["1969-12-31T23:59:59.900000+00:00"]'),
    ("none", "{}"),
]


@pytest.mark.parametrize(("name", "text"), VALUES)
def test_a_value_is_read_as_it_was_set(name: str, text: str) -> None:
    message = All()
    quoted = f'"{text}"' if text in ("NaN", "Infinity", "-Infinity") else text
    put(message, FIELDS[name], load_json(quoted))
    again = All.FromString(message.SerializePartialToString())
    assert json.dumps(readable(again, FIELDS[name])) == json.dumps(json.loads(text))


def test_a_field_with_presence_is_null_where_it_is_absent() -> None:
    absent = {name: readable(All(), field) for name, field in FIELDS.items()}
    many = {"numbers": [], "parts": [], "times": [], "by": {}, "flags": {}, "kinds": {}}
    assert absent == {**dict.fromkeys(FIELDS), **many}
    assert {name: readable(Open(), field) for name, field in OPEN.items()} == {
        **{"kind": "X", "n": 0, "m": None, "kinds": []}
    }


def test_maps_are_read_in_the_order_of_their_keys() -> None:
    message = All(kinds={9: 0, -1: 0, 10: 5})
    assert [*readable(message, FIELDS["kinds"])] == ["-1", "9", "10"]


def test_a_number_without_a_name_is_its_digits_where_an_enum_is_open() -> None:
    message = Open(kind=7, kinds=[-1, 5])
    assert readable(message, OPEN["kind"]) == "7"
    assert readable(message, OPEN["kinds"]) == ["-1", "Y"]
    other = Open()
    put(other, OPEN["kind"], "7")
    put(other, OPEN["kinds"], ["-1", "Y"])
    assert other == message
    # That of a closed one is an unknown field.
    assert readable(All.FromString(b"\x80\x01\x07"), FIELDS["kind"]) is None


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        *(("i", it, "no int32") for it in ("2147483648", "1.0", '"1"', "true", "[]")),
        *(("u", it, "no uint32") for it in ("-1", "4294967296")),
        *(("ul", it, "no uint64") for it in ("-1", str(2**64))),
        *(("f", it, "no float") for it in ("1e39", "1e400", '"nan"', '"x"', "true", "{}")),
        ("d", "1e400", "no double"),
        *(("is", it, "no bool") for it in ("1", '"true"')),
        *(("s", it, "no string") for it in ("1", '"\\ud800"')),
        *(("b", it, "no bytes") for it in ('"\\u00e4"', '"a"', "1")),
        *(("kind", it, "no Closed") for it in ('"Z"', "5", '"5"', '"7"')),
        *(("numbers", it, "no int32") for it in ("1", "[null]", '["1"]')),
        *(("flags", it, "no ") for it in ('{"1": 1}', '{"true": "x"}', "[]")),
        ("kinds", '{"x": "Y"}', "no int64"),
        ("by", '{"x": null}', "no Part"),
        ("part", "1", "no Part"),
        ("part", '{"s": "x"}', "n is required"),
        ("part", '{"n": 1, "z": null}', "Part has no field z"),
        ("part", '{"n": 1, "p": 1, "q": 2}', "has p and q, of which only one can be"),
        *(("at", it, "no timestamp") for it in ('"2023-11-14"', '"x"', "1")),
    ],
)
def test_a_value_that_a_field_cannot_have_is_refused(name: str, text: str, why: str) -> None:
    with pytest.raises(NotReadable, match=why):
        put(All(), FIELDS[name], load_json(text))


@pytest.mark.parametrize("at", [{"nanos": -1}, {"seconds": 2**40}, {"seconds": -(2**63)}])
def test_a_timestamp_that_spark_does_not_have_is_not_read(at: dict[str, Any]) -> None:
    with pytest.raises(NotReadable, match="a timestamp"):
        readable(All(at=at), FIELDS["at"])
