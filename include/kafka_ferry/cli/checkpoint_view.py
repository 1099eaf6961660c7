"""What ``ferry translate --spark-checkpoint`` shows of a checkpoint that it has written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_ferry.cli.terminal import out, show_table, warn

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.groups.spark.rewrite import Rewritten

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


def write_checkpoint(flow: Flow, old: str, new: str, *, clamp: bool, as_json: bool) -> None:
    """Write the checkpoint for the target, and show where the query continues.

    Raises:
        CheckpointRefused: naming what cannot be translated; nothing was written.
    """
    from kafka_ferry.runs.sync_groups.spark_checkpoint import translate_checkpoint

    found = translate_checkpoint(flow, old, new, clamp=clamp)
    for note in found.notes:
        warn(note)
    if as_json:
        print(json.dumps(_as_json(found, new), indent=1, ensure_ascii=False))
        return
    columns = ("TOPIC", "PARTITION", "OFFSET", "TO TOPIC", "TO OFFSET", "KIND")
    numbers = ("PARTITION", "OFFSET", "TO OFFSET")
    rows = (
        (
            *(placed.source.topic, placed.source.partition, placed.offset),
            *(placed.target and placed.target.topic, placed.at, placed.kind or "-"),
        )
        for placed in found.placed
    )
    show_table(columns, rows, numbers=numbers)
    for placed in found.placed:
        if placed.doubt:
            out.print(placed.sentence, style="yellow")
    out.print(
        f"{new} continues after batch {found.batch}. Start the query there with checkpointLocation set "
        f"to it, kafka.bootstrap.servers to those of {flow.target.alias}, and these topics: "
        f"{', '.join(sorted(found.topics.values()))}."
    )


def _as_json(found: Rewritten, new: str) -> dict[str, object]:
    return {
        "checkpoint": new,
        "batch": found.batch,
        "topics": found.topics,
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
            for placed in found.placed
        ],
        "notes": found.notes,
    }
