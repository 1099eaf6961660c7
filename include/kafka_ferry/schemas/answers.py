"""What a registry's answers must be, as Confluent's client hands them over: anything else is no registry's.

The client checks nothing. A proxy's page or another service behind the address of a registry would be taken for
a registry without subjects, or break whatever reads it later. Every function raises ``ValueError``.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any, Final, TypeVar

from kafka_ferry.model.schemas import SchemaVersion
from kafka_ferry.schemas.registered import RegisteredSchema

_T = TypeVar("_T", str, int)
_MOST_MIB: Final = 64
# A value of JSON takes some hundred bytes of memory, and may have three in the answer.
_MOST_VALUES: Final = 1_000_000
IDS: Final = range(2**31)
"""What an id of a schema can be: records hold four bytes, of which a registry's API takes no other number."""
_BEGIN_VALUES: Final = (b",", b"[", b"{")


class AnswerTooLarge(ValueError):
    """An answer has more than is taken of one; others may have less."""


def limit_answers(client: Any, seconds: float) -> None:
    """Let an HTTP client give up answers that take too long as a whole, too much memory, or are packed.

    The client's own timeout is for each piece of an answer, and a few packed kilobytes may be gigabytes, as may
    mebibytes of empty objects once they are read.

    Args:
        client: of ``httpx2``.
        seconds: for an answer, after its headers; a second for each 64 KiB is added.
    """
    from httpx2 import DecodingError, SyncByteStream  # noqa: PLC0415  (an extra)

    class Bounded(SyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def __iter__(self) -> Iterator[bytes]:
            size = values = 0
            began = time.monotonic()
            for piece in self._stream:
                size += len(piece)
                values += sum(map(piece.count, _BEGIN_VALUES))
                if values > _MOST_VALUES:
                    raise AnswerTooLarge(f"its answer has more than {_MOST_VALUES:,} values")
                if size > _MOST_MIB * 2**20:
                    raise AnswerTooLarge(f"its answer has more than {_MOST_MIB} MiB")
                if time.monotonic() - began > seconds + size / 2**16:
                    raise DecodingError(f"its answer has not ended after {seconds:g} s")
                yield piece

        def close(self) -> None:
            self._stream.close()

    def ask_plain(request: Any) -> None:
        request.headers["Accept-Encoding"] = "identity"

    def bound(response: Any) -> None:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise DecodingError("it packs its answer, and was asked not to")
        response.stream = Bounded(response.stream)

    client.event_hooks = {"request": [ask_plain], "response": [bound]}


def require_kind(kind: type[_T], value: object, what: str) -> _T:
    """A value of a kind, with ``what`` it is for the error, which does not show what may be no registry's."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"its {what} is of the type {type(value).__name__}")
    return value


def id_of(value: object) -> int:
    """An id as records hold it, in four bytes."""
    if require_kind(int, value, "id") not in IDS:
        raise ValueError(f"its id is {value!r:.80}")
    return require_kind(int, value, "id")


def list_of(kind: type[_T], values: object, what: str) -> list[_T]:
    """A list of values of a kind, ascending."""
    if not isinstance(values, list):
        raise ValueError(f"the list of {what}s is of the type {type(values).__name__}")
    return sorted(require_kind(kind, value, what) for value in values)


def version_of(entry: Any) -> SchemaVersion:
    """Where a schema is."""
    return SchemaVersion(
        require_kind(str, entry.subject, "subject"), require_kind(int, entry.version, "version")
    )


def _guid_of(value: object) -> str:
    """A GUID as records hold it, in sixteen bytes; "" of any other text."""
    guid = require_kind(str, value or "", "GUID")
    try:
        return guid and str(uuid.UUID(guid))
    except ValueError:
        return ""


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
        text=require_kind(str, schema.schema_str, "schema"),
        kind=require_kind(str, schema.schema_type or "AVRO", "schema's type"),
        references=tuple(
            (require_kind(str, reference.name, "reference"), version_of(reference))
            for reference in schema.references or ()
        ),
        guid=_guid_of(guid),
        more=more,
    )
