"""The options of ``ferry audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafka_ferry.config.types.durations import read_span
from kafka_ferry.config.types.values import topic_name


def _isolation(text: str) -> str:
    if text and text not in ("read_committed", "read_uncommitted"):
        raise typer.BadParameter("must be read_committed or read_uncommitted")
    return text


def _lag(text: object) -> int:
    try:
        return 0 if str(text).strip() == "0" else read_span(str(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def topic_and_name(text: str) -> tuple[str, str]:
    """A topic and its name on the target, from ``orders=eu.orders``."""
    topic, equals, remote = (part.strip() for part in text.partition("="))
    if not equals:
        raise typer.BadParameter(f"--map {text} is not of the form orders=eu.orders.")
    for name in (topic, remote):
        try:
            topic_name(name)
        except ValueError as error:
            raise typer.BadParameter(f"--map {text}: {name!r} {error}.") from None
    return topic, remote


FileOption = Annotated[
    Path | None,
    typer.Option("--config", help="A flow's file: its clusters, topics and names are audited."),
]
SourceConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--source-config",
        metavar="FILE",
        help="Without --config: the properties of a client of the source, by the Java client's names.",
    ),
]
TargetConfigOption = Annotated[
    Path | None,
    typer.Option("--target-config", metavar="FILE", help="Likewise, of the target."),
]
SourceAliasOption = Annotated[
    str,
    typer.Option(
        "--source-alias",
        help="Without --config: what the mirror puts before topics' names on the target.",
    ),
]
PolicyOption = Annotated[
    str,
    typer.Option(
        "--policy",
        help="Without --config: how the mirror names topics: default (alias.topic), identity (topic), or a "
        "class as of replication.policy.class.",
    ),
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="TOPIC=TOPIC",
        help="A topic of the source and its name on the target, instead of the policy; repeatable. Without "
        "--topics, only these are compared.",
    ),
]
FromOption = Annotated[
    str | None,
    typer.Option("--from", help="Only records with timestamps from this moment on."),
]
UntilMomentOption = Annotated[
    str | None, typer.Option("--to", help="Only records with timestamps before this moment.")
]
SampleOption = Annotated[
    int,
    typer.Option(
        "--sample",
        metavar="N",
        min=1,
        help="Count everything, and compare the content of one block of records in N.",
    ),
]
IsolationOption = Annotated[
    str,
    typer.Option(
        "--isolation",
        parser=_isolation,
        metavar="LEVEL",
        help="Which records count on both clusters: read_committed, or read_uncommitted for those of aborted "
        "and open transactions too; by default, as the flow's isolation.level says.",
    ),
]
LagOption = Annotated[
    int,
    typer.Option(
        "--lag",
        metavar="SPAN",
        parser=_lag,
        help="How far a running mirror may be behind, such as 10m or '10 minutes': newer records at the end "
        "of a partition are not called missing.",
    ),
]
BlockOption = Annotated[
    int, typer.Option("--block", metavar="N", min=1, help="Records to a block.")
]
ResumeOption = Annotated[
    bool,
    typer.Option(
        "--resume", help="Continue the last audit that asked for the same, if it was interrupted."
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="FOLDER",
        help="Write report.html, report.json and findings.parquet there too.",
    ),
]
AuditJsonOption = Annotated[
    bool, typer.Option("--json", help="Print the report as JSON for programs.")
]
