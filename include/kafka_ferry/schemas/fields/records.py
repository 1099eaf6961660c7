"""Keys and values as Confluent's serializers write them: a magic byte, the schema's id, the record.

The id, or the schema's GUID, may stand in a header instead, with its magic byte and Protobuf's indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_ferry.errors import FerryError
from kafka_ferry.model.schemas import SchemaVersion
from kafka_ferry.schemas.fields.record_schema import (
    MOST_TEXT,
    Names,
    NotReadable,
    RecordSchema,
    references_of,
)
from kafka_ferry.schemas.translate import MOST_UNKNOWN, id_bytes, id_text

if TYPE_CHECKING:
    from kafka_ferry.batches.record_format.content import Header
    from kafka_ferry.batches.rule_counts import FieldCounts
    from kafka_ferry.config.options.transform import RegistryFormat
    from kafka_ferry.schemas.registered import RegisteredSchema
    from kafka_ferry.schemas.registry import SchemaRegistry

_SIZES: Final = {0: 5, 1: 17}
"""How many bytes an id (magic byte 0) and a GUID (1) take, with the magic byte."""
_NO_JSON: Final = b"\xff"


class _Located(NamedTuple):
    """A content with its schema.

    Attributes:
        schema: the schema.
        payload: the record, after the indexes of its message if it is in Protobuf.
        before: what of the content comes before the payload.
        elsewhere: how many bytes of the payload are not in the content, but in a header.
    """

    schema: RecordSchema
    payload: bytes
    before: bytes
    elsewhere: int


class RegistryRecords:
    """Reads and changes records, each by the schema that it was written with; a ``FieldFormat``.

    Args:
        registry: gives the registry; called when a schema is needed.
        form: the records' format.
        names: the fields that expressions may name.
        schema_header: the header that has the schema's id or GUID, if the content does not begin with its id.
        subject: the subject that is named after the topic. Its schemas are read however many others were looked for
            in vain: by ids that no registry knows, one producer would have the records of all others fail.
    """

    def __init__(
        self,
        registry: Callable[[], SchemaRegistry],
        form: RegistryFormat,
        names: Collection[str],
        schema_header: bytes,
        subject: str = "",
    ) -> None:
        self._registry, self._form, self._names = registry, form, names
        self.schema_header, self._subject = schema_header, subject
        self._known: dict[bytes, RecordSchema | NotReadable] = {}
        self._unknown = self._read = 0
        self._own_ids: set[bytes] | None = None

    def as_json(self, content: bytes, headers: Sequence[Header] = ()) -> bytes:
        """The named fields as JSON; what is no JSON if the content cannot be read.

        Raises:
            ClusterUnreachable, AccessDenied: as ``SchemaRegistry``.
        """
        try:
            located = self._locate(content, headers)
            with failure_of_record():
                return located.schema.as_json(located.payload, self._names)
        except NotReadable:
            return _NO_JSON

    def with_fields(
        self,
        content: bytes,
        changes: Mapping[Names, str | None],
        headers: Sequence[Header] = (),
        counts: FieldCounts | None = None,
    ) -> bytes:
        """The content with other values in some fields, under the same schema; what becomes something else is counted.

        Raises:
            NotReadable: it cannot be read, or cannot have these values.
            ClusterUnreachable, AccessDenied: as ``SchemaRegistry``.
        """
        located = self._locate(content, headers)
        with failure_of_record():
            changed = located.schema.change(located.payload, changes, counts)
        return located.before + changed[located.elsewhere :]

    def _locate(self, content: bytes, headers: Sequence[Header]) -> _Located:
        schema_ids = {value for name, value in headers if name == self.schema_header}
        if not schema_ids:
            size = _SIZES[0]
            if len(content) < size or content[0]:
                raise NotReadable("it does not begin with the id of a schema")
            before = content[:size]
            return _Located(self._schema(before), content[size:], before, 0)
        (header, *more) = schema_ids
        size = _SIZES.get(header[0], 0) if header else 0
        if more or header is None or not size or len(header) < size:
            raise NotReadable("its header does not have the id of one schema")
        schema, indexes = self._schema(header[:size]), header[size:]
        if schema.prefix_size(indexes) != len(indexes):
            raise NotReadable("its header has more than the id of a schema")
        return _Located(schema, indexes + content, b"", len(indexes))

    def _schema(self, schema_id: bytes) -> RecordSchema:
        """The schema of an id or a GUID, with its magic byte."""
        if schema_id not in self._known:
            if self._unknown >= MOST_UNKNOWN and schema_id not in self._ids_of_subject():
                raise NotReadable(f"{MOST_UNKNOWN:,} schemas were looked for in vain by now")
            if self._read > MOST_TEXT:
                raise NotReadable(f"schemas of {MOST_TEXT:,} characters were read by now")
            # Only flows with such records load it.
            from kafka_ferry.schemas.registry import RegistryRefused  # noqa: PLC0415

            try:
                self._known[schema_id] = self._of_id(schema_id)
            except (NotReadable, RegistryRefused) as error:
                self._unknown += 1
                self._known[schema_id] = NotReadable(str(error))
        known = self._known[schema_id]
        if isinstance(known, NotReadable):
            raise known
        return known

    def _ids_of_subject(self) -> set[bytes]:
        """The ids and GUIDs of the subject's newest versions, with their magic bytes; asked for once."""
        if self._own_ids is None:
            # Only flows with such records load it.
            from kafka_ferry.schemas.registry import RegistryRefused  # noqa: PLC0415

            own_ids: set[bytes] = set()
            registry = self._registry()
            versions = registry.versions(self._subject) if self._subject else []
            for version in versions[-MOST_UNKNOWN:]:
                # Deleted meanwhile, it has none.
                with suppress(RegistryRefused):
                    schema = registry.schema(SchemaVersion(self._subject, version))
                    own_ids.add(b"\0" + id_bytes(schema.id))
                    if schema.guid:
                        own_ids.add(b"\1" + id_bytes(schema.guid))
            self._own_ids = own_ids
        return self._own_ids

    def _of_id(self, schema_id: bytes) -> RecordSchema:
        registry, wanted = self._registry(), id_text(schema_id[1:])
        if isinstance(wanted, str):
            schema = registry.with_guid(wanted)
        else:
            places = registry.places(wanted)
            schema = registry.schema(places[0]) if places else None
            if schema and schema.id != wanted:
                # Deleted since it was looked for, and its version is another schema's now.
                schema = None
        if schema is None:
            raise NotReadable(f"the schema {wanted} is not known")
        self._read += len(schema.text)
        return record_schema(registry, schema, self._form)


@contextmanager
def failure_of_record() -> Iterator[None]:
    """Whatever a library makes of a record's bytes, or of its schema, is that record's failure, and not the run's."""
    try:
        yield
    except (NotReadable, FerryError, ImportError):
        raise
    except Exception as error:
        raise NotReadable(f"it cannot be read: {type(error).__name__}") from error


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

        with failure_of_record():
            return ProtobufSchema(schema, references)
    from kafka_ferry.schemas.fields.avro import AvroSchema  # noqa: PLC0415

    with failure_of_record():
        return AvroSchema(schema, references)
