"""What a format of keys and values must do for rules that name fields: JSON here, others by a registry's schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kafka_ferry.batches.record_format.content import Header, headers_of, read_headers
from kafka_ferry.batches.rule_counts import FieldCounts


class FieldFormat(Protocol):
    """How the fields of a key or value are read and changed.

    Attributes:
        schema_header: the name of the headers that may tell the schema of a content; "" if none does.
    """

    schema_header: bytes

    def as_json(self, content: bytes, headers: Sequence[Header] = ()) -> bytes:
        """The fields as JSON; what is no JSON where they cannot be read.

        Args:
            content: the key or value.
            headers: the record's, needed if it has a ``schema_header``.
        """

    def with_fields(
        self,
        content: bytes,
        changes: Mapping[tuple[str, ...], str | None],
        headers: Sequence[Header] = (),
        counts: FieldCounts | None = None,
    ) -> bytes:
        """The content with other fields.

        Args:
            content: the key or value.
            headers: as for ``as_json``.
            changes: by the names on the way to a field, what it becomes in JSON; None to leave it out.
            counts: where to count the fields that become something else.

        Raises:
            ValueError: it cannot be read, or cannot have these fields.
        """


def schema_headers(record: bytes, form: FieldFormat) -> tuple[Header, ...]:
    """The headers of a record's content where they may tell a schema: mostly they do not, as one search says."""
    name = form.schema_header
    return read_headers(headers_of(record)) if name and name in record else ()
