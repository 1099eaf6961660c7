"""``ferry repair``: shows which copies with preserved offsets are damaged, and gives them up."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Final

import typer

from kafka_ferry.cli.flows import one_flow
from kafka_ferry.cli.options import ConfigOption, JsonOption, OneFlowOption
from kafka_ferry.cli.terminal import out, plain_table, show_table
from kafka_ferry.plan.offsets.log_check import CopyState

DAMAGED: Final = 2


def repair(
    config: ConfigOption,
    flow: OneFlowOption = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", help="A remote topic, by its name on the target; repeatable."),
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
    """Show what is wrong with remote topics whose offsets are preserved; change nothing without --yes."""
    from kafka_ferry.runs import Repair

    named = topic or []
    this = Repair(one_flow(config, flow))
    states = this.look(named)
    # A topic that no run could copy again is given up only if it is named.
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


def _show_copies(states: Iterable[CopyState]) -> None:
    numbers = ("PARTITION", "POSITION", "LOG")
    table = plain_table("REMOTE TOPIC", *numbers, "STATE", numbers=numbers)
    for state in states:
        if not state.partitions:
            table.add_row(state.remote_topic, "-", "-", "-", "DAMAGED" if state.problem else "ok")
        for part in state.partitions:
            position = "-" if part.position is None else str(part.position)
            log = "-" if part.log_end is None else f"{part.log_start}-{part.log_end}"
            said = "DAMAGED" if state.problem else part.said
            table.add_row(state.remote_topic, str(part.partition), position, log, said)
    show_table(table)
    for state in states:
        for damage in state.damages:
            out.print(f"DAMAGED {damage}", style="red", markup=False)
