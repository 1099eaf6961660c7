"""Writes what an audit found: a page for people and a Parquet file for programs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import parquet

from kafka_ferry.audit.result import AuditReport
from kafka_ferry.errors import ConfigError
from kafka_ferry.report.audit_page import render_audit
from kafka_ferry.runs.audit.folder import FINDINGS, REPORT, REPORT_DATA
from kafka_ferry.state import StateFolder

SCHEMA: Final = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("remote_topic", pa.string(), nullable=False),
        pa.field("remote_partition", pa.int32(), nullable=False),
        pa.field("source_offset", pa.int64()),
        pa.field("target_offset", pa.int64()),
        pa.field("records", pa.int64(), nullable=False),
        pa.field("what", pa.list_(pa.string()), nullable=False),
    ]
)
"""A row for each finding; an offset is null on a side that does not have the record."""


def write_outputs(folder: StateFolder, report: AuditReport) -> None:
    """Write ``report.html`` and ``findings.parquet``."""
    folder.write(REPORT, render_audit(report))
    folder.write(FINDINGS, findings_file(report))


def write_to(folder: Path, report: AuditReport) -> None:
    """Write ``report.html``, ``findings.parquet`` and ``report.json`` into a folder that the user names.

    Raises:
        ConfigError: they cannot be written.
    """
    try:
        state_folder = StateFolder(str(folder))
        write_outputs(state_folder, report)
        state_folder.write(REPORT_DATA, report.to_json())
    except OSError as error:
        raise ConfigError(
            "the command line", "--output", f"{folder} cannot be written to: {error}."
        ) from None


def findings_file(report: AuditReport) -> bytes:
    """The findings as a Parquet file."""
    rows = [asdict(finding) for finding in report.findings]
    for row in rows:
        for side in ("source_offset", "target_offset"):
            row[side] = row[side] if row[side] >= 0 else None
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_pylist(rows, SCHEMA), sink)
    return bytes(sink.getvalue())
