"""Puts the outcomes of a topic's partitions together, once its other partitions were searched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from kafka_ferry.audit.comparison.across_partitions import Elsewhere
from kafka_ferry.audit.comparison.findings import Differing, Finding, runs
from kafka_ferry.audit.comparison.unmatched import as_findings
from kafka_ferry.audit.comparison.unordered import Unordered
from kafka_ferry.audit.outcome import PairOutcome
from kafka_ferry.audit.result import PairCounts, PartitionAudit
from kafka_ferry.audit.terms import AuditPair

MOST_FINDINGS: Final = 100_000
"""The most findings of a partition that are listed."""


def elsewhere(outcomes: Iterable[PairOutcome]) -> Elsewhere:
    """What is left of the missing and foreign records of a topic's pairs."""
    compared = [outcome for outcome in outcomes if not outcome.failure]
    return Elsewhere.of(
        {outcome.pair.partition: outcome.missing for outcome in compared},
        {outcome.pair.partition: outcome.foreign for outcome in compared},
    )


def results_in_order(outcomes: Sequence[PairOutcome], left: Elsewhere) -> list[PartitionAudit]:
    """The results for the pairs of a topic that were compared one by one.

    Args:
        outcomes: of its pairs.
        left: what is left of their missing and foreign records.
    """
    return [_partition_audit(outcome, left) for outcome in outcomes]


def _partition_audit(outcome: PairOutcome, left: Elsewhere) -> PartitionAudit:
    pair = outcome.pair
    if outcome.failure:
        return PartitionAudit(pair, seconds=outcome.seconds, reason=outcome.failure)
    number = pair.partition
    differing = [
        *outcome.differing,
        *left.moved.get(number, ()),
        *left.doubled.get(number, ()),
        *as_findings(left.missing[number], left.foreign[number]),
    ]
    counts = replace(outcome.counts, **_by_kind(differing))
    findings, unlisted = _findings(pair, differing)
    return PartitionAudit(
        pair, counts, findings, unlisted, passes=outcome.passes, seconds=outcome.seconds
    )


def results_without_order(
    pairs: Sequence[AuditPair], unordered: Unordered, seconds: float
) -> list[PartitionAudit]:
    """The results for the pairs of a topic that were compared all at once.

    Args:
        pairs: the topic's pairs.
        unordered: the result.
        seconds: how long it took.
    """
    results = []
    for pair in pairs:
        part = unordered[pair.partition]
        counts = PairCounts(
            source_records=part.source_records,
            target_records=part.target_records,
            matched=part.matched,
            removed=part.removed,
            expired=part.expired,
            **{str(kind): count for kind, count in part.counts.items()},
        )
        findings, left_out = _findings(pair, part.differing)
        unlisted = part.counts.total() - len(part.differing) + left_out
        results.append(
            PartitionAudit(pair, counts, findings, unlisted, in_order=False, seconds=seconds)
        )
    return results


def _by_kind(differing: Iterable[Differing]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for record in differing:
        counts[record.kind] = counts.get(record.kind, 0) + 1
    return counts


def _findings(pair: AuditPair, differing: Sequence[Differing]) -> tuple[tuple[Finding, ...], int]:
    findings = list(runs(differing, pair.topic, pair.partition, pair.remote_topic))
    left_out = sum(finding.records for finding in findings[MOST_FINDINGS:])
    return tuple(findings[:MOST_FINDINGS]), left_out
