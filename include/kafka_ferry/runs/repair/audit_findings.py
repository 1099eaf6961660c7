"""Proposals for the findings of an audit, where the ledger of a flow says more about them."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow.compute as pc

from kafka_ferry.audit.comparison.findings import Finding
from kafka_ferry.audit.proposals import AuditProposal, Choice, proposals
from kafka_ferry.audit.result import AuditReport
from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import LedgerTable, copied_rows, is_one_of
from kafka_ferry.model import TopicPartition
from kafka_ferry.runs.provenance.appended import appended_counts
from kafka_ferry.runs.repair.append_missing import AppendMissing
from kafka_ferry.runs.state.run_context import RunContext

# Each one is read on both clusters.
_MOST_RANGES: Final = 20
_BY_LEDGER: Final = ("missing", "reordered")
_COLUMNS: Final = [
    *("topic", "partition", "remote_topic"),
    *("start", "end", "segments", "since", "run"),
]


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
    run = RunContext.of(flow, "")
    run.project_ledger()
    there = target.topic_ids({part.pair.remote_topic for part in report.partitions})
    given_back = {name for name, mark in run.ledger.marks().items() if mark.given_back}
    own = _copied_topics(run.ledger, there) - given_back
    return [
        _by_ledger(flow, it, _rows(run.ledger, it, there[it.remote_topic]), config)
        if it.is_own
        else it
        for it in proposals(report, own, config)
    ]


def _copied_topics(ledger: LedgerTable, there: Mapping[str, str]) -> set[str]:
    """The target's topics that the flow has copied to, of those whose ids are given by name."""
    wanted = copied_rows() & is_one_of("remote_topic", there)
    rows = ledger.read(wanted, ["remote_topic", "remote_topic_id"])
    known = set(
        zip(rows["remote_topic"].to_pylist(), rows["remote_topic_id"].to_pylist(), strict=True)
    )
    released = ledger.released_topics()
    return {name for name, at in there.items() if (name, at) in known and at not in released}


def _rows(ledger: LedgerTable, proposal: AuditProposal, remote_id: str) -> list[dict[str, Any]]:
    """The ranges that the flow has copied around the findings of a proposal."""
    found = [it for it in proposal.findings if it.source_offset >= 0]
    if proposal.kind not in _BY_LEDGER or not found:
        return []
    first = min(it.source_offset for it in found)
    after = max(it.source_offset + it.records for it in found)
    wanted = copied_rows() & (pc.field("topic") == proposal.topic)
    wanted &= pc.field("remote_topic") == proposal.remote_topic
    wanted &= pc.field("remote_topic_id") == remote_id
    wanted &= pc.field("partition").isin(sorted({it.partition for it in found}))
    wanted &= (pc.field("start") < after) & (pc.field("end") > first)
    rows: list[dict[str, Any]] = ledger.read(wanted, _COLUMNS).to_pylist()
    return rows


def _by_ledger(
    flow: Flow, proposal: AuditProposal, rows: list[dict[str, Any]], config: str
) -> AuditProposal:
    if proposal.kind == "missing":
        found = _append_choices(flow, proposal, rows, config)
    elif proposal.kind == "reordered":
        found = _put_there(proposal, rows)
    else:
        return proposal
    return replace(proposal, choices=(*found, *proposal.choices))


def _append_choices(
    flow: Flow, proposal: AuditProposal, rows: list[dict[str, Any]], config: str
) -> Iterator[Choice]:
    """What the ledger says of missing records: lost since, not copied yet, or left out for a reason."""
    ranges: dict[tuple[TopicPartition, int], None] = {}
    elsewhere = 0
    for finding in proposal.findings:
        lost = _copied_ranges(finding, rows)
        elsewhere += finding.records - sum(count for _, count in lost)
        ranges |= dict.fromkeys(
            (TopicPartition(finding.topic, finding.partition), start) for start, _ in lost
        )
    this = AppendMissing(flow)
    for source, start in list(ranges)[:_MOST_RANGES]:
        name = f"{source}:{start}"
        asked = this.proposal(source, start)
        if asked.refusal:
            yield Choice("none", (f"{name} cannot be appended: {asked.refusal}",))
        else:
            command = f"ferry repair --config {shlex.quote(config)} --append {shlex.quote(name)}"
            commands = (command, f'{command} --reason "..." --yes')
            yield Choice("append", asked.consequences, commands)
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


def _copied_ranges(finding: Finding, rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """The ordinary ranges that have copied records of a finding: their starts, and how many of them."""
    first, after = finding.source_offset, finding.source_offset + finding.records
    found = []
    for row in rows:
        if row["since"] is not None or not _is_of(row, finding):
            continue
        records = sum(
            max(0, min(after, it["source"] + it["records"]) - max(first, it["source"]))
            for it in row["segments"]
        )
        if records:
            found.append((row["start"], records))
    return found


def _put_there(proposal: AuditProposal, rows: list[dict[str, Any]]) -> Iterator[Choice]:
    """Which records are out of order because a backfill or a repair has appended them."""
    appended = [row for row in rows if row["since"] is not None]
    runs = Counter[str]()
    for finding in proposal.findings:
        runs += appended_counts(finding, (row for row in appended if _is_of(row, finding)))
    for run, records in runs.items():
        said = f"{records:,} of them are where {run} has appended them, as the ledger says."
        yield Choice("none", (said,))


def _is_of(row: Mapping[str, Any], finding: Finding) -> bool:
    names = (row["topic"], row["partition"], row["remote_topic"])
    return names == (finding.topic, finding.partition, finding.remote_topic)
