"""Records as rows for the rules' expressions: the columns that Spark SQL sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, get_args

from kafka_ferry.batches import Record
from kafka_ferry.batches.record_format.content import Header, headers_of, key_value_of

if TYPE_CHECKING:
    from kafka_ferry.model import TopicPartition
    from kafka_ferry.transform.json_fields import FieldFormat

Column = Literal[
    "topic", "partition", "offset", "timestamp", "key", "value", "headers", "header_list", "secrets"
]
"""The columns, of Kafka's meaning; ``timestamp`` is of milliseconds since 1970."""

COLUMNS: tuple[Column, ...] = get_args(Column)
_CONTENT = frozenset[Column]({"key", "value"})
_HEADERS = frozenset[Column]({"headers", "header_list"})


@dataclass(slots=True)
class RecordRows:
    """Rows of records, column by column; those that no expression uses are empty.

    Attributes:
        rules: for each row, the number of the rule in the flow's list.
        partitions: for each row, the source partition.
        offsets: source offsets.
        timestamps: milliseconds since 1970.
        keys: the records' keys.
        values: their values.
        headers: their headers.
    """

    rules: list[int] = field(default_factory=list)
    partitions: list[TopicPartition] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[tuple[Header, ...]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rules)

    def add(
        self,
        rule: int,
        partition: TopicPartition,
        records: Sequence[Record],
        columns: frozenset[Column],
        formats: Mapping[str, FieldFormat] = MappingProxyType({}),
    ) -> None:
        """Add the records of a partition, at their source offsets.

        ``formats`` are those of the rule whose fields expressions see as JSON.

        Raises:
            MalformedBatch: if the content of one cannot be read.
        """
        self.rules += [rule] * len(records)
        self.partitions += [partition] * len(records)
        self.offsets += [record[0] for record in records]
        self.timestamps += [record[1] for record in records]
        if columns & _HEADERS:
            self.headers += [headers_of(record[3]) for record in records]
        if columns & _CONTENT:
            key_format, value_format = formats.get("key"), formats.get("value")
            for record in records:
                key, value = key_value_of(record[3])
                if key_format and key is not None and "key" in columns:
                    key = key_format.as_json(key, _of_schema(record, key_format))
                if value_format and value is not None and "value" in columns:
                    value = value_format.as_json(value, _of_schema(record, value_format))
                self.keys.append(key)
                self.values.append(value)


def _of_schema(record: Record, form: FieldFormat) -> tuple[Header, ...]:
    """A record's headers where they tell its schema: mostly they do not, as one search says."""
    name, content = form.schema_header, record[3]
    return headers_of(content) if name and name in content else ()


def rows_of(
    parts: Iterable[tuple[int, TopicPartition, Sequence[Record], Mapping[str, FieldFormat]]],
    columns: frozenset[Column],
) -> RecordRows:
    """The rows of several partitions' records.

    Args:
        parts: the rule's number, the source partition, the records and the rule's formats of each.
        columns: the columns that expressions use.

    Raises:
        MalformedBatch: as ``RecordRows.add``.
    """
    rows = RecordRows()
    for rule, partition, records, formats in parts:
        rows.add(rule, partition, records, columns, formats)
    return rows
