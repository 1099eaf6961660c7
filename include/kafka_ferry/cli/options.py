"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path, typer.Option("--config", help="The flow's file: YAML, or MirrorMaker 2's properties.")
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
        help="Only the flows into these clusters; one or more aliases, as MirrorMaker 2 has it.",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON for programs; of several flows, a list.")
]
