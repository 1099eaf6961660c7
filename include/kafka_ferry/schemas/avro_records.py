"""Keys and values in Avro as Confluent's serializers write them: a magic byte, the schema's id, the record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from kafka_ferry.schemas.avro import AvroSchema, Names, NotReadable

if TYPE_CHECKING:
    from kafka_ferry.model.schemas import SchemaVersion
    from kafka_ferry.schemas.registered import RegisteredSchema
    from kafka_ferry.schemas.registry import SchemaRegistry

_PREFIX: Final = 5
_NO_JSON: Final = b"\xff"


class AvroRecords:
    """Reads and changes records, each by the schema that it was written with; a ``FieldFormat``.

    Args:
        registry: gives the registry; called when a schema is needed.
        names: the fields that expressions may name.
    """

    def __init__(self, registry: Callable[[], SchemaRegistry], names: Collection[str]) -> None:
        self._registry, self._names = registry, names
        self._known: dict[int, AvroSchema | NotReadable] = {}

    def as_json(self, content: bytes) -> bytes:
        """The named fields as JSON; what is no JSON if the content cannot be read.

        Raises:
            ClusterUnreachable, AccessDenied: as ``SchemaRegistry``.
        """
        try:
            return self._schema(content).as_json(content[_PREFIX:], self._names)
        except NotReadable:
            return _NO_JSON

    def with_fields(self, content: bytes, changes: Mapping[Names, str | None]) -> bytes:
        """The content with other values in some fields, under the same schema.

        Raises:
            NotReadable: it cannot be read, or cannot have these values.
            ClusterUnreachable, AccessDenied: as ``SchemaRegistry``.
        """
        changed = self._schema(content).changed(content[_PREFIX:], changes)
        return content[:_PREFIX] + changed

    def _schema(self, content: bytes) -> AvroSchema:
        if len(content) < _PREFIX or content[0]:
            raise NotReadable("it does not begin with the id of a schema")
        schema_id = int.from_bytes(content[1:_PREFIX], "big")
        if schema_id not in self._known:
            try:
                self._known[schema_id] = _of_id(self._registry(), schema_id)
            except NotReadable as error:
                self._known[schema_id] = error
        found = self._known[schema_id]
        if isinstance(found, NotReadable):
            raise found
        return found


def avro_schema(registry: SchemaRegistry, schema: RegisteredSchema) -> AvroSchema:
    """A registered schema with what it refers to.

    Raises:
        NotReadable: it is none of Avro.
        ClusterUnreachable, AccessDenied, RegistryRefused: as ``SchemaRegistry``.
    """
    if schema.kind != "AVRO":
        raise NotReadable(f"{schema.at} is {schema.kind}, and not AVRO")
    found: dict[SchemaVersion, RegisteredSchema] = {}
    _refer(registry, schema, found)
    return AvroSchema(schema, found.values())


def _refer(
    registry: SchemaRegistry,
    schema: RegisteredSchema,
    found: dict[SchemaVersion, RegisteredSchema],
) -> None:
    for _, at in schema.references:
        if at not in found:
            one = registry.schema(at)
            _refer(registry, one, found)
            found[at] = one


def _of_id(registry: SchemaRegistry, schema_id: int) -> AvroSchema:
    places = registry.places(schema_id)
    if not places:
        raise NotReadable(f"the schema {schema_id} is not known")
    return avro_schema(registry, registry.schema(places[0]))
