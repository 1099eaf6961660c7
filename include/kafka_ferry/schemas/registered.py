"""A schema as a registry has it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Final

from kafka_ferry.model.schemas import SchemaVersion

_DIGEST_BYTES: Final = 8


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

    @property
    def digest(self) -> str:
        """A short digest of what gives records their meaning: text, kind and references."""
        references = sorted((name, at.subject, at.version) for name, at in self.references)
        content = json.dumps([self.kind, self.text, references]).encode()
        return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()
