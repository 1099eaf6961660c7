"""Records that an audit finds out of order, and that a backfill or a repair has appended, by the ledger's word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from kafka_ferry.ledger import copied_rows, is_one_of

if TYPE_CHECKING:
    from kafka_ferry.audit.comparison.findings import Finding
    from kafka_ferry.audit.result import PartitionAudit
    from kafka_ferry.ledger import LedgerTable

_COLUMNS: Final = ["topic", "partition", "remote_topic", "segments", "run"]


def count_appended(
    ledger: LedgerTable, parts: Sequence[PartitionAudit], remote_ids: Mapping[str, str]
) -> list[PartitionAudit]:
    """The results of an audit, with what is out of order only because of a backfill or a repair counted apart.

    These append: no order is promised between what two of them, or one of them and a run, have copied.

    Args:
        ledger: the flow's ledger, projected to its end.
        parts: the results.
        remote_ids: the ids of the remote topics, by name.
    """
    rows = _rows(ledger, parts, remote_ids)
    return [
        _with_count(part, rows.get((part.pair.topic, part.pair.partition), ())) for part in parts
    ]


def appended_counts(finding: Finding, rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """How many records of a finding are where the ledger says that a run has put them, by run.

    Args:
        finding: records that are out of order.
        rows: the ledger's rows of copied ranges of its partition.
    """
    found = Counter[str]()
    first, shift = finding.source_offset, finding.target_offset - finding.source_offset
    for row in rows:
        for segment in row["segments"]:
            start = max(first, segment["source"])
            end = min(first + finding.records, segment["source"] + segment["records"])
            if start < end and segment["target"] - segment["source"] == shift:
                found[row["run"]] += end - start
    return found


def _rows(
    ledger: LedgerTable, parts: Iterable[PartitionAudit], remote_ids: Mapping[str, str]
) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """The rows of the partitions with records out of order into which anything was appended, by partition."""
    names = {part.pair.remote_topic for part in parts if part.counts.reordered}
    wanted = copied_rows() & is_one_of("remote_topic", names)
    wanted &= is_one_of("remote_topic_id", (remote_ids.get(name, "") for name in names))
    rows: dict[tuple[str, int], list[dict[str, Any]]] = {}
    if not names:
        return rows
    for row in ledger.read(wanted & (pc.field("type") == "backfill"), _COLUMNS[:2]).to_pylist():
        rows[row["topic"], row["partition"]] = []
    if rows:
        for row in ledger.read(wanted, _COLUMNS).to_pylist():
            rows.get((row["topic"], row["partition"]), []).append(row)
    return rows


def _with_count(part: PartitionAudit, rows: Sequence[Mapping[str, Any]]) -> PartitionAudit:
    if not rows:
        return part
    appended = {
        finding
        for finding in part.findings
        if finding.kind == "reordered" and appended_counts(finding, rows).total() == finding.records
    }
    return replace(
        part,
        findings=tuple(it for it in part.findings if it not in appended),
        appended=sum(finding.records for finding in appended),
    )
