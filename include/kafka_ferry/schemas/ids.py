"""The ids of schemas on the source, each with the id that the same schema has on the target."""

from __future__ import annotations

import hashlib
import json
import logging
import pickle
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from kafka_ferry.as_json import read_json, reader_of
from kafka_ferry.model.ranges import IdPart

if TYPE_CHECKING:
    from kafka_ferry.state import StateFolder

log = logging.getLogger(__name__)

ID_HEADERS: Final[Mapping[IdPart, bytes]] = {
    "key": b"__key_schema_id",
    "value": b"__value_schema_id",
}
"""The headers that have the ids of schemas which do not stand before a key or value itself."""

FOLDER: Final = "schemas"
"""Where they are stored in a state folder."""
_FILE: Final = "ids.json"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class MirroredSchema:
    """A schema that both registries have.

    Attributes:
        source_id: its id on the source.
        target_id: its id on the target.
        subject: the subject that it has on the target.
        version: its version there.
        source_guid: its GUID on the source, "" where the registry has none.
        target_guid: the same on the target.
        source_digest: ``RegisteredSchema.digest`` of what the source had under its id.
        target_digest: the same on the target.
    """

    source_id: int
    target_id: int
    subject: str
    version: int
    source_guid: str = ""
    target_guid: str = ""
    source_digest: str = ""
    target_digest: str = ""


@dataclass(frozen=True, slots=True)
class FlowSchemas:
    """What a flow has mirrored.

    Attributes:
        schemas: the schemas.
        remote_topics: all topics that the flow has planned, each with its remote topic: subjects are named after them.
    """

    schemas: tuple[MirroredSchema, ...] = ()
    remote_topics: Mapping[str, str] = field(default_factory=dict)

    @property
    def ids(self) -> dict[int, int]:
        """By the source's id, the target's."""
        return {schema.source_id: schema.target_id for schema in self.schemas}

    @property
    def guids(self) -> dict[str, str]:
        """By the source's GUID, the target's.

        GUIDs are made of a schema's content, and differ only where it refers to subjects that have another name or
        version on the target.
        """
        return {
            schema.source_guid: schema.target_guid
            for schema in self.schemas
            if schema.source_guid and schema.target_guid
        }

    @property
    def digest(self) -> str:
        """The SHA-256 of all of it, the same in whichever order it was found."""
        return hashlib.sha256(_text(self).encode()).hexdigest()


def stored_schemas(state: StateFolder) -> FlowSchemas:
    """What is in the state folder of a flow, or of a run; nothing where it has no file, or one that cannot be read."""
    content = state.folder(FOLDER).read(_FILE)
    if content is None:
        return FlowSchemas()
    try:
        stored = read_json(content)
        if stored["version"] != _VERSION:
            raise ValueError(f"version {stored['version']}")
        # An id that is a text would be a part of the address that a registry is asked at.
        kept = {"schemas": stored["schemas"], "remote_topics": stored["topics"]}
        return reader_of(FlowSchemas).validate_python(kept)
    except (ValueError, KeyError, TypeError) as error:
        log.warning("The stored ids of schemas cannot be read and are asked for again: %s", error)
        return FlowSchemas()


def store_schemas(state: StateFolder, flow_schemas: FlowSchemas) -> None:
    """Store it in the state folder of a flow, or of a run."""
    state.folder(FOLDER).write(_FILE, _text(flow_schemas))


def forget_schemas(state: StateFolder) -> None:
    """Delete it there, if it is there."""
    state.delete_folder(FOLDER)


def _text(flow_schemas: FlowSchemas) -> str:
    content = {
        "version": _VERSION,
        "schemas": [
            asdict(schema) for schema in sorted(flow_schemas.schemas, key=lambda it: it.source_id)
        ],
        "topics": dict(sorted(flow_schemas.remote_topics.items())),
    }
    return json.dumps(content, indent=1)


def packed_schemas(flow_schemas: FlowSchemas | None) -> bytes:
    """What tasks need of it, small: names and ids compress well; empty for None."""
    return zlib.compress(pickle.dumps(flow_schemas)) if flow_schemas else b""


def unpacked_schemas(packed: bytes) -> FlowSchemas | None:
    """Unpacks what ``packed_schemas`` packed."""
    flow_schemas: FlowSchemas | None = pickle.loads(zlib.decompress(packed)) if packed else None
    return flow_schemas
