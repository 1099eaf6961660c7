"""Rows of records as Arrow's batches: those that the rules' expressions see, and what the expressions gave."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_ferry.batches.record_format.content import Header
from kafka_ferry.transform import MOST_BYTES, Columns, Evaluated, RecordRows

ROWS_AT_A_TIME: Final = 1_024
"""How many rows Spark passes on at a time (``spark.sql.execution.arrow.maxRecordsPerBatch``)."""

# Timestamps are milliseconds of 64 bits, and microseconds in Spark.
_MOST_MS: Final = (2**63 - 1) // 1000
_HEADER: Final = pa.struct([("name", pa.string()), ("value", pa.binary())])
ROWS: Final = pa.schema(
    [
        ("rule", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("header_list", pa.list_(_HEADER)),
        ("secrets", pa.map_(pa.string(), pa.string())),
        ("filler", pa.binary()),
    ]
)
"""The rows that expressions see; ``rule`` is null in rows that only push others through."""


def schema_of(columns: Columns) -> pa.Schema:
    """The rows' schema with only the columns that expressions use: each costs time in the JVM."""
    used = {"rule", "filler"}.union(*columns)
    return pa.schema([field for field in ROWS if field.name in used])


def record_batches(
    rows: RecordRows, schema: pa.Schema, secrets: list[tuple[str, str]]
) -> Iterator[pa.RecordBatch]:
    """The rows as the expressions see them, by at most ``MOST_BYTES`` or one row: the JVM holds some at a time."""
    return _parts(_record_batch(rows, schema, secrets))


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= MOST_BYTES or batch.num_rows < 2:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _parts(batch.slice(0, middle))
    yield from _parts(batch.slice(middle))


def _record_batch(
    rows: RecordRows, schema: pa.Schema, secrets: list[tuple[str, str]]
) -> pa.RecordBatch:
    columns = []
    for field in schema:
        if field.name == "secrets":
            columns.append(pa.array([secrets] * len(rows), field.type))
        elif build := _COLUMNS.get(field.name):
            values = build(rows)
            is_built = isinstance(values, pa.Array)
            columns.append(values if is_built else pa.array(values, field.type))
        else:
            columns.append(pa.nulls(len(rows), field.type))
    return pa.record_batch(columns, schema=schema)


def _binary(values: Sequence[bytes | None]) -> pa.Array:
    """As ``pa.array``, which copies long values slowly."""
    present = [value or b"" for value in values]
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, present), np.int32, len(values)), out=ends[1:])
    is_there = None
    if None in values:
        is_there = pa.array([value is not None for value in values]).buffers()[1]
    buffers = [is_there, pa.py_buffer(ends), pa.py_buffer(b"".join(present))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def _header_map(all_headers: Iterable[tuple[Header, ...]]) -> pa.Array:
    """Each record's headers by name; the last one of a name wins, as with Kafka's own ``Headers.lastHeader``."""
    names: list[str | None] = []
    values: list[str | None] = []
    ends = [0]
    for headers in all_headers:
        if headers:
            texts_by_name = {_text(name): _text(value) for name, value in headers}
            names += texts_by_name.keys()
            values += texts_by_name.values()
        ends.append(len(names))
    return pa.MapArray.from_arrays(
        pa.array(ends, pa.int32()), pa.array(names, pa.string()), pa.array(values, pa.string())
    )


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")


_COLUMNS: Final[Mapping[str, Callable[[RecordRows], Any]]] = {
    "rule": attrgetter("rules"),
    "topic": lambda rows: [partition.topic for partition in rows.partitions],
    "partition": lambda rows: [partition.partition for partition in rows.partitions],
    "offset": attrgetter("offsets"),
    "timestamp": lambda rows: [
        at * 1000 if -_MOST_MS <= at <= _MOST_MS else None for at in rows.timestamps
    ],
    "key": lambda rows: _binary(rows.keys),
    "value": lambda rows: _binary(rows.values),
    "headers": lambda rows: _header_map(rows.headers),
    "header_list": lambda rows: [
        [{"name": _text(name), "value": value} for name, value in headers]
        for headers in rows.headers
    ],
}
"""How the columns of rows are made, as values or as Arrow's array."""


def evaluation(batch: pa.RecordBatch) -> Evaluated:
    """The results of a batch, without the rows that only push others through."""
    rows = batch.filter(batch.column(0).is_valid())
    if not rows.num_rows:
        return Evaluated()
    _, keep, failed, results, seen, _ = rows.columns
    return Evaluated(
        keep.to_pylist(),
        failed.to_pylist() if pc.max(failed).as_py() >= 0 else [],
        results.to_pylist() if results.null_count < len(results) else [],
        seen.fill_null(0).to_pylist() if seen.null_count < len(seen) else [],
    )


def fillers(schema: pa.Schema) -> tuple[pa.RecordBatch, ...]:
    """Rows that push those before them through the pipes.

    The first lot fills an Arrow batch in the JVM, and with its bytes the JVM's buffer to the next worker;
    the second one fills the feeding worker's own buffer.
    """
    buffer = int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))
    bytes_ = [b"\0" * (buffer + 4_096)]

    def filler(rows: int) -> pa.RecordBatch:
        columns = [pa.nulls(rows, field.type) for field in schema if field.name != "filler"]
        filled = pa.array(bytes_ + [None] * (rows - 1), pa.binary())
        return pa.record_batch([*columns, filled], schema=schema)

    return filler(2 * ROWS_AT_A_TIME), filler(1)
