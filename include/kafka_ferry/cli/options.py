"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from pydantic import TypeAdapter, ValidationError

from kafka_ferry.config.types.name_filter import split_list
from kafka_ferry.config.types.values import Bytes
from kafka_ferry.errors import ConfigError
from kafka_ferry.model import RunOptions, TopicPartition


def _bytes(text: object) -> int:
    """A number of bytes, or a size with its unit."""
    try:
        count: int = TypeAdapter(Bytes).validate_python(str(text))
    except ValidationError as error:
        raise typer.BadParameter(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
    return count


FLOW_FILE: Final = Path("flow.yaml")
"""The file that ``ferry init`` writes, in the folder in which it is called."""

ConfigOption = Annotated[
    Path,
    typer.Option(
        "--config",
        help="The flow's file: YAML, or MirrorMaker 2's properties.",
        default_factory=lambda: FLOW_FILE,
        show_default=str(FLOW_FILE),
    ),
]
FlowOption = Annotated[
    str | None,
    typer.Option("--flow", help="Which flow, as source->target; without it, all of the file's."),
]
OneFlowOption = Annotated[
    str | None, typer.Option("--flow", help="Which flow, as source->target, if there are several.")
]
ClustersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--clusters",
        metavar="ALIAS...",
        help="Only the flows into these clusters; one or more aliases, as in MirrorMaker 2.",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON for programs; a list if there are several flows.")
]
TopicsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topics",
        metavar="NAME,...",
        help="Only these topics of the flow, by their names on the source or by Java regular expressions.",
    ),
]
TimeoutOption = Annotated[
    int | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=1,
        help="How long to try a cluster that does not answer; 15 without it, or less where admin.timeout.ms is less.",
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="Plan only, and show the plan: nothing is changed or copied."),
]
VerifyAllOption = Annotated[
    bool,
    typer.Option(
        "--verify-all", help="Verify all that the flow ever copied, not only what is new."
    ),
]
ApproveOption = Annotated[
    bool,
    typer.Option(
        "--yes",
        help="Approve what the run takes away on the target beyond removals.max; look at `ferry plan` first.",
    ),
]
RateLimitOption = Annotated[
    int,
    typer.Option(
        "--rate-limit",
        metavar="BYTES",
        parser=_bytes,
        help="The most bytes to send to the target in a second, such as 8MiB; 0 for no limit.",
    ),
]
RateOption = Annotated[
    int,
    typer.Option(
        "--rate",
        metavar="BYTES",
        parser=_bytes,
        help="The most bytes to read from both clusters together in a second, such as 8MiB; 0 for no limit.",
    ),
]


def run_options(
    topics: list[str] | None,
    *,
    dry_run: bool = False,
    verify_all: bool = False,
    rate_limit: int = 0,
    yes: bool = False,
) -> RunOptions:
    """The run's options, from the command line's; a wrong pattern is told before any cluster is asked."""
    listed = tuple(pattern for text in topics or () for pattern in split_list(text))
    if topics and not listed:
        raise typer.BadParameter("names no topic; without it, all count", param_hint="--topics")
    options = RunOptions(
        topics=listed,
        dry_run=dry_run,
        verify_all=verify_all,
        max_bytes_per_s=rate_limit,
        approve_removals=yes,
    )
    try:
        _ = options.topic_filter
    except ConfigError as error:
        raise typer.BadParameter(error.reason, param_hint="--topics") from None
    return options


def place_of(text: str) -> tuple[TopicPartition, int]:
    """``orders-3:120`` as a source partition and an offset of it."""
    name, _, offset = text.rpartition(":")
    topic, _, partition = name.rpartition("-")
    if not (topic and partition.isdecimal() and offset.isdecimal()):
        raise typer.BadParameter(f"{text!r} is no TOPIC-PARTITION:OFFSET, such as orders-3:120")
    return TopicPartition(topic, int(partition)), int(offset)
