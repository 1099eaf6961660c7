"""Records that Confluent's own serializers write and read, and two registries whose ids differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from grpc_tools import protoc

from kafka_sandbox.schema_registry import SchemaRegistryServer

CITY = {
    "type": "record",
    "name": "City",
    "namespace": "geo",
    "fields": [{"name": "name", "type": "string"}],
}
PERSON = {
    "type": "record",
    "name": "Person",
    "fields": [{"name": "name", "type": "string"}, {"name": "city", "type": "geo.City"}],
}
JSON_CITY = {"$id": "city.json", "type": "object", "properties": {"name": {"type": "string"}}}
JSON_PERSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Person",
    "type": "object",
    "properties": {"name": {"type": "string"}, "city": {"$ref": "city.json"}},
    "required": ["name", "city"],
}


@contextmanager
def two_registries(folder: Path) -> Iterator[tuple[SchemaRegistryServer, SchemaRegistryServer]]:
    """The source's and the target's; the source's ids are some numbers further than the target's."""
    servers = [SchemaRegistryServer(folder / name) for name in ("source", "target")]
    try:
        for server in servers:
            server.start()
        for server in servers:
            server.wait_ready()
        client = client_of(servers[0])
        for number in range(300):
            client.register_schema(
                f"filler-{number}",
                Schema(json.dumps({"type": "fixed", "name": f"F{number}", "size": 4})),
            )
        yield servers[0], servers[1]
    finally:
        for server in servers:
            server.stop()


def client_of(server: SchemaRegistryServer) -> SchemaRegistryClient:
    """A client that has cached nothing."""
    return SchemaRegistryClient({"url": server.url})


def avro(client: SchemaRegistryClient, topic: str, part: str, value: Mapping[str, Any]) -> bytes:
    """A person in Avro, whose city is a referenced schema."""
    client.register_schema("geo.City", Schema(json.dumps(CITY)))
    schema = Schema(json.dumps(PERSON), "AVRO", [SchemaReference("geo.City", "geo.City", 1)])
    return _bytes(AvroSerializer(client, schema)(dict(value), SerializationContext(topic, part)))


def from_avro(client: SchemaRegistryClient, topic: str, part: str, data: bytes) -> dict[str, Any]:
    """Reads what ``avro`` wrote."""
    return dict(AvroDeserializer(client)(data, SerializationContext(topic, part)))


def as_json(client: SchemaRegistryClient, topic: str, part: str, value: Mapping[str, Any]) -> bytes:
    """A person in JSON, with a schema that refers to another."""
    client.register_schema("city.json", Schema(json.dumps(JSON_CITY), "JSON"))
    schema = Schema(json.dumps(JSON_PERSON), "JSON", [SchemaReference("city.json", "city.json", 1)])
    return _bytes(JSONSerializer(schema, client)(dict(value), SerializationContext(topic, part)))


def from_json(client: SchemaRegistryClient, topic: str, part: str, data: bytes) -> dict[str, Any]:
    """Reads what ``as_json`` wrote, with the schema of its id."""
    read = JSONDeserializer(None, schema_registry_client=client)
    return dict(read(data, SerializationContext(topic, part)))


def _message() -> Any:
    """The class of persons: the second message of its file, so that its index is not the short form."""
    pool = descriptor_pool.DescriptorPool()
    city = descriptor_pb2.FileDescriptorProto(name="city.proto", package="geo", syntax="proto3")
    city.message_type.add(name="City").field.add(name="name", number=1, type=9, label=1)
    person = descriptor_pb2.FileDescriptorProto(
        name="person.proto", syntax="proto3", dependency=["city.proto"]
    )
    person.message_type.add(name="Other")
    fields = person.message_type.add(name="Person").field
    fields.add(name="name", number=1, type=9, label=1)
    fields.add(name="city", number=2, type=11, label=1, type_name=".geo.City")
    pool.Add(city)
    pool.Add(person)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Person"))


PROTO_PERSON = _message()


def protobuf(
    client: SchemaRegistryClient, topic: str, part: str, value: Mapping[str, Any]
) -> bytes:
    """A person in Protobuf, whose file imports another."""
    write = ProtobufSerializer(PROTO_PERSON, client, {"use.deprecated.format": False})
    message = json_format.ParseDict(dict(value), PROTO_PERSON())
    return _bytes(write(message, SerializationContext(topic, part)))


def from_protobuf(
    client: SchemaRegistryClient, topic: str, part: str, data: bytes
) -> dict[str, Any]:
    """Reads what ``protobuf`` wrote."""
    read = ProtobufDeserializer(PROTO_PERSON, {"use.deprecated.format": False}, client)
    return dict(json_format.MessageToDict(read(data, SerializationContext(topic, part))))


def proto_class(name: str, **texts: str) -> Any:
    """The class of a message, of .proto files that protoc reads.

    Args:
        name: the message's full name.
        texts: the files by their names without the ending, each after those that it imports.
    """
    with TemporaryDirectory() as folder:
        for file, text in texts.items():
            (Path(folder) / f"{file}.proto").write_text(text)
        made = Path(folder) / "made"
        options = (f"-I{folder}", f"-I{well_known()}", "--include_imports", f"-o{made}")
        assert not protoc.main(["protoc", *options, *(f"{file}.proto" for file in texts)])
        files = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes())
    return message_factory.GetMessages(files.file)[name]


def well_known() -> str:
    """The folder with the .proto files that protoc comes with."""
    return str(Path(str(protoc.__file__)).parent / "_proto")


def _bytes(data: bytes | None) -> bytes:
    assert data is not None
    return data


KEY, VALUE = MessageField.KEY, MessageField.VALUE
