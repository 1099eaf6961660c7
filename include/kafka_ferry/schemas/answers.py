"""What a registry's answers must be, as Confluent's client hands them over: anything else is no registry's.

The client checks nothing. A proxy's page or another service behind the address of a registry would be taken for
a registry without subjects, or break whatever reads it later. Every function raises ``ValueError``.
"""

from __future__ import annotations

from typing import Any, TypeVar

from kafka_ferry.model.schemas import SchemaVersion
from kafka_ferry.schemas.registered import RegisteredSchema

_T = TypeVar("_T", str, int)


def known_as(kind: type[_T], found: object, what: str) -> _T:
    """A value of a kind, with ``what`` it is for the error."""
    if not isinstance(found, kind) or isinstance(found, bool):
        raise ValueError(f"its {what} is {found!r:.80}")
    return found


def list_of(kind: type[_T], found: object, what: str) -> list[_T]:
    """A list of values of a kind, ascending."""
    if not isinstance(found, list):
        raise ValueError(f"the list of {what}s is {found!r:.80}")
    return sorted(known_as(kind, it, what) for it in found)


def version_of(found: Any) -> SchemaVersion:
    """Where a schema is."""
    return SchemaVersion(
        known_as(str, found.subject, "subject"), known_as(int, found.version, "version")
    )


def schema_of(at: SchemaVersion, schema_id: int, guid: object, schema: Any) -> RegisteredSchema:
    """A schema.

    Args:
        at: where it is.
        schema_id: its id.
        guid: its GUID, None where the registry has none.
        schema: the client's ``Schema``.
    """
    more = {
        name: value
        for name, value in schema.to_dict().items()
        if name in ("metadata", "ruleSet") and value
    }
    return RegisteredSchema(
        at=at,
        id=schema_id,
        text=known_as(str, schema.schema_str, "schema"),
        kind=known_as(str, schema.schema_type or "AVRO", "schema's type"),
        references=tuple(
            (known_as(str, it.name, "reference"), version_of(it)) for it in schema.references or ()
        ),
        guid=known_as(str, guid or "", "GUID"),
        more=more,
    )
