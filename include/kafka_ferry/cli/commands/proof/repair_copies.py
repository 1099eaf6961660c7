"""What ``ferry repair`` shows of copies, and which of them it gives up."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, NamedTuple

import typer

from kafka_ferry.cli.terminal import out, show_json, show_table, warn
from kafka_ferry.errors import FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.plan.offsets.log_check import CopyState, PartitionState

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.model.remarks import Refusal

DAMAGED: Final = 2


class Doubts(NamedTuple):
    """What speaks against copies whose own logs are whole.

    Attributes:
        refusals: what the next run refuses besides the damaged copies.
        unproved: the *target* partitions that the newest verification could not prove.
        failed: that it failed, and why; "" where it did not.
    """

    refusals: Sequence[Refusal] = ()
    unproved: AbstractSet[TopicPartition] = frozenset()
    failed: str = ""


_NONE: Final = Doubts()


def show_copies(flow: Flow, names: list[str], *, yes: bool, as_json: bool) -> None:
    """Show what is wrong with remote topics, or give them up; exits with 2 while any is damaged or in doubt."""
    from kafka_ferry.runs import Repair
    from kafka_ferry.runs.state.newest_verification import newest_verification

    repair = Repair(flow)
    states = repair.look(names)
    verification = newest_verification(flow)
    doubts = Doubts(
        [] if yes else _other_refusals(flow, names, states),
        repair.still_there(verification.failed_partitions()) if verification else frozenset(),
        verification.text if verification else "",
    )
    # A topic that no run could copy again is given up only if it is named.
    chosen = [state for state in states if names or (state.damaged and state.on_source)]
    if not as_json:
        show_states(states, doubts)
        for state in states:
            if state.damaged or state in chosen:
                consequences = state.consequences(yes=yes and state in chosen)
                out.print(consequences, style="yellow")
    if yes and chosen:
        given_up = {state.remote_topic: state for state in repair.give_up(chosen)}
        states = [given_up.get(state.remote_topic, state) for state in states]
    if as_json:
        _show_as_json(states, doubts)
    for error in repair.refused.values():
        raise error
    given = {state.remote_topic for state in states if state.given_up}
    left = {
        tp for tp in doubts.unproved if tp.topic not in given and (not names or tp.topic in names)
    }
    if left or doubts.refusals or any(state.damaged and not state.given_up for state in states):
        raise typer.Exit(DAMAGED)


def _show_as_json(states: Sequence[CopyState], doubts: Doubts) -> None:
    unproved = {
        state.remote_topic: sorted(
            tp.partition for tp in doubts.unproved if tp.topic == state.remote_topic
        )
        for state in states
    }
    listed = [
        asdict(state) | {"damaged": state.damaged, "unproved": unproved[state.remote_topic]}
        for state in states
    ]
    show_json([listed], several=False)
    for warning in (doubts.failed, *(f"REFUSED {refusal}" for refusal in doubts.refusals)):
        if warning:
            warn(warning)


def _other_refusals(flow: Flow, names: Sequence[str], states: Sequence[CopyState]) -> list[Refusal]:
    """What the next run refuses besides the damaged copies; of all topics where ``names`` is empty."""
    from kafka_ferry.runs import Run

    try:
        refused = Run(flow, "repair").plan(save=False).remarks.refused
    except FerryError as error:
        warn(f"What the next run refuses is unknown, since it cannot be planned: {error}")
        return []
    damaged = {state.topic for state in states if state.damaged}
    named = {state.topic for state in states}
    return [
        refusal
        for refusal in refused
        if refusal.topic not in damaged and (not names or refusal.topic in named)
    ]


def show_states(states: Sequence[CopyState], doubts: Doubts = _NONE) -> None:
    """Print a table of the copies, and a line for each damage and refusal."""
    if doubts.failed:
        out.print(f"{doubts.failed} --findings shows all of it, and what to do.", style="yellow")
    if states:
        _show_table(states, doubts)
    elif doubts.refusals:
        out.print("No copy is damaged, but the next run refuses:")
    else:
        nothing = "no remote topic has preserved offsets, and the next run refuses none."
        out.print(
            f"{nothing[0].upper()}{nothing[1:]}"
            if doubts.failed
            else f"Nothing to repair: {nothing} --findings shows what the last verification found."
        )
    for refusal in doubts.refusals:
        out.print(f"REFUSED {refusal}", style="red")


def _show_table(states: Sequence[CopyState], doubts: Doubts) -> None:
    refused = {(refusal.topic, refusal.partition) for refusal in doubts.refusals}

    def status(state: CopyState, partition: PartitionState) -> str:
        number = partition.partition
        if refused & {(state.topic, None), (state.topic, number)}:
            return "refused"
        is_unproved = TopicPartition(state.remote_topic, number) in doubts.unproved
        return "NOT PROVED" if is_unproved and partition.said == "ok" else partition.said

    numbers = ("PARTITION", "POSITION", "LOG")
    rows: list[tuple[object, ...]] = []
    for state in states:
        cells: list[tuple[object, ...]] = [
            (it.partition, it.position, it.log, status(state, it)) for it in state.partitions
        ]
        for *row, shown in cells or [(None, None, None, "ok")]:
            rows.append((state.remote_topic, *row, "DAMAGED" if state.problem else shown))
    show_table(("REMOTE TOPIC", *numbers, "STATE"), rows, numbers=numbers)
    for state in states:
        for damage in state.damages:
            out.print(f"DAMAGED {damage}", style="red")
