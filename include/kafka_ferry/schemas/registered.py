"""A schema as a registry has it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafka_ferry.model.schemas import SchemaVersion


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema, which a registry has under a subject.

    Attributes:
        at: where it is.
        id: its id in that registry.
        text: the schema.
        kind: ``AVRO``, ``PROTOBUF`` or ``JSON``.
        references: by name, the versions that it refers to.
        guid: its GUID, which the registry derives from its content; "" where it has none.
        more: its metadata and rules, as the registry's API writes them.
    """

    at: SchemaVersion
    id: int
    text: str
    kind: str = "AVRO"
    references: tuple[tuple[str, SchemaVersion], ...] = ()
    guid: str = ""
    more: dict[str, object] = field(default_factory=dict)
