"""``ferry translate``: shows which offsets on the other cluster correspond to offsets and groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kafka_ferry.cli.flows import one_flow_within
from kafka_ferry.cli.options import ConfigOption, JsonOption, OneFlowOption, TimeoutOption
from kafka_ferry.cli.terminal import out, show_json, show_table, warn
from kafka_ferry.errors import GroupsFailed
from kafka_ferry.model import TopicPartition
from kafka_ferry.printable import one_line

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.groups.moves import GroupMoves
    from kafka_ferry.groups.spark.rewrite import Rewritten
    from kafka_ferry.runs.sync_groups.translate import TranslatedOffset

NO_ANSWER: Final = 2
_NUMBERS: Final = ("PARTITION", "OFFSET", "LAG", "TO OFFSET")

GroupOption = Annotated[
    list[str] | None,
    typer.Option("--group", help="A group whose offsets are translated; repeatable."),
]
OffsetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--offset",
        metavar="TOPIC:PARTITION:OFFSET",
        help="An offset to translate, the next one to read; repeatable.",
    ),
]
ReverseOption = Annotated[
    bool,
    typer.Option(
        "--reverse", help="Translate from the target back to the source: topics, offsets, groups."
    ),
]
SparkCheckpointOption = Annotated[
    str | None,
    typer.Option(
        "--spark-checkpoint",
        metavar="FOLDER",
        help="The checkpoint of a stopped Structured Streaming query that reads topics of the source; "
        "it stays as it is.",
    ),
]
ToOption = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="FOLDER",
        help="With --spark-checkpoint: where to write the checkpoint for the target; an empty folder "
        "or one that does not exist yet.",
    ),
]
ClampOption = Annotated[
    bool,
    typer.Option(
        "--clamp",
        help="With --spark-checkpoint: replace offsets that the copy does not account for by its end or "
        "its start; for when the source is lost.",
    ),
]


def translate(
    config: ConfigOption,
    flow: OneFlowOption = None,
    *,
    group: GroupOption = None,
    offset: OffsetOption = None,
    reverse: ReverseOption = False,
    spark_checkpoint: SparkCheckpointOption = None,
    to: ToOption = None,
    clamp: ClampOption = False,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the corresponding offsets on the other cluster; change nothing. Exits with 2 if one has no answer.

    With --spark-checkpoint, rewrites that checkpoint for the target.
    """
    from kafka_ferry.runs.state.step_time import step_time
    from kafka_ferry.runs.sync_groups.translate import Translator

    offsets = [_parse(text) for text in offset or ()]
    if spark_checkpoint or to or clamp:
        if not (spark_checkpoint and to) or offsets or group or reverse:
            raise typer.BadParameter(
                "Give --spark-checkpoint with --to, and without --group or --offset."
            )
        this_flow = one_flow_within(timeout, config, flow)
        write_checkpoint(this_flow, spark_checkpoint, to, clamp=clamp, as_json=as_json)
        return
    if not (offsets or group):
        raise typer.BadParameter("Give --group, --offset or --spark-checkpoint.")
    chosen = one_flow_within(timeout, config, flow)
    with step_time(chosen):
        translator = Translator(chosen, reverse=reverse)
        answers = translator.offsets(offsets) if offsets else []
        moves = translator.groups(group) if group else None
    notes = [*translator.notes, *(_notes(group or (), moves) if moves else ())]
    for note in notes:
        warn(note)
    if as_json:
        show_json([_as_json(answers, moves)], several=False)
    else:
        if answers:
            _show_offsets(answers)
        if moves and moves.groups:
            _show_groups(moves)
        for line in _reasons(answers, moves):
            out.print(line, style="yellow")
    if moves and moves.failures:
        raise GroupsFailed(moves.failures, transient=moves.transient)
    held = any(move.offset is None for _, move in moves.partitions()) if moves else False
    if held or any(answer.translated is None for answer in answers):
        raise typer.Exit(NO_ANSWER)


def _notes(groups: Iterable[str], moves: GroupMoves) -> Iterator[str]:
    yield from moves.notes
    if not moves.failures:
        for name in sorted(set(groups) - {move.group.name for move in moves.groups}):
            yield f"{name} has committed nothing in a topic that the flow copies."


def _parse(text: str) -> tuple[TopicPartition, int]:
    # Topic names hold no colon.
    topic, *numbers = text.split(":")
    if topic and len(numbers) == 2 and all(number.isdecimal() for number in numbers):
        partition, offset = map(int, numbers)
        if partition < 2**31 and offset < 2**63:
            return TopicPartition(topic, partition), offset
    raise typer.BadParameter(
        f"--offset {text!r} is not TOPIC:PARTITION:OFFSET, such as orders:0:1234."
    )


def _as_json(answers: Iterable[TranslatedOffset], moves: GroupMoves | None) -> dict[str, Any]:
    listed = [
        {
            "topic": answer.asked.topic,
            "partition": answer.asked.partition,
            "offset": answer.offset,
            "to_topic": answer.counterpart.topic if answer.counterpart else None,
            "to_offset": answer.translated,
            "kind": answer.kind,
            "verified": answer.is_verified,
            "reason": answer.reason,
        }
        for answer in answers
    ]
    groups = [asdict(move) for move in moves.groups] if moves else []
    return {"offsets": listed, "groups": groups}


def _show_offsets(answers: Sequence[TranslatedOffset]) -> None:
    columns = ("TOPIC", "PARTITION", "OFFSET", "TO TOPIC", "TO OFFSET", "KIND", "VERIFIED")
    rows = (
        (
            *(answer.asked.topic, answer.asked.partition, answer.offset),
            *(answer.counterpart and answer.counterpart.topic, answer.translated),
            *(answer.kind, "yes" if answer.is_verified else "no"),
        )
        for answer in answers
    )
    show_table(columns, rows, numbers=_NUMBERS)


def _show_groups(moves: GroupMoves) -> None:
    columns = ("GROUP", "TOPIC", "PARTITION", "OFFSET", "LAG", "TO TOPIC", "TO OFFSET", "KIND")
    rows = (
        (
            *(group.group.name, move.source.topic, move.source.partition),
            *(move.committed and move.committed.offset, move.lag),
            *(move.target and move.target.topic, move.offset, move.kind),
        )
        for group, move in moves.partitions()
    )
    show_table(columns, rows, numbers=_NUMBERS)


def _reasons(answers: Iterable[TranslatedOffset], moves: GroupMoves | None) -> Iterator[str]:
    for answer in answers:
        if answer.reason:
            yield f"{answer.asked} at {answer.offset}: {answer.reason}"
    for group in moves.groups if moves else ():
        if group.reason:
            yield f"{one_line(group.group.name)}: {group.reason}"
        for move in group.partitions:
            if move.reason:
                yield f"{one_line(group.group.name)}, {move.source}: {move.reason}"


def write_checkpoint(flow: Flow, old: str, new: str, *, clamp: bool, as_json: bool) -> None:
    """Write the checkpoint for the target, and show where the query continues.

    Raises:
        CheckpointRefused: naming what cannot be translated; nothing was written.
    """
    from kafka_ferry.runs.sync_groups.spark_checkpoint import translate_checkpoint

    rewritten = translate_checkpoint(flow, old, new, clamp=clamp)
    for note in rewritten.notes:
        warn(note)
    if as_json:
        show_json([_checkpoint_json(rewritten, new)], several=False)
        return
    columns = ("TOPIC", "PARTITION", "OFFSET", "TO TOPIC", "TO OFFSET", "KIND")
    numbers = ("PARTITION", "OFFSET", "TO OFFSET")
    rows = (
        (
            *(placed.source.topic, placed.source.partition, placed.offset),
            *(placed.target and placed.target.topic, placed.at, placed.kind or "-"),
        )
        for placed in rewritten.placed
    )
    show_table(columns, rows, numbers=numbers)
    for placed in rewritten.placed:
        if placed.doubt:
            out.print(placed.sentence, style="yellow")
    out.print(
        f"{new} continues after batch {rewritten.batch}. Start the query there with checkpointLocation set "
        f"to it, kafka.bootstrap.servers to those of {flow.target.alias}, and these topics: "
        f"{', '.join(sorted(rewritten.topics.values()))}."
    )


def _checkpoint_json(rewritten: Rewritten, new: str) -> dict[str, object]:
    return {
        "checkpoint": new,
        "batch": rewritten.batch,
        "topics": rewritten.topics,
        "partitions": [
            {
                "topic": placed.source.topic,
                "partition": placed.source.partition,
                "offset": placed.offset,
                "to_topic": placed.target.topic if placed.target else None,
                "to_offset": placed.at,
                "kind": placed.kind,
                "doubt": placed.doubt,
            }
            for placed in rewritten.placed
        ],
        "notes": rewritten.notes,
    }
