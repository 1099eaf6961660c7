"""Records as rows for the rules' expressions: the columns that Spark SQL sees.

Expressions give the same for the same columns. So records share a row if they are alike in all that their rule's
expressions use: of a million records of which half have a header, Spark evaluates two for each batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, get_args

from kafka_ferry.batches import Record
from kafka_ferry.batches.record_format.content import (
    Header,
    encoded_headers,
    headers_of,
    key_value_of,
    read_headers,
)
from kafka_ferry.transform.record_limits import too_large

if TYPE_CHECKING:
    from kafka_ferry.model import TopicPartition
    from kafka_ferry.transform.changer import Changer

Column = Literal[
    "topic", "partition", "offset", "timestamp", "key", "value", "headers", "header_list", "secrets"
]
"""The columns, of Kafka's meaning; ``timestamp`` is of milliseconds since 1970."""

Columns = Sequence[frozenset[Column]]
"""For each rule of a flow, the columns that its expressions use."""
COLUMNS: tuple[Column, ...] = get_args(Column)
_NO_HEADERS: Final = encoded_headers(())
_HEADERS: Final = frozenset[Column]({"headers", "header_list"})
# Those that differ from record to record.
_OWN: Final = frozenset[Column]({"offset", "timestamp", "key", "value"})


@dataclass(slots=True)
class RecordRows:
    """Rows of records, column by column.

    Attributes:
        rules: for each row, the number of the rule in the flow's list.
        partitions: for each row, the source partition.
        offsets: source offsets; of records that share a row, the first one's, as in all other columns.
        timestamps: milliseconds since 1970.
        keys: the records' keys; None in rows whose rule uses none.
        values: their values; None in rows whose rule uses none.
        headers: those of their headers that expressions use.
        places: for each record, the place of its row.
    """

    rules: list[int] = field(default_factory=list)
    partitions: list[TopicPartition] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[tuple[Header, ...]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rules)

    def add(
        self,
        rule: int,
        partition: TopicPartition,
        records: Sequence[Record],
        columns: frozenset[Column],
        changer: Changer,
    ) -> None:
        """Add the records of a partition, at their source offsets.

        Args:
            rule: its number.
            partition: the source partition.
            records: the records.
            columns: the columns that the rule's expressions use.
            changer: the rule.

        Raises:
            MalformedBatch: if the content of one cannot be read.
        """
        # All headers may be used without being named, by ``*``.
        wanted = None if "header_list" in columns else changer.named_headers
        first = len(self)
        headers: Sequence[tuple[Header, ...]]
        if not columns & _OWN:
            records, headers, places = _alike(records, wanted, by_headers=bool(columns & _HEADERS))
            self.places += [first + place for place in places]
        else:
            self.places += range(first, first + len(records))
            headers = [()] * len(records)
            if columns & _HEADERS:
                headers = [_headers(_headers_seen(record), wanted) for record in records]
        self.rules += [rule] * len(records)
        self.partitions += [partition] * len(records)
        self.offsets += [record[0] for record in records]
        self.timestamps += [record[1] for record in records]
        self.headers += headers
        self._add_keys_and_values(records, columns, changer)

    def _add_keys_and_values(
        self, records: Sequence[Record], columns: frozenset[Column], changer: Changer
    ) -> None:
        has_key, has_value = "key" in columns, "value" in columns
        if not (has_key or has_value):
            self.keys += [None] * len(records)
            self.values += [None] * len(records)
            return
        reads_key = has_key and "key" in changer.formats
        reads_value = has_value and "value" in changer.formats
        for record in records:
            content = record[3]
            key, value = (None, None) if too_large(record) else key_value_of(content)
            if reads_key and key is not None:
                key = changer.as_json("key", key, content)
            if reads_value and value is not None:
                value = changer.as_json("value", value, content)
            self.keys.append(key if has_key else None)
            self.values.append(value if has_value else None)


def rows_of(
    parts: Iterable[tuple[int, TopicPartition, Sequence[Record], Changer]],
    columns: Columns,
) -> RecordRows:
    """The rows of several partitions' records.

    Args:
        parts: the rule's number, the source partition, the records and the rule of each.
        columns: for each rule of the flow, the columns that its expressions use.

    Raises:
        MalformedBatch: as ``RecordRows.add``.
    """
    rows = RecordRows()
    for rule, partition, records, changer in parts:
        rows.add(rule, partition, records, columns[rule], changer)
    return rows


def _alike(
    records: Sequence[Record], wanted: frozenset[str] | None, *, by_headers: bool
) -> tuple[Sequence[Record], Sequence[tuple[Header, ...]], Sequence[int]]:
    """The first record of each kind with the headers that its kind has, and for each record the place of its kind."""
    if not by_headers:
        return records[:1], [()] * len(records[:1]), [0] * len(records)
    known: dict[bytes, int] = {}
    kinds: dict[tuple[Header, ...], int] = {}
    firsts: list[Record] = []
    places: list[int] = []
    for record in records:
        encoded = _headers_seen(record)
        place = known.get(encoded)
        if place is None:
            place = kinds.setdefault(_headers(encoded, wanted), len(kinds))
            known[encoded] = place
            if place == len(firsts):
                firsts.append(record)
        places.append(place)
    return firsts, list(kinds), places


def _headers_seen(record: Record) -> bytes:
    """The headers of a record as they are encoded; none of one that is too large."""
    return _NO_HEADERS if too_large(record) else headers_of(record[3])


def _headers(encoded: bytes, wanted: frozenset[str] | None) -> tuple[Header, ...]:
    """The headers, or those of them that are ``wanted``."""
    headers = read_headers(encoded)
    if wanted is None:
        return headers
    # Of each name, the last one counts: a producer may repeat one a hundred thousand times.
    last = {header[0]: header for header in headers if header[0].decode(errors="replace") in wanted}
    return tuple(last.values())
