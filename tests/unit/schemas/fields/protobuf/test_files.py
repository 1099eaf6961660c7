"""The schemas of Protobuf that a registry has, as text and as descriptors, with what they import."""

from __future__ import annotations

import base64

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from kafka_ferry.model.schemas import SchemaVersion
from kafka_ferry.schemas.fields.protobuf.files import ProtobufFiles
from kafka_ferry.schemas.fields.record_schema import NotReadable, Reference
from kafka_ferry.schemas.registered import RegisteredSchema

CITY = 'syntax = "proto3"; package geo; message City { string name = 1; }'
PLACE = """
syntax = "proto3";
import "geo/city.proto"; import public 'google/protobuf/timestamp.proto';
import "google/type/date.proto";
import "confluent/meta.proto";
message Place {
  geo.City city = 1 [(confluent.field_meta).doc = "where"];
  google.protobuf.Timestamp at = 2;
  google.type.Date day = 3;
}
"""


def schema(text: str) -> RegisteredSchema:
    return RegisteredSchema(SchemaVersion("places-value", 3), 7, text, "PROTOBUF")


def as_descriptor(text: str, *references: Reference) -> str:
    """As Confluent's client for Python registers it."""
    return base64.b64encode(
        ProtobufFiles(schema(text), references).root.SerializeToString()
    ).decode()


@pytest.mark.parametrize("place", ["text", "descriptor"])
@pytest.mark.parametrize("city", ["text", "descriptor"])
def test_a_schema_is_read_with_what_it_imports(place: str, city: str) -> None:
    referred = [Reference("geo/city.proto", schema(CITY))]
    text = PLACE if place == "text" else as_descriptor(PLACE, *referred)
    if city == "descriptor":
        referred = [Reference("geo/city.proto", schema(as_descriptor(CITY)))]

    files = ProtobufFiles(schema(text), referred)

    found = files.pool.FindMessageTypeByName("Place")
    assert [it.message_type.full_name for it in found.fields] == [
        *("geo.City", "google.protobuf.Timestamp", "google.type.Date")
    ]
    assert [it.name for it in files.root.message_type] == ["Place"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "message",
            r"^places-value version 3 is no schema of Protobuf: 1:8: Expected message name",
        ),
        ('syntax = "proto3"; message A { B b = 1; }', '"B" is not defined'),
        ('import "missing.proto";', "missing.proto: File not found"),
        ('import "../../etc/passwd";', "passwd: "),
        ("bm9uZQ==", "is no schema of Protobuf: "),
        (
            base64.b64encode(
                FileDescriptorProto(dependency=["missing.proto"]).SerializeToString()
            ).decode(),
            "missing.proto",
        ),
    ],
)
def test_what_is_no_schema_is_named_with_its_fault(text: str, why: str) -> None:
    with pytest.raises(NotReadable, match=why):
        ProtobufFiles(schema(text), ())
