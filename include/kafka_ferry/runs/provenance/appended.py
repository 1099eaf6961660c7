"""Records that an audit finds out of order, and that a backfill or a repair has appended, by the ledger's word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kafka_ferry.ledger.queries.copied_ranges import CopiedSpan, spans_with_appends
from kafka_ferry.model import TopicPartition

if TYPE_CHECKING:
    from kafka_ferry.audit.comparison.findings import Finding
    from kafka_ferry.audit.result import PartitionAudit
    from kafka_ferry.ledger import LedgerTable


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
    names = {part.pair.remote_topic for part in parts if part.counts.reordered}
    spans = spans_with_appends(ledger, {name: remote_ids.get(name, "") for name in names})
    return [
        _with_count(part, spans.get(TopicPartition(part.pair.topic, part.pair.partition), ()))
        for part in parts
    ]


def appended_counts(finding: Finding, spans: Iterable[CopiedSpan]) -> Counter[str]:
    """How many records of a finding are where the ledger says that a run has put them, by run.

    Args:
        finding: records that are out of order.
        spans: the copied ranges of its partition, by the ledger.
    """
    counts = Counter[str]()
    first, shift = finding.source_offset, finding.target_offset - finding.source_offset
    for span in spans:
        for segment in span.segments:
            part = segment.within(first, first + finding.records)
            if part and part.target - part.source == shift:
                counts[span.run] += part.records
    return counts


def _with_count(part: PartitionAudit, spans: Sequence[CopiedSpan]) -> PartitionAudit:
    if not spans:
        return part
    appended = {
        finding
        for finding in part.findings
        if finding.kind == "reordered"
        and appended_counts(finding, spans).total() == finding.records
    }
    return replace(
        part,
        findings=tuple(other for other in part.findings if other not in appended),
        appended=sum(finding.records for finding in appended),
    )
