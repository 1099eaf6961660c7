"""A schema by which records are read and changed: each format of a registry has its own."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from kafka_ferry.batches.rule_counts import FieldCounts
    from kafka_ferry.model.schemas import SchemaVersion
    from kafka_ferry.schemas.registered import RegisteredSchema
    from kafka_ferry.schemas.registry import SchemaRegistry

TEXT: Final = "string"
"""Spark's type of what has none of its own."""
DEEPEST: Final = 8
"""How many names a path within a schema has at most."""
_MOST_REFERENCES: Final = 200
MOST_TEXT: Final = 16 * 1024 * 1024
"""How many characters schemas have that are read together: in memory, one takes some ten times as much."""
Names = tuple[str, ...]


class NotReadable(ValueError):
    """A record is not what its schema says, or cannot have the fields that it is to have."""


class SchemaField(NamedTuple):
    """A field of a schema.

    Attributes:
        sql_type: Spark's type of it, as DDL.
        has_default: whether it may be left out, which gives it its default.
    """

    sql_type: str
    has_default: bool


class RecordSchema(Protocol):
    """A schema of records; what follows the schema's id in a key or value is a payload here."""

    def prefix_size(self, payload: bytes) -> int:
        """How many bytes of a payload come before the record: Protobuf's indexes of its message.

        Raises:
            NotReadable: they cannot be read.
        """

    def fields(self, words: Collection[str]) -> dict[Names, SchemaField]:
        """The fields, and those of records in them, by the names on the way.

        Args:
            words: the names that are looked for: fields with another name on their way are left out.
        """

    def as_json(self, payload: bytes, names: Collection[str]) -> bytes:
        """A record's fields of these names, as a JSON object.

        Raises:
            NotReadable: the record is not what the schema says.
        """

    def change(
        self,
        payload: bytes,
        changes: Mapping[Names, str | None],
        counts: FieldCounts | None = None,
    ) -> bytes:
        """The record with other values in some of its fields.

        Args:
            payload: the record.
            changes: by the names on the way to a field, its new value as JSON; None for its default.
            counts: where to count the fields that become something else.

        Raises:
            NotReadable: the record is not what the schema says, or cannot have these values.
        """


class Reference(NamedTuple):
    """A schema that another one refers to.

    Attributes:
        name: by which it does.
        schema: the schema.
    """

    name: str
    schema: RegisteredSchema


def references_of(registry: SchemaRegistry, schema: RegisteredSchema) -> list[Reference]:
    """All that a schema refers to, each once under a name, and after what it refers to itself.

    Raises:
        ClusterUnreachable, AccessDenied, RegistryRefused: as ``SchemaRegistry``.
    """
    return list(_references(registry, schema, {}))


def _references(
    registry: SchemaRegistry,
    schema: RegisteredSchema,
    visited: dict[tuple[str, SchemaVersion], int],
) -> Iterator[Reference]:
    for reference in schema.references:
        if reference in visited:
            continue
        visited[reference] = 0
        if len(visited) > _MOST_REFERENCES:
            raise NotReadable(f"it refers to more than {_MOST_REFERENCES} schemas")
        name, at = reference
        referred = registry.schema(at)
        visited[reference] = len(referred.text)
        if sum(visited.values()) > MOST_TEXT:
            raise NotReadable(f"it refers to schemas of more than {MOST_TEXT:,} characters")
        yield from _references(registry, referred, visited)
        yield Reference(name, referred)


def quoted_name(name: object) -> str:
    """A field's name as DDL has it, whatever it holds: a schema's author chooses it."""
    return "`" + str(name).replace("`", "``") + "`"


def load_json(value: str) -> Any:
    """What a JSON text holds, without losing digits."""
    return json.loads(value, parse_float=Decimal)
