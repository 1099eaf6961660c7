"""``ferry repair``: shows what is damaged, and carries out what a person has decided about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kafka_ferry.cli.commands.proof.repair_copies import DAMAGED, show_copies
from kafka_ferry.cli.flows import one_flow
from kafka_ferry.cli.options import FLOW_FILE, JsonOption, OneFlowOption, place_of
from kafka_ferry.cli.repair_options import (
    AppendOption,
    AuditOption,
    FindingsOption,
    LeaveOption,
    LedgerOption,
    OptionalConfigOption,
    ReasonOption,
    SetAsideOption,
    TopicOption,
    YesOption,
)
from kafka_ferry.cli.terminal import out, show_json
from kafka_ferry.errors import FerryError

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.runs.repair.append_missing import AppendProposal
    from kafka_ferry.runs.repair.findings import CheckFinding, RangeFinding
    from kafka_ferry.runs.repair.ledger_records import LedgerRecord


def repair(
    config: OptionalConfigOption = None,
    flow: OneFlowOption = None,
    topic: TopicOption = None,
    *,
    yes: YesOption = False,
    findings: FindingsOption = False,
    leave: LeaveOption = None,
    audit: AuditOption = None,
    append: AppendOption = None,
    ledger: LedgerOption = False,
    set_aside: SetAsideOption = None,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show what is wrong with remote topics whose offsets are preserved, or with --findings what the last
    verification found; change nothing without --yes.
    """
    _require_one(
        {
            "--topic": topic,
            "--findings or --leave": findings or leave,
            "--append": append,
            "--ledger or --set-aside": ledger or set_aside,
            "--audit": audit,
        }
    )
    if audit:
        _show_audit(audit, config, flow, as_json=as_json)
        return
    this_flow = one_flow(config or FLOW_FILE, flow)
    if append:
        _append(this_flow, append, reason, yes=yes, as_json=as_json)
    elif ledger or set_aside:
        _show_ledger(this_flow, set_aside or [], reason, yes=yes, as_json=as_json)
    elif findings or leave:
        _show_findings(this_flow, leave or [], reason, yes=yes, as_json=as_json)
    else:
        show_copies(this_flow, topic or [], yes=yes, as_json=as_json)


def _require_one(requests: Mapping[str, object]) -> None:
    """Check that at most one of the requests is made: the others would be passed over silently."""
    made = [option for option, value in requests.items() if value]
    if len(made) > 1:
        raise typer.BadParameter(f"{' and '.join(made)} are separate requests: make one at a time.")


def _show_findings(flow: Flow, names: list[str], reason: str, *, yes: bool, as_json: bool) -> None:
    """Show a verification's findings, or leave those that are named; exits with 2 while any is left to decide."""
    from kafka_ferry.runs.repair.findings import Findings

    if names:
        _require_reason(reason)
    findings = Findings(flow)
    listed = findings.of_ranges()
    of_checks = [] if names else findings.of_checks()
    findings.require(names)
    left = {finding.name for finding in findings.leave(names, reason)} if names and yes else set()
    if as_json:
        show_json(
            [
                [
                    *(asdict(entry) | {"left": entry.name in left} for entry in listed),
                    *map(asdict, of_checks),
                ]
            ],
            several=False,
        )
    else:
        for finding in listed:
            if not names or finding.name in names:
                _show_finding(finding, is_left=finding.name in left)
        for check in of_checks:
            _show_check(check)
        if not (listed or of_checks):
            out.print(f"The verification of {findings.run_id} found nothing that is wrong.")
    if of_checks or any(finding.name not in left for finding in listed):
        raise typer.Exit(DAMAGED)


def _show_ledger(flow: Flow, offsets: list[int], reason: str, *, yes: bool, as_json: bool) -> None:
    """Show a ledger's unreadable records, or set those aside that are named; exits with 2 while any is left."""
    from kafka_ferry.runs.repair.ledger_records import LedgerRecords

    if offsets:
        _require_reason(reason)
    records = LedgerRecords(flow)
    if offsets and yes:
        records.set_aside(offsets, reason)
    listed = records.unreadable()
    if as_json:
        show_json([[asdict(entry) for entry in listed]], several=False)
    else:
        for record in listed:
            _show_record(record, is_named=record.offset in offsets)
        if not listed:
            out.print(f"Every record of {records.topic} can be read.")
    if any(not record.is_aside for record in listed):
        raise typer.Exit(DAMAGED)


def _show_record(record: LedgerRecord, *, is_named: bool) -> None:
    size = f"{record.size:,} bytes"
    out.print(f"{record.why} It has {size}.", style="" if record.is_aside else "yellow")
    if record.is_newer:
        out.print("  It looks like a record of a newer release: install that one instead.")
    for hidden in record.hides:
        out.print(f"  It may have said what became of {hidden}: a run refuses that partition then.")
    if not record.hides:
        out.print(
            "  It hides nothing that was copied: all ranges of the flow join, up to its positions."
        )
    if record.is_aside:
        out.print("  It is set aside.")
    elif is_named:
        out.print("  With --yes, all flows of this ledger pass over it from here on.")
    else:
        out.print(f"  --set-aside {record.offset} --reason ... --yes has all flows pass over it.")


def _show_audit(file: Path, config: Path | None, flow: str | None, *, as_json: bool) -> None:
    """Show what can be done about an audit's findings; exits with 2 while there are any."""
    from kafka_ferry.audit.proposals import proposals, sentences
    from kafka_ferry.audit.result import AuditReport
    from kafka_ferry.runs.repair.audit_findings import own_proposals

    report = AuditReport.from_json(file.read_bytes())
    proposed = (
        own_proposals(one_flow(config, flow), report, str(config)) if config else proposals(report)
    )
    if as_json:
        show_json([[asdict(entry) for entry in proposed]], several=False)
    else:
        for proposal in proposed:
            for line in sentences(proposal):
                out.print(line)
        if not proposed:
            out.print(f"The audit {report.audit} has no findings.")
    if proposed:
        raise typer.Exit(DAMAGED)


def _require_reason(reason: str) -> None:
    if not reason.strip():
        raise typer.BadParameter("must say why, for the ledger.", param_hint="--reason")


def _append(flow: Flow, names: list[str], reason: str, *, yes: bool, as_json: bool) -> None:
    """Show what appending comes to, or do it; exits with 2 while any of it is left to decide."""
    from kafka_ferry.runs.repair.append_missing import AppendMissing

    if yes:
        _require_reason(reason)
    entries, decided = [], True
    for source, offset in map(place_of, names):
        # One after the other: each proposal counts what the one before it has appended.
        appender = AppendMissing(flow)
        proposal = appender.proposal(source, offset)
        if not as_json:
            _show_proposal(proposal)
        # One that is refused stops none of the others; nor does what an interrupted command has done already.
        is_left = not (proposal.refusal or proposal.is_done)
        done = appender.append(proposal, reason) if yes and is_left else None
        decided = decided and (proposal.is_done or done is not None)
        if done and not as_json:
            at = f" at the offsets {done.start} to {done.end - 1}" if done.records else ""
            what = f"appended {done.records} records to {done.target}{at}"
            out.print(f"  {what}; the ledger has it, and they were read back.")
        entries.append(
            {
                "name": proposal.name,
                "refusal": proposal.refusal,
                "consequences": proposal.consequences,
                "records": proposal.records,
                "unavailable": proposal.unavailable,
                "is_done": proposal.is_done,
                "appended": asdict(done) if done else None,
            }
        )
    if as_json:
        show_json([entries], several=False)
    if refused := [entry for entry in entries if yes and entry["refusal"]]:
        why = "; ".join(f"{entry['name']}: {entry['refusal']}" for entry in refused)
        raise FerryError(f"Not everything can be appended: {why}")
    if not decided:
        raise typer.Exit(DAMAGED)


def _show_proposal(proposal: AppendProposal) -> None:
    if proposal.refusal:
        out.print(f"{proposal.name} cannot be appended: {proposal.refusal}")
        return
    out.print(f"{proposal.name}:")
    for sentence in proposal.consequences:
        out.print(f"  - {sentence}")


def _show_finding(finding: RangeFinding, *, is_left: bool) -> None:
    for problem in finding.problems:
        state = "DAMAGED" if finding.is_read else "NOT READ"
        out.print(f"{state} {finding.range}: {problem}", style="red")
    where = f"run {finding.run}, ledger offset {finding.ledger_offset}, {finding.remote_topic}"
    out.print(f"  copied by {where}")
    if is_left:
        out.print("  left as it is: the ledger has it.")
        return
    if finding.leave:
        out.print(f"  --leave {finding.name} --reason ... --yes: {finding.leave}")
    if finding.append:
        out.print(f"  --append {finding.name} --reason ... --yes: {finding.append}")
    if finding.no_append:
        out.print(f"  It cannot be appended: {finding.no_append}")
    if finding.rebuild:
        out.print(f"  {finding.rebuild}")


def _show_check(finding: CheckFinding) -> None:
    for problem in finding.problems:
        out.print(f"NOT PROVED {problem}", style="red")
    if finding.advice:
        out.print(f"  What to do: {finding.advice}")
    for text in finding.more:
        out.print(f"  {text}")
