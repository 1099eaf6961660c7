"""The command line: what the DAG's tasks do, without Airflow."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.errors import FerryError
from kafka_ferry.plan.plan import PLAINLY_TRANSLATED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_ferry.plan import Plan
    from kafka_ferry.plan.damage import CopyState
    from kafka_ferry.report import RunReport

app = typer.Typer(
    help="Copies Kafka clusters into other Kafka clusters, and proves that each copy is complete.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
# Lines are not broken: they hold paths and sentences that people copy and programs search.
out = Console(soft_wrap=True)
messages = Console(stderr=True, soft_wrap=True)

DAMAGED = 2

ConfigOption = Annotated[
    Path, typer.Option("--config", help="The flow's file: YAML, or MirrorMaker 2's properties.")
]
FlowOption = Annotated[
    str | None, typer.Option("--flow", help="Which flow, as source->target, if there are several.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@app.command()
def plan(config: ConfigOption, flow: FlowOption = None, as_json: JsonOption = False) -> None:
    """Show what a run would do; changes nothing on either cluster."""
    from kafka_ferry.runs import Run

    planned = Run(_load(config, flow), "plan").plan(save=False)
    if as_json:
        print(planned.to_json())
    else:
        _show_plan(planned)


@app.command()
def run(
    config: ConfigOption,
    flow: FlowOption = None,
    run_id: Annotated[
        str | None, typer.Option("--run-id", help="The run to repeat; without it, a new one.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Plan, create topics, copy, verify and publish; exits with 0 only if all of it is proved."""
    from kafka_ferry.runs import Run
    from kafka_ferry.runs.progress import copying
    from kafka_ferry.spark.session import terminal_session

    loaded = _load(config, flow)
    this = Run(loaded, run_id or f"cli__{datetime.now(UTC).isoformat(timespec='seconds')}")
    this.plan()
    planned = this.sync_topics()
    messages.print(f"{loaded.name}, run {this.run_id}: {_summary(planned)}")
    session = terminal_session(f"ferry {loaded.name}")
    try:
        # What a step raises is in its record: the others do what they still can, publish tells.
        with suppress(FerryError), copying(loaded, planned, messages, hidden=as_json):
            this.mirror(session)
        with suppress(FerryError):
            this.verify(session)
    finally:
        session.stop()
    try:
        this.publish()
    finally:
        report = this.report()
        if report and as_json:
            print(report.to_json())
        elif report:
            _show_report(report, this.report_path)


@app.command()
def verify(
    config: ConfigOption,
    flow: FlowOption = None,
    run_id: Annotated[
        str | None, typer.Option("--run-id", help="The run to verify (again); else the newest.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read the target back and judge a run, and whatever nobody has verified before."""
    from kafka_ferry.runs import Run
    from kafka_ferry.spark.session import terminal_session

    loaded = _load(config, flow)
    this = Run(loaded, run_id) if run_id else Run.latest(loaded)
    session = terminal_session(f"ferry verify {loaded.name}")
    try:
        verdict = this.verify(session)
    finally:
        session.stop()
    if as_json:
        print(verdict.to_json())
    else:
        found = f"{verdict.records:,} records in {verdict.ranges:,} ranges"
        out.print(f"verified: {found} ({this.run_id})", markup=False)
        for warning in verdict.warnings:
            out.print(f"WARNING {warning}", style="yellow", markup=False)


@app.command()
def lag(config: ConfigOption, flow: FlowOption = None, as_json: JsonOption = False) -> None:
    """Show how far each partition of the target is behind its source."""
    from kafka_ferry.runs import lag as lag_of

    rows = lag_of(_load(config, flow))
    if as_json:
        print(json.dumps([asdict(row) | {"lag": row.lag} for row in rows], indent=1))
        return
    table = Table("TOPIC", box=None, pad_edge=False)
    for column in ("PARTITION", "POSITION", "LOG-END", "LAG"):
        table.add_column(column, justify="right")
    for row in rows:
        position = "-" if row.position is None else str(row.position)
        table.add_row(row.topic, str(row.partition), position, str(row.log_end), str(row.lag))
    out.print(table)


@app.command()
def repair(
    config: ConfigOption,
    flow: FlowOption = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", help="A remote topic, as it is named on the target; repeatable."),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Give up the topics named, or else all that are damaged: DELETES them on the "
            "target, and the next run copies what the source still has.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what is wrong with remote topics whose offsets are preserved; changes nothing without --yes."""
    from kafka_ferry.runs import Repair

    named = topic or []
    this = Repair(_load(config, flow))
    states = this.look(named)
    # What nobody could copy again is only given up by its name.
    chosen = [state for state in states if named or (state.damaged and state.on_source)]
    if not as_json:
        _show_copies(states)
        for state in states:
            if state.damaged or state in chosen:
                said = state.consequences(yes=yes and state in chosen)
                out.print(said, style="yellow", markup=False)
    if yes and chosen:
        given_up = {state.remote_topic: state for state in this.give_up(chosen)}
        states = [given_up.get(state.remote_topic, state) for state in states]
    if as_json:
        print(
            json.dumps([asdict(state) | {"damaged": state.damaged} for state in states], indent=1)
        )
    if any(state.damaged and not state.given_up for state in states):
        raise typer.Exit(DAMAGED)


def main() -> None:
    """Run the command line; an error of ours ends it with its own exit status."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    try:
        app()
    except FerryError as error:
        messages.print(f"ERROR: {error}", style="red", markup=False, highlight=False)
        sys.exit(error.exit_code)


def _load(config: Path, name: str | None) -> Flow:
    flow = load_flow(config.absolute(), name)
    if flow.ignored:
        keys = ", ".join(flow.ignored)
        messages.print(f"{config}: without meaning here, ignored: {keys}", markup=False)
    return flow


def _summary(planned: Plan) -> str:
    return (
        f"{planned.offsets:,} offsets in {sum(map(bool, map(len, planned.ranges))):,} partitions, "
        f"{len(planned.creations)} topics to create, {len(planned.refused)} refused"
    )


def _show_plan(planned: Plan) -> None:
    out.print(f"{planned.flow}: {_summary(planned)}", markup=False)
    ranges = Table("TOPIC", "PARTITION", "START", "END", "OFFSETS", "REMOTE TOPIC", box=None)
    for range_ in planned.ranges:
        numbers = (range_.partition, range_.start, range_.end, len(range_))
        ranges.add_row(range_.topic, *map(str, numbers), range_.remote_topic)
    if planned.ranges:
        out.print(ranges)
    _show_choices(planned)
    for creation in planned.creations:
        configs = ", ".join(f"{key}={value}" for key, value in creation.configs.items())
        out.print(
            f"create {creation.remote_topic}: {creation.partitions} partitions {configs}",
            markup=False,
        )
    for growth in planned.growths:
        out.print(f"grow {growth.remote_topic} to {growth.partitions} partitions", markup=False)
    _show_notes(planned.notes)
    for refusal in planned.refused:
        out.print(f"REFUSED {refusal}", style="red", markup=False)
    for skipped in planned.skipped:
        out.print(f"skip {skipped.topic}: {skipped.reason}", style="dim", markup=False)


def _show_choices(planned: Plan) -> None:
    """How offsets are kept, where that is not the same for every topic anyway."""
    if all(choice.reason == PLAINLY_TRANSLATED for choice in planned.choices):
        return
    table = Table("TOPIC", "OFFSETS", "WHY", "GAPS", "TO PASS OVER THEM", box=None)
    for choice in planned.choices:
        kept = "preserved" if choice.preserved else "translated"
        costs = (f"{choice.gaps:,}", f"{choice.fill_ms / 1000:,.1f} s")
        table.add_row(
            choice.topic, kept, escape(choice.reason), *(costs if choice.preserved else ("-", "-"))
        )
    out.print(table)
    for acl in planned.advised_acls:
        out.print(f"advised: {acl}", style="dim", markup=False)


def _show_notes(notes: Iterable[object]) -> None:
    for note in notes:
        out.print(f"NOTE {note}", style="yellow", markup=False)


def _show_copies(states: Iterable[CopyState]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("REMOTE TOPIC", overflow="fold")
    for column in ("PARTITION", "POSITION", "LOG"):
        table.add_column(column, justify="right")
    table.add_column("STATE")
    for state in states:
        if not state.partitions:
            table.add_row(state.remote_topic, "-", "-", "-", "DAMAGED" if state.problem else "ok")
        for part in state.partitions:
            position = "-" if part.position is None else str(part.position)
            log = "-" if part.log_end is None else f"{part.log_start}-{part.log_end}"
            said = "DAMAGED" if state.problem else part.said
            table.add_row(state.remote_topic, str(part.partition), position, log, said)
    out.print(table)
    for state in states:
        for damage in state.damages:
            out.print(f"DAMAGED {damage}", style="red", markup=False)


def _show_report(report: RunReport, page: Path | None) -> None:
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in report.reasons.items())
    out.print(f"copied:   {report.records:,} records, {report.bytes:,} bytes", markup=False)
    if reasons:
        out.print(f"without a record on the target: {reasons}", markup=False)
    _show_notes(report.notes)
    for loss in report.losses:
        out.print(f"LOST {loss}", style="yellow", markup=False)
    if report.dead_lettered:
        letters = f"{report.dead_lettered:,} records went to {report.dead_letter_topic}"
        out.print(f"DEAD LETTERS {letters}", style="yellow", markup=False)
    if report.verdict:
        found = f"{report.verdict.records:,} records in {report.verdict.ranges:,} ranges"
        out.print(f"{report.state}: {found}", markup=False)
    if page:
        out.print(f"report:   {page}", markup=False)
