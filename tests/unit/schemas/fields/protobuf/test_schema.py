"""Fields of records in Protobuf are read and changed, and everything else stays byte for byte."""

from __future__ import annotations

import json
from base64 import b64encode
from itertools import pairwise
from random import Random
from time import process_time
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches.record_format.varint import encode_varint
from kafka_ferry.batches.rule_counts import FieldCounts
from kafka_ferry.model.schemas import SchemaVersion
from kafka_ferry.schemas.fields.protobuf.schema import ProtobufSchema
from kafka_ferry.schemas.fields.protobuf.values import readable
from kafka_ferry.schemas.fields.protobuf.wire import wire_fields
from kafka_ferry.schemas.fields.record_schema import NotReadable, Reference, SchemaField
from kafka_ferry.schemas.registered import RegisteredSchema
from tests.support.records.schemas import proto_class

CITY = 'syntax = "proto3"; package geo; message City { string name = 1; repeated string tags = 2; }'
PERSON = """
syntax = "proto2";
package a;
import "city.proto";
message Person {
  message Note { optional string text = 1; }
  map<string, int32> by = 1;
  message Inner { optional int32 z = 1; }
  enum Kind { X = 0; Y = 5; }
  required string email = 2;
  optional int32 age = 3;
  optional geo.City city = 4;
  oneof contact { string phone = 5; string fax = 6; geo.City office = 7; }
  optional Kind kind = 8;
  optional group Old = 9 { optional int32 x = 1; }
  repeated Note notes = 10;
  optional Person friend = 11;
}
message Other { optional int64 age = 1; optional string only = 2; }
"""
UNKNOWN = b"\xfa\x06\x03new"
Person = proto_class("a.Person", city=CITY, person=PERSON)
SCHEMA = ProtobufSchema(
    RegisteredSchema(SchemaVersion("people-value", 1), 7, PERSON, "PROTOBUF"),
    [Reference("city.proto", RegisteredSchema(SchemaVersion("city", 1), 6, CITY, "PROTOBUF"))],
)


def person(**fields: object) -> bytes:
    given = {"email": "e", "age": 3, "city": {"name": "c", "tags": ["t"]}, "fax": "f"} | fields
    message = Person(**{name: value for name, value in given.items() if value is not None})
    return bytes(message.SerializePartialToString(deterministic=True))


RECORD = person()


@pytest.mark.parametrize(
    ("indexes", "record", "name"),
    [
        (b"\0", RECORD, "email"),
        (b"\2\0", RECORD, "email"),
        (b"\2\2", b"\x12\1o", "only"),
        # Within Person: before the map's own message, and the group's.
        (b"\4\0\0", b"\x0a\1t", "text"),
    ],
)
def test_a_record_is_the_message_that_its_indexes_name(
    indexes: bytes, record: bytes, name: str
) -> None:
    found = json.loads(SCHEMA.as_json(indexes + record, ["email", "only", "text"]))
    assert [*found] == [name]
    assert SCHEMA.change(indexes + record, {(name,): '"x"'}).startswith(indexes)


@pytest.mark.parametrize(
    ("indexes", "why"),
    [
        (b"", "does not begin with the indexes"),
        (b"\1", "does not begin with the indexes"),
        (b"\x80", "does not begin with the indexes"),
        (b"\2", "does not begin with the indexes"),
        (b"\2\4", "lead to none"),
        (b"\2\1", "lead to none"),
        # The message that the map is made of counts for some clients.
        (b"\4\0\4", "lead to Inner or Old"),
    ],
)
def test_indexes_that_lead_to_no_message_are_refused(indexes: bytes, why: str) -> None:
    with pytest.raises(NotReadable, match=why):
        SCHEMA.as_json(indexes, ["z"])


def test_a_message_that_both_ways_of_counting_agree_on_is_read() -> None:
    assert json.loads(SCHEMA.as_json(b"\4\0\2\x08\5", ["z"])) == {"z": 5}


def test_fields_have_the_type_of_the_messages_that_records_may_be() -> None:
    found = SCHEMA.fields(["email", "age", "city", "name", "friend", "only", "text"])
    assert {".".join(names): it for names, it in found.items() if names[0] != "friend"} == {
        "email": SchemaField("string", False),
        # A number in one and a larger one in the other.
        "age": SchemaField("string", True),
        "city": SchemaField("struct<`name`: string, `tags`: array<string>>", True),
        "city.name": SchemaField("string", True),
        "only": SchemaField("string", True),
        # Of a message that others are made of.
        "text": SchemaField("string", True),
    }
    assert ("friend", "friend", "city", "name") in found


def test_fields_are_read_as_json() -> None:
    names = ["email", "age", "city", "phone", "fax", "by", "kind", "old", "notes", "missing"]
    assert json.loads(SCHEMA.as_json(b"\0" + RECORD + UNKNOWN, names)) == {
        **{"email": "e", "age": 3, "city": {"name": "c", "tags": ["t"]}, "phone": None},
        **{"fax": "f", "by": {}, "kind": None, "old": None, "notes": []},
    }


@pytest.mark.parametrize(
    ("names", "value", "expected"),
    [
        ("email", '"x"', {"email": "x"}),
        ("age", "7", {"age": 7}),
        ("age", "null", {"age": None}),
        ("age", None, {"age": None}),
        ("kind", '"Y"', {"kind": 5}),
        (
            "city.name",
            '"longer than it was"',
            {"city": {"name": "longer than it was", "tags": ["t"]}},
        ),
        ("city.tags", '["a", "b"]', {"city": {"name": "c", "tags": ["a", "b"]}}),
        ("city", "null", {"city": None}),
        ("city", '{"name": "d"}', {"city": {"name": "d"}}),
        ("by", '{"b": 1, "a": 2}', {"by": {"a": 2, "b": 1}}),
        ("notes", '[{"text": "x"}, {}]', {"notes": [{"text": "x"}, {}]}),
        # One of a oneof clears the others; null clears none but its own.
        ("phone", '"1"', {"fax": None, "phone": "1"}),
        ("phone", "null", {}),
        ("office", '{"name": "o"}', {"fax": None, "office": {"name": "o"}}),
        # There is nothing to change within what is not there.
        ("office.name", '"o"', {}),
        ("friend.friend.age", "1", {}),
        ("missing", "null", {}),
        ("missing", None, {}),
    ],
)
def test_a_field_is_changed_and_the_others_stay(
    names: str, value: str | None, expected: dict[str, object]
) -> None:
    counts, path = FieldCounts(), tuple(names.split("."))
    found = SCHEMA.change(b"\0" + RECORD + UNKNOWN, {path: value}, counts)
    assert found == b"\0" + person(**expected) + UNKNOWN
    assert counts.changed[path] == (found != b"\0" + RECORD + UNKNOWN)


def test_fields_within_messages_and_groups_keep_what_is_beside_them() -> None:
    friend = b"\x12\1f" + UNKNOWN + b"\x18\1"
    group = b"\x4b" + UNKNOWN + b"\x08\2\x4c"
    record = b"\0" + b"\x5a" + bytes([len(friend)]) + friend + group + RECORD
    changes = {("friend", "age"): "2", ("old", "x"): "3"}
    assert SCHEMA.change(record, changes) == record.replace(b"\x18\1", b"\x18\2").replace(
        b"\x08\2\x4c", b"\x08\3\x4c"
    )


@pytest.mark.parametrize(
    ("record", "changes"),
    [
        # A number that is longer than it needs to be, and a map that is not in the order of its keys.
        (b"\x18\x83\x00" + RECORD[:3], {("age",): "3"}),
        (b"\x0a\5\x0a\1b\x10\1\x0a\5\x0a\1a\x10\2" + RECORD, {("by",): '{"a": 2, "b": 1}'}),
        (RECORD, {("city", "name"): '"c"', ("city",): '{"name": "c", "tags": ["t"]}'}),
        (RECORD, {("fax",): '"f"', ("phone",): None}),
    ],
)
def test_a_record_in_which_nothing_changes_stays_as_it_was(
    record: bytes, changes: dict[tuple[str, ...], str | None]
) -> None:
    assert SCHEMA.change(b"\0" + record, changes) == b"\0" + record


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        # Written twice, of which readers take the last one: none of both stays.
        (b"\x18\1\x18\2", "2", b"\x18\2"),
        (b"\x18\1\x18\2", "null", b""),
        (b"\x1a\1x", "2", b"\x18\2"),
    ],
)
def test_nothing_is_left_of_what_a_field_was(before: bytes, value: str, after: bytes) -> None:
    email = b"\x12\1e"
    assert SCHEMA.change(b"\0" + email + before, {("age",): value}) == b"\0" + email + after


def test_a_value_that_a_closed_enum_has_no_name_for_is_not_left_either() -> None:
    record = b"\x12\1e\x40\7"
    assert json.loads(SCHEMA.as_json(b"\0" + record, ["kind"])) == {"kind": None}
    assert SCHEMA.change(b"\0" + record, {("kind",): "null"}) == b"\0" + record[:3]
    assert SCHEMA.change(b"\0" + record, {("kind",): '"Y"'}) == b"\0" + record[:3] + b"\x40\5"


def test_of_a_oneof_that_is_written_twice_the_one_that_is_set_counts() -> None:
    record = RECORD + b"\x2a\1p"
    assert SCHEMA.change(b"\0" + record, {("fax",): '"f"'}) == b"\0" + RECORD


@pytest.mark.parametrize(
    ("record", "names", "value", "why"),
    [
        (RECORD, "email", "null", "email is required"),
        (RECORD, "email", None, "email is required"),
        (RECORD, "age", '"x"', "the value is no int32"),
        (RECORD, "city", '{"zip": "x"}', "City has no field zip"),
        (RECORD, "missing", "1", "its schema has no field missing"),
        (RECORD, "city.missing", "1", "its schema has no field missing"),
        (RECORD, "email.x", "1", "email is no message"),
        (RECORD, "notes.text", '"x"', "notes is no message"),
        (RECORD, "by.a", "1", "by is no message"),
        (RECORD + b"\x22\0", "city.name", '"x"', "city is written in several parts"),
        (b"\x20\1", "city.name", '"x"', "city is not written as a message"),
        (RECORD[:-1], "age", "1", "it does not fit its schema"),
        (b"\xff\xff", "age", "1", "it does not fit its schema"),
    ],
)
def test_what_cannot_be_done_without_more_is_refused(
    record: bytes, names: str, value: str | None, why: str
) -> None:
    with pytest.raises(NotReadable, match=why):
        SCHEMA.change(b"\0" + record, {tuple(names.split(".")): value})


def test_a_record_that_does_not_fit_its_schema_is_not_read() -> None:
    with pytest.raises(NotReadable, match="does not fit its schema"):
        SCHEMA.as_json(b"\0" + RECORD[:-1], ["age"])
    with pytest.raises(NotReadable, match="email is no text"):
        SCHEMA.as_json(b"\0\x12\1\xff", ["email"])


NAMES = st.text("ab\u00e4", max_size=3)
CITIES = st.fixed_dictionaries({}, optional={"name": NAMES, "tags": st.lists(NAMES, max_size=2)})
PEOPLE = st.fixed_dictionaries(
    {"email": NAMES},
    optional={
        **{
            "age": st.integers(-(2**31), 2**31 - 1),
            "city": CITIES,
            "kind": st.sampled_from([0, 5]),
        },
        "by": st.dictionaries(NAMES, st.integers(-5, 5), max_size=3),
        "notes": st.lists(st.fixed_dictionaries({}, optional={"text": NAMES}), max_size=2),
    },
)
CONTACTS = st.one_of(
    st.fixed_dictionaries({name: NAMES}) for name in ("phone", "fax")
) | st.fixed_dictionaries({}, optional={"office": CITIES})


@given(PEOPLE, CONTACTS, PEOPLE, CONTACTS, st.randoms(use_true_random=False))
def test_a_record_becomes_what_protobuf_itself_makes_of_it(
    fields: dict[str, Any],
    contact: dict[str, Any],
    others: dict[str, Any],
    other: dict[str, Any],
    random: Random,
) -> None:
    """Fields of any message take those of another, in whatever order they are written, beside unknown ones."""
    message, wanted = Person(**fields, **contact), Person(**others, **other)
    written = [
        message.SerializeToString()[it.start : it.end]
        for it in wire_fields(message.SerializeToString())
    ]
    random.shuffle(written)
    # The order of what is repeated is a part of the message.
    record = b"".join(written) + UNKNOWN
    before = Person.FromString(record)
    changes: dict[tuple[str, ...], str | None] = {}
    for name, field in Person.DESCRIPTOR.fields_by_name.items():
        if name in ("old", "friend") or random.random() < 0.5:
            continue
        value = readable(wanted, field)
        if value is None and field.is_required:
            continue
        changes[(name,)] = json.dumps(value)
        if value is not None:
            clear_and_copy(before, wanted, name)
        else:
            before.ClearField(name)

    found = SCHEMA.change(b"\0" + record, changes)

    assert Person.FromString(found[1:]) == before
    assert found.count(UNKNOWN) == 1
    assert SCHEMA.change(found, changes) == found


def clear_and_copy(message: Any, wanted: Any, name: str) -> None:
    """What protobuf does where a field is set."""
    message.ClearField(name)
    one = Person()
    value = getattr(wanted, name)
    if hasattr(value, "SetInParent"):
        getattr(one, name).SetInParent()
        getattr(one, name).CopyFrom(value)
    elif hasattr(value, "MergeFrom"):
        getattr(one, name).MergeFrom(value)
    else:
        setattr(one, name, value)
    message.MergeFrom(one)


def test_a_schema_is_walked_once() -> None:
    """Messages that name each other have a path for each order of them."""
    names = [f"M{number}" for number in range(12)]
    fields = " ".join(
        f"optional {name} f{number} = {number + 1};" for number, name in enumerate(names)
    )
    text = 'syntax = "proto2"; ' + " ".join(f"message {name} {{ {fields} }}" for name in names)
    tangled = ProtobufSchema(RegisteredSchema(SchemaVersion("s", 1), 1, text, "PROTOBUF"), [])
    began = process_time()
    with pytest.raises(NotReadable, match="paths"):
        tangled.fields([f"f{number}" for number in range(12)])
    assert tangled.fields(["f1"])["f1",].sql_type == "string"
    assert process_time() - began < 20


def test_a_text_of_which_protoc_would_make_something_for_minutes_is_no_schema() -> None:
    numbers = ", ".join(str(number) for number in range(3, 300_000, 2))
    text = f'syntax = "proto3"; message A {{ int32 a = 1; reserved {numbers}; }}'
    began = process_time()
    with pytest.raises(NotReadable, match="its text has more than"):
        ProtobufSchema(RegisteredSchema(SchemaVersion("s", 1), 1, text, "PROTOBUF"), [])
    assert process_time() - began < 5


def described(*messages: str, inner: bool = False) -> ProtobufSchema:
    """A schema that is registered as its descriptor, of messages that refer to the next one each."""
    file = FileDescriptorProto(name="x", syntax="proto3")
    for name, following in pairwise((*messages, messages[0])):
        message = file.message_type.add(name=name)
        if inner:
            message.field.add(name="a", number=1, type=11, label=1, type_name=f".{following}")
    text = b64encode(file.SerializeToString()).decode()
    return ProtobufSchema(RegisteredSchema(SchemaVersion("s", 1), 1, text, "PROTOBUF"), [])


def test_many_messages_take_no_longer_than_their_number_explains() -> None:
    many = described(*(f"M{number}" for number in range(15_000)))
    began = process_time()
    assert many.fields(["a"]) == {}
    for _ in range(1_000):
        with pytest.raises(NotReadable, match="lead to none"):
            many.as_json(b"\2\xfe\xff\x7f", ["a"])
    assert process_time() - began < 10
    with pytest.raises(NotReadable, match="more than 262,144 characters"):
        described(*(f"M{number}" for number in range(30_000)))


def test_messages_within_each_other_without_an_end_are_text() -> None:
    deep = described(*(f"M{number}" for number in range(1_000)), inner=True)
    assert deep.fields(["a"])["a",].sql_type == "string"
    # As many as a record's indexes lead to, each for the first time.
    began = process_time()
    for number in range(999, -1, -1):
        record = encode_varint(1) + encode_varint(number)
        assert deep.as_json(record, ["a"]) == b'{"a": null}'
    assert process_time() - began < 5


def test_types_take_no_more_than_the_length_of_their_names_explains() -> None:
    """Each of a thousand fields has a type that is made of two thousand, with long names."""
    text = 'syntax = "proto3"; message T0 { int32 x = 1; }'
    for number in range(1, 12):
        fields = (f"T{number - 1} {letter * 1_000} = {at};" for at, letter in ((1, "a"), (2, "b")))
        text += f"message T{number} {{ {' '.join(fields)} }}"
    text += "".join(f"message M{number} {{ T11 email = 1; }}" for number in range(1_000))
    schema = ProtobufSchema(RegisteredSchema(SchemaVersion("s", 1), 1, text, "PROTOBUF"), [])
    began = process_time()
    assert schema.fields(["email"])["email",].sql_type == "string"
    assert process_time() - began < 5


def test_a_record_is_not_spread_by_the_fields_that_it_lacks() -> None:
    wide = " ".join(f"int32 {'n' * 90}{number} = {number};" for number in range(1, 2_000))
    text = f'syntax = "proto3"; message R {{ repeated W w = 1; }} message W {{ {wide} }}'
    schema = ProtobufSchema(RegisteredSchema(SchemaVersion("s", 1), 1, text, "PROTOBUF"), [])
    with pytest.raises(NotReadable, match="more values than bytes"):
        schema.as_json(b"\0" + b"\x0a\0" * 10_000, ["w"])
    text = f'syntax = "proto3"; message R {{ repeated K k = 1; }} enum K {{ {"N" * 60_000} = 0; }}'
    schema = ProtobufSchema(RegisteredSchema(SchemaVersion("s", 1), 1, text, "PROTOBUF"), [])
    with pytest.raises(NotReadable, match="more values than bytes"):
        schema.as_json(b"\0\x0a\x64" + b"\0" * 100, ["k"])
