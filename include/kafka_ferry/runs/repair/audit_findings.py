"""Proposals for the findings of an audit, where the ledger of a flow says more about them."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from kafka_ferry.audit.comparison.findings import Finding
from kafka_ferry.audit.proposals import AuditProposal, Choice, proposals
from kafka_ferry.audit.result import AuditReport
from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import LedgerTable, ledger_topic
from kafka_ferry.ledger.queries.copied_ranges import CopiedSpan, spans_between
from kafka_ferry.ledger.queries.copied_topics import remote_topics
from kafka_ferry.model import TopicPartition
from kafka_ferry.runs.provenance.appended import appended_counts
from kafka_ferry.runs.repair.append_missing import AppendMissing
from kafka_ferry.runs.state.run_context import RunContext

# Each one is read on both clusters.
_MOST_RANGES: Final = 20
_NEVER_VERIFIED: Final = "No run that reads them back is verified: the flow has not copied them."
_BY_LEDGER: Final = ("missing", "reordered")


def own_proposals(flow: Flow, report: AuditReport, config: str) -> list[AuditProposal]:
    """Proposals for an audit of the clusters of a flow: of its own remote topics by what its ledger says.

    Args:
        flow: the flow.
        report: the audit's report.
        config: the flow's file, for commands.

    Raises:
        FerryError: if the audit is of other clusters, or a cluster cannot be read.
    """
    target = ClusterControl(flow.target)
    ids = (ClusterControl(flow.source).cluster_id(), target.cluster_id())
    if ids != (report.source_cluster_id, report.target_cluster_id):
        raise FerryError(
            f"The audit {report.audit} is of other clusters than {flow.name}",
            advice="Leave --config out, or name the flow that has these clusters.",
        )
    if (ledger := ledger_topic(flow.source.alias)) in target.unknown([ledger]):
        # It has copied nothing.
        return proposals(report)
    run = RunContext.of(flow, "")
    run.project_ledger()
    remote_ids = target.topic_ids({part.pair.remote_topic for part in report.partitions})
    given_back = {name for name, mark in run.ledger.marks().items() if mark.given_back}
    own = _copied_topics(run.ledger, remote_ids) - given_back
    return [
        _by_ledger(
            flow, proposal, _spans(run.ledger, proposal, remote_ids[proposal.remote_topic]), config
        )
        if proposal.is_own
        else proposal
        for proposal in proposals(report, own, config)
    ]


def _copied_topics(ledger: LedgerTable, remote_ids: Mapping[str, str]) -> set[str]:
    """The target's topics that the flow has copied to, of those whose ids are given by name."""
    known, released = remote_topics(ledger, remote_ids), ledger.released_topics()
    return {name for name, at in remote_ids.items() if (name, at) in known and at not in released}


def _spans(ledger: LedgerTable, proposal: AuditProposal, remote_id: str) -> list[CopiedSpan]:
    """The ranges that the flow has copied around the findings of a proposal."""
    findings = [it for it in proposal.findings if it.source_offset >= 0]
    if proposal.kind not in _BY_LEDGER or not findings:
        return []
    first = min(it.source_offset for it in findings)
    after = max(it.source_offset + it.records for it in findings)
    partitions, remote_topic = {it.partition for it in findings}, (proposal.remote_topic, remote_id)
    return spans_between(ledger, proposal.topic, remote_topic, partitions, (first, after))


def _by_ledger(
    flow: Flow, proposal: AuditProposal, spans: list[CopiedSpan], config: str
) -> AuditProposal:
    if proposal.kind == "missing":
        choices = _append_choices(flow, proposal, spans, config)
    elif proposal.kind == "reordered":
        choices = _put_there(proposal, spans)
    elif proposal.kind == "foreign":
        left, *others = proposal.choices
        left = replace(left, consequences=(*left.consequences, _NEVER_VERIFIED))
        return replace(proposal, choices=(left, *others))
    else:
        return proposal
    return replace(proposal, choices=(*choices, *proposal.choices))


def _append_choices(
    flow: Flow, proposal: AuditProposal, spans: list[CopiedSpan], config: str
) -> Iterator[Choice]:
    """What the ledger says of missing records: lost since, not copied yet, or left out for a reason."""
    ranges: dict[tuple[TopicPartition, int], None] = {}
    elsewhere = 0
    for finding in proposal.findings:
        lost = _copied_ranges(finding, spans)
        elsewhere += finding.records - sum(count for _, count in lost)
        ranges |= dict.fromkeys(
            (TopicPartition(finding.topic, finding.partition), start) for start, _ in lost
        )
    appending = AppendMissing(flow)
    for source, start in list(ranges)[:_MOST_RANGES]:
        name = f"{source}:{start}"
        append_proposal = appending.proposal(source, start)
        if append_proposal.refusal:
            yield Choice("none", (f"{name} cannot be appended: {append_proposal.refusal}",))
        elif append_proposal.is_done:
            yield Choice("none", append_proposal.consequences)
        else:
            command = f"ferry repair --config {shlex.quote(config)} --append {shlex.quote(name)}"
            commands = (command, f'{command} --reason "..." --yes')
            yield Choice("append", append_proposal.consequences, commands)
    if (more := len(ranges) - _MOST_RANGES) > 0:
        yield Choice("none", (f"{more:,} more ranges have lost records: repair these first.",))
    if elsewhere:
        yield Choice(
            "none",
            (
                f"{elsewhere:,} of them are not lost: the ledger does not say that they were copied. Either the flow "
                "has not come to them yet, or it has left them out for a reason, which ferry where names.",
            ),
        )


def _copied_ranges(finding: Finding, spans: list[CopiedSpan]) -> list[tuple[int, int]]:
    """The ordinary ranges that have copied records of a finding: their starts, and how many of them."""
    first, after = finding.source_offset, finding.source_offset + finding.records
    ranges = []
    for span in spans:
        if span.window or not _is_of(span, finding):
            continue
        parts = filter(None, (segment.within(first, after) for segment in span.segments))
        if records := sum(part.records for part in parts):
            ranges.append((span.start, records))
    return ranges


def _put_there(proposal: AuditProposal, spans: list[CopiedSpan]) -> Iterator[Choice]:
    """Which records are out of order because a backfill or a repair has appended them."""
    appended = [span for span in spans if span.window]
    runs = Counter[str]()
    for finding in proposal.findings:
        runs += appended_counts(finding, (span for span in appended if _is_of(span, finding)))
    for run, records in runs.items():
        sentence = f"{records:,} of them are where {run} has appended them, as the ledger says."
        yield Choice("none", (sentence,))


def _is_of(span: CopiedSpan, finding: Finding) -> bool:
    names = (span.topic, span.partition, span.remote_topic)
    return names == (finding.topic, finding.partition, finding.remote_topic)
