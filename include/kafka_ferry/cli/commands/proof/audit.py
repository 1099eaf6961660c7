"""``ferry audit``: compares topics on two clusters, whichever mirror filled the second one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from kafka_ferry.cli.audit_options import (
    AuditJsonOption,
    BlockOption,
    FileOption,
    FromOption,
    IsolationOption,
    LagOption,
    MapOption,
    OutputOption,
    PolicyOption,
    ResumeOption,
    SampleOption,
    SourceAliasOption,
    SourceConfigOption,
    TargetConfigOption,
    UntilMomentOption,
    topic_and_name,
)
from kafka_ferry.cli.commands.backfill import moment_ms
from kafka_ferry.cli.flows import one_flow
from kafka_ferry.cli.options import FLOW_FILE, OneFlowOption, RateOption, TopicsOption, run_options
from kafka_ferry.cli.terminal import show_json, warn
from kafka_ferry.config import Flow

if TYPE_CHECKING:
    from kafka_ferry.audit.result import AuditReport, AuditState
    from kafka_ferry.audit.terms import AuditTerms
    from kafka_ferry.config import IsolationLevelName
    from kafka_ferry.runs.audit.audit import Audit

EXIT_STATUS: Final[dict[AuditState, int]] = {
    "same": 0,
    "differs": 2,
    "nothing": 7,
    "not compared": 7,
}
_POLICIES: Final = {
    "default": "DefaultReplicationPolicy",
    "identity": "IdentityReplicationPolicy",
}


def audit(
    config: FileOption = None,
    flow: OneFlowOption = None,
    source_config: SourceConfigOption = None,
    target_config: TargetConfigOption = None,
    *,
    source_alias: SourceAliasOption = "source",
    policy: PolicyOption = "default",
    topics: TopicsOption = None,
    names: MapOption = None,
    since: FromOption = None,
    until: UntilMomentOption = None,
    sample: SampleOption = 1,
    isolation: IsolationOption = "",
    lag: LagOption = 0,
    rate: RateOption = 0,
    block: BlockOption = 10_000,
    resume: ResumeOption = False,
    output: OutputOption = None,
    as_json: AuditJsonOption = False,
) -> None:
    """Compare topics on two clusters record by record, whichever mirror filled the second one; needs no ledger.

    Exits with 0 only if everything was compared and is the same, with 2 if anything differs, and with 7 if
    nothing differs but something could not be compared, or nothing was there to compare.
    """
    chosen = _flow(config, flow, source_config, target_config, source_alias, policy)
    terms = _terms(since, until, sample, isolation or chosen.isolation_level, rate, block)
    from kafka_ferry.runs.audit.audit import Audit
    from kafka_ferry.runs.audit.request import AuditRequest

    request = AuditRequest(
        terms,
        run_options(topics).topics,
        dict(map(topic_and_name, names or ())),
        lag_ms=lag,
        paired_only=config is None,
    )
    report = _audit(Audit(chosen, request), resume=resume, output=output, as_json=as_json)
    raise typer.Exit(EXIT_STATUS[report.state])


def _audit(audit: Audit, *, resume: bool, output: Path | None, as_json: bool) -> AuditReport:
    from kafka_ferry.cli.audit_view import comparison_bar, show_audit
    from kafka_ferry.runs.audit.output import write_to
    from kafka_ferry.spark.session import terminal_spark

    with terminal_spark(f"ferry audit {audit.flow.name}") as spark:
        plan = audit.plan(resume=resume)
        for note in audit.notes:
            warn(note)
        with comparison_bar(audit.flow.name, hidden=as_json) as progress:
            report = audit.compare(plan, spark, progress)
    if output:
        write_to(output, report)
    if as_json:
        show_json([_as_json(report)], several=False)
    else:
        show_audit(report, audit.folder.page)
    return report


def _as_json(report: AuditReport) -> dict[str, Any]:
    """The report with its conclusions."""
    document: dict[str, Any] = json.loads(report.to_json())
    for part, row in zip(report.partitions, document["partitions"], strict=True):
        row["state"] = part.state
    return document | {
        "state": report.state,
        "headline": report.headline,
        "found": report.found,
        "statements": list(report.statements),
    }


def _flow(
    config: Path | None,
    flow: str | None,
    source: Path | None,
    target: Path | None,
    alias: str,
    policy: str,
) -> Flow:
    if config is None and not (source or target) and FLOW_FILE.exists():
        config = FLOW_FILE
    if config:
        if source or target:
            raise typer.BadParameter(
                "Give either --config, or --source-config and --target-config."
            )
        return one_flow(config, flow)
    if not source or not target:
        raise typer.BadParameter("Give --config, or both --source-config and --target-config.")
    if flow:
        raise typer.BadParameter("--flow goes with --config.")
    from kafka_ferry.config.files.client_files import flow_of_clients

    client_flow, remarks = flow_of_clients(
        source, target, source_alias=alias, policy=_POLICIES.get(policy, policy)
    )
    for file, remark in remarks:
        warn(f"NOTE {file}: {remark}")
    return client_flow


def _terms(
    since: str | None,
    until: str | None,
    sample: int,
    isolation: str,
    rate: int,
    block: int,
) -> AuditTerms:
    from kafka_ferry.audit.terms import AuditTerms

    first = moment_ms("--from", since) if since else None
    after = moment_ms("--to", until) if until else None
    if first is not None and after is not None and first >= after:
        raise typer.BadParameter(f"--to {until} is not after --from {since}.")
    level: IsolationLevelName = (
        "read_uncommitted" if isolation == "read_uncommitted" else "read_committed"
    )
    return AuditTerms(level, first, after, one_in=sample, block=block, bytes_per_s=rate)
