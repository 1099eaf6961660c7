"""A registry in memory, with the parts of Confluent's API that no server on this machine has: modes and GUIDs."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace

from kafka_ferry.model.schemas import SchemaVersion
from kafka_ferry.schemas.registered import RegisteredSchema
from kafka_ferry.schemas.registry import RegistryRefused

_SPACE = uuid.UUID(int=7)


class MemoryRegistry:
    """Gives ids by content, as Confluent's registry does.

    Attributes:
        requests: what was asked of it that changes something.
        refused: schemas' texts that it refuses.
        asked: how many requests it has had.
    """

    def __init__(self, first_id: int = 1, mode: str = "READWRITE") -> None:
        self._next, self._mode = first_id, mode
        self._content: dict[tuple[object, ...], int] = {}
        self._subjects: dict[str, dict[int, RegisteredSchema]] = {}
        self._by_id: dict[int, RegisteredSchema] = {}
        self._levels: dict[str, str] = {}
        self._modes: dict[str, str] = {}
        self.requests: list[str] = []
        self.refused: set[str] = set()
        self.asked = 0

    def add(
        self,
        subject: str,
        text: str,
        *references: tuple[str, SchemaVersion],
        version: int = 0,
        kind: str = "AVRO",
    ) -> RegisteredSchema:
        """Register a schema, as its producer would."""
        version = version or max(self._subjects.get(subject, [0])) + 1
        schema = RegisteredSchema(SchemaVersion(subject, version), 0, text, kind, references)
        return self._store(schema)

    def put(self, schema: RegisteredSchema) -> None:
        """Have a schema of another context, whose id may be another one's here."""
        self._subjects.setdefault(schema.at.subject, {})[schema.at.version] = schema

    def delete(self, subject: str) -> None:
        """Delete a subject softly: its ids remain, and no version has them."""
        del self._subjects[subject]

    def forget(self, schema_id: int) -> None:
        """Delete an id for good, as a permanent deletion of its subjects does."""
        del self._by_id[schema_id]

    def subjects(self) -> list[str]:
        self.asked += 1
        return sorted(self._subjects)

    def versions(self, subject: str) -> list[int]:
        return sorted(self._subjects.get(subject, ()))

    def schema(self, at: SchemaVersion) -> RegisteredSchema:
        if at.version not in self._subjects.get(at.subject, ()):
            raise RegistryRefused(f"{at} is not there")
        return self._subjects[at.subject][at.version]

    def places(self, schema_id: int) -> list[SchemaVersion]:
        self.asked += 1
        return [it.at for of in self._subjects.values() for it in of.values() if it.id == schema_id]

    def with_id(self, schema_id: int) -> RegisteredSchema | None:
        self.asked += 1
        return self._by_id.get(schema_id)

    def with_guid(self, guid: str) -> RegisteredSchema | None:
        self.asked += 1
        of = (it for versions in self._subjects.values() for it in versions.values())
        return next((it for it in of if it.guid == guid), None)

    def find(self, schema: RegisteredSchema) -> RegisteredSchema | None:
        for found in self._subjects.get(schema.at.subject, {}).values():
            if (found.text, found.references) == (schema.text, schema.references):
                return found
        return None

    def register(self, schema: RegisteredSchema, *, with_id: bool) -> None:
        if schema.text in self.refused:
            raise RegistryRefused(f"{schema.at} is refused.")
        is_import = (self._modes.get(schema.at.subject) or self._mode) == "IMPORT"
        if with_id != is_import:
            raise RegistryRefused(f"{schema.at.subject} is not in import mode, or is.")
        self.requests.append(f"register {schema.at}")
        version = max(self._subjects.get(schema.at.subject, [0])) + 1
        at = schema.at if with_id else replace(schema.at, version=version)
        self._store(replace(schema, at=at), keep_id=with_id)

    def level(self, subject: str) -> str:
        return self._levels.get(subject, "")

    def set_level(self, subject: str, level: str) -> None:
        self.requests.append(f"level {subject} {level}")
        self._levels[subject] = level

    def mode(self, subject: str) -> str:
        return self._modes.get(subject, "")

    def set_mode(self, subject: str, mode: str) -> None:
        self.requests.append(f"mode {subject} {mode}")
        self._modes[subject] = mode

    def global_mode(self) -> str:
        return self._mode

    def _store(self, schema: RegisteredSchema, *, keep_id: bool = False) -> RegisteredSchema:
        content = (schema.text, schema.references)
        if keep_id:
            self._content[content] = schema.id
        elif content not in self._content:
            self._content[content], self._next = self._next, self._next + 1
        guid = str(uuid.uuid5(_SPACE, json.dumps([content[0], list(map(str, content[1]))])))
        stored = replace(schema, id=self._content[content], guid=guid)
        self._by_id[stored.id] = stored
        self._subjects.setdefault(schema.at.subject, {})[schema.at.version] = stored
        return stored
