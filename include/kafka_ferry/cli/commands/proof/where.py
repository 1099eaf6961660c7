"""``ferry where``: where a single record of the source is on the target, and how it got there."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kafka_ferry.cli.flows import one_flow_within
from kafka_ferry.cli.options import ConfigOption, JsonOption, OneFlowOption, TimeoutOption
from kafka_ferry.cli.terminal import out, show_json, warn
from kafka_ferry.clock import moment_text
from kafka_ferry.config.types.problems import did_you_mean
from kafka_ferry.errors import InputError
from kafka_ferry.model import TopicPartition

if TYPE_CHECKING:
    from kafka_ferry.runs.where import Whereabouts

NO_ANSWER: Final = 2
_UNPROVED: Final = "not yet: no run has been verified as a whole since"
_REASONS: Final = {"lost": "lost, the source had deleted it before it was copied"}

TopicOption = Annotated[str, typer.Option("--topic", help="The topic, by its name on the source.")]
PartitionOption = Annotated[
    int, typer.Option("--partition", min=0, max=2**31 - 1, help="The partition.")
]
OffsetOption = Annotated[
    int, typer.Option("--offset", min=0, max=2**63 - 1, help="The offset on the source.")
]


def where(
    config: ConfigOption,
    topic: TopicOption,
    partition: PartitionOption,
    offset: OffsetOption,
    flow: OneFlowOption = None,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show where a record of the source is on the target, which run copied it, and when it was proved.

    Exits with 2 if no run has accounted for the offset.
    """
    from kafka_ferry.runs.state.step_time import step_time
    from kafka_ferry.runs.where import ledger_partitions, log_start, next_offset, where

    chosen, source = one_flow_within(timeout, config, flow), TopicPartition(topic, partition)
    with step_time(chosen):
        whereabouts = where(chosen, source, offset)
    if as_json:
        show_json([[asdict(one) for one in whereabouts]], several=False)
    for one in () if as_json else whereabouts:
        _show(one)
    copied = {} if whereabouts else ledger_partitions(chosen)
    if not whereabouts and topic not in copied:
        raise InputError(
            f"{chosen.name} has copied no topic {topic}.",
            advice=did_you_mean(topic, copied)
            or "Name it as the source does; `ferry plan` says whether the flow copies or refuses it.",
        )
    if not whereabouts:
        following = next_offset(chosen, source)
        some = copied[topic]
        clause = "" if partition in some else f", but partitions {min(some)} to {max(some)}"
        if following is None:
            known = f"nothing of it{clause}"
        elif offset < following:
            known = f"other offsets of it, up to {following}"
        else:
            known = f"it up to offset {following}"
        start = log_start(chosen, source)
        gone = ""
        if start is not None and offset < start:
            gone = (
                f" {chosen.source.alias} has deleted it: its log starts at {start}, and no run can copy what was "
                "before."
            )
        warn(
            f"No run of {chosen.name} has accounted for offset {offset} of {source}: the ledger has {known}.{gone}"
        )
        raise typer.Exit(NO_ANSWER)


def _show(one: Whereabouts) -> None:
    if one.target_offset is None:
        place = f"no record on {one.target}: {_REASONS.get(one.reason, one.reason)}"
    else:
        place = f"{one.target} offset {one.target_offset}, {one.state}"
    proof = "no" if one.state == "topic deleted" else _UNPROVED
    if one.proof:
        proof = f"{moment_text(one.proof.at)}, run {one.proof.run}"
        if one.state == "expired":
            # What had expired before its proof was read by no run, and the ledger does not say which that was.
            proof += ", unless it had expired by then"
    if one.window and one.certificate and not one.proof:
        proof = "by its certificate"
    lines = {
        "on the target": place,
        "accounted for"
        if one.target_offset is None
        else "copied": f"{moment_text(one.at)}, run {one.run}, writer {one.writer}",
        "transaction": f"the ledger's offset {one.ledger_offset}",
        "proved": proof,
        "certificate": str(one.certificate or "none"),
    }
    if one.is_former:
        lines["source"] = "a former topic of this name, which was deleted since"
    elif one.is_replaced:
        lines["source"] = (
            "its log was truncated below this offset since: it has another record there, or none"
        )
    if one.window:
        lines["backfill"] = str(one.window)
    for name, text in lines.items():
        out.print(f"{name + ':':<15}{text}")
