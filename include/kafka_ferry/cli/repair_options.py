"""The options of ``ferry repair``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

OptionalConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="The flow's file: YAML, or MirrorMaker 2's properties."),
]
TopicOption = Annotated[
    list[str] | None,
    typer.Option("--topic", help="A remote topic, by its name on the target; repeatable."),
]
YesOption = Annotated[
    bool,
    typer.Option(
        "--yes",
        help="Give up the topics named, or else all that are damaged: DELETES them on the "
        "target, and the next run copies what the source still has. With --leave or --append, do that instead.",
    ),
]
FindingsOption = Annotated[
    bool,
    typer.Option(
        "--findings",
        help="Show what the last verification found wrong with ranges, and what can be done.",
    ),
]
LeaveOption = Annotated[
    list[str] | None,
    typer.Option(
        "--leave",
        help="A range of --findings, such as orders-3:120, that is to be left as it is; repeatable.",
    ),
]
AuditOption = Annotated[
    Path | None,
    typer.Option(
        "--audit",
        exists=True,
        dir_okay=False,
        help="A report.json of ferry audit: show what can be done about its findings; changes nothing. Where "
        "--config names the flow that has copied the topics, by what its ledger says.",
    ),
]
AppendOption = Annotated[
    list[str] | None,
    typer.Option(
        "--append",
        metavar="TOPIC-PARTITION:OFFSET",
        help="Append what the target lacks of the range with this offset of the source, after all other "
        "records of the remote topic; shows the consequences without --yes. Repeatable.",
    ),
]
LedgerOption = Annotated[
    bool,
    typer.Option(
        "--ledger",
        help="Show the records of the flow's ledger that cannot be read, and what they hide.",
    ),
]
SetAsideOption = Annotated[
    list[int] | None,
    typer.Option(
        "--set-aside",
        metavar="OFFSET",
        min=0,
        help="A record of --ledger, by its offset, that all flows of this ledger are to pass over; repeatable.",
    ),
]
ReasonOption = Annotated[
    str,
    typer.Option(
        "--reason", help="Why, for the ledger. --leave, --append and --set-aside need it."
    ),
]
