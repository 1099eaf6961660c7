"""``ferry takeover``: continues where MirrorMaker 2 or MirrorMaker 1 stopped, or gives topics back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from kafka_ferry.cli.flows import one_flow
from kafka_ferry.cli.options import ConfigOption, JsonOption, OneFlowOption
from kafka_ferry.cli.terminal import out, show_json, show_table

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.model.takeover import TopicHandover

REFUSED: Final = 2
_WAY_OUT: Final = (
    "Leave what is refused to MirrorMaker (topics.exclude), or delete it on the target, and the flow copies it. "
    "`ferry audit` shows all that differs."
)


def takeover(
    config: ConfigOption,
    flow: OneFlowOption = None,
    from_: Annotated[
        Literal["mm2", "mm1"] | None,
        typer.Option("--from", help="Take over from MirrorMaker 2 or MirrorMaker 1."),
    ] = None,
    to: Annotated[
        Literal["mm2"] | None, typer.Option("--to", help="Give back to MirrorMaker 2.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", help="The group.id of MirrorMaker 1's consumers on the source."),
    ] = None,
    positions_topic: Annotated[
        str,
        typer.Option(
            "--positions-topic",
            help="Connect's topic with its offsets (offset.storage.topic) on the target; by default "
            "that of MirrorMaker 2's dedicated mode, mm2-offsets.SOURCE.internal.",
        ),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Compare everything; change nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Continue in topics that another mirror has filled, without gap or duplicate; or give them back to it."""
    if (from_ is None) == (to is None):
        raise typer.BadParameter("Give either --from or --to.")
    if (from_ == "mm1") != (group is not None):
        raise typer.BadParameter("--group goes with --from mm1, and --from mm1 with --group.")
    from kafka_ferry.runs.state.step_time import step_time
    from kafka_ferry.runs.takeover.hand_back import hand_back

    chosen = one_flow(config, flow)
    with step_time(chosen):
        topics = (
            hand_back(chosen, dry_run=dry_run, positions_topic=positions_topic)
            if to
            else _take_over(chosen, group, positions_topic, dry_run=dry_run)
        )
    if as_json:
        show_json([[asdict(topic) for topic in topics]], several=False)
    else:
        _show(topics)
    if any(topic.state == "refused" for topic in topics):
        raise typer.Exit(REFUSED)


def _take_over(
    flow: Flow, group: str | None, positions_topic: str, *, dry_run: bool
) -> list[TopicHandover]:
    from kafka_ferry.runs.takeover.takeover import Takeover

    takeover = Takeover(flow)
    if group is not None:
        return takeover.from_mirrormaker1(group, dry_run=dry_run)
    return takeover.from_mirrormaker2(dry_run=dry_run, positions_topic=positions_topic)


def _show(topics: Sequence[TopicHandover]) -> None:
    numbers = ("PARTITION", "POSITION", "GOES-ON-AT", "COMPARED", "TWICE", "UNKNOWN")
    rows: list[tuple[object, ...]] = []
    for topic in topics:
        cells: list[tuple[object, ...]] = [
            (
                partition.partition,
                partition.position,
                partition.end,
                partition.compared,
                partition.doubled,
                partition.unknown,
            )
            for partition in topic.partitions
        ]
        rows += [(topic.remote_topic, *row, topic.state) for row in cells or [(None,) * 6]]
    show_table(("TOPIC", *numbers, "STATE"), rows, numbers=numbers)
    for topic in topics:
        if topic.reason:
            sentence = f"{topic.state.upper()} {topic.remote_topic}: {topic.reason}"
            style = "red" if topic.state == "refused" else "yellow"
            out.print(sentence, style=style)
    if any(topic.state == "refused" for topic in topics):
        out.print(_WAY_OUT)
