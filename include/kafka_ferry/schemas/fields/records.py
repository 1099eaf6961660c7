"""Keys and values as Confluent's serializers write them: a magic byte, the schema's id, the record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from kafka_ferry.schemas.fields.record_schema import (
    Names,
    NotReadable,
    RecordSchema,
    references_of,
)

if TYPE_CHECKING:
    from kafka_ferry.config.options.transform import RegistryFormat
    from kafka_ferry.schemas.registered import RegisteredSchema
    from kafka_ferry.schemas.registry import SchemaRegistry

_PREFIX: Final = 5
_NO_JSON: Final = b"\xff"


class RegistryRecords:
    """Reads and changes records, each by the schema that it was written with; a ``FieldFormat``.

    Args:
        registry: gives the registry; called when a schema is needed.
        form: the records' format.
        names: the fields that expressions may name.
    """

    def __init__(
        self,
        registry: Callable[[], SchemaRegistry],
        form: RegistryFormat,
        names: Collection[str],
    ) -> None:
        self._registry, self._form, self._names = registry, form, names
        self._known: dict[int, RecordSchema | NotReadable] = {}

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

    def _schema(self, content: bytes) -> RecordSchema:
        if len(content) < _PREFIX or content[0]:
            raise NotReadable("it does not begin with the id of a schema")
        schema_id = int.from_bytes(content[1:_PREFIX], "big")
        if schema_id not in self._known:
            try:
                self._known[schema_id] = self._of_id(schema_id)
            except NotReadable as error:
                self._known[schema_id] = error
        found = self._known[schema_id]
        if isinstance(found, NotReadable):
            raise found
        return found

    def _of_id(self, schema_id: int) -> RecordSchema:
        registry = self._registry()
        places = registry.places(schema_id)
        if not places:
            raise NotReadable(f"the schema {schema_id} is not known")
        return record_schema(registry, registry.schema(places[0]), self._form)


def record_schema(
    registry: SchemaRegistry, schema: RegisteredSchema, form: RegistryFormat
) -> RecordSchema:
    """A registered schema of a format, with what it refers to.

    Raises:
        NotReadable: it is none of that format.
        ImportError: the format's library is not installed.
        ClusterUnreachable, AccessDenied, RegistryRefused: as ``SchemaRegistry``.
    """
    if schema.kind != form.upper():
        raise NotReadable(f"{schema.at} is {schema.kind}, and not {form.upper()}")
    references = references_of(registry, schema)
    # Only flows with such records need their libraries.
    if form == "protobuf":
        from kafka_ferry.schemas.fields.protobuf.schema import ProtobufSchema  # noqa: PLC0415

        return ProtobufSchema(schema, references)
    from kafka_ferry.schemas.fields.avro import AvroSchema  # noqa: PLC0415

    return AvroSchema(schema, references)
