"""``ferry failover``: moves the groups to the target."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_ferry.cli.flows import one_flow
from kafka_ferry.cli.options import ConfigOption, JsonOption, OneFlowOption
from kafka_ferry.cli.terminal import out, show_json
from kafka_ferry.errors import GroupsFailed
from kafka_ferry.groups.outlook_text import outlook_lines

if TYPE_CHECKING:
    from kafka_ferry.groups.outlook import Outlook

GroupsOption = Annotated[
    list[str] | None,
    typer.Option("--group", help="Only this group; repeatable."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")
]


def failover(
    config: ConfigOption,
    flow: OneFlowOption = None,
    group: GroupsOption = None,
    dry_run: DryRunOption = False,
    source_down: Annotated[
        bool, typer.Option("--source-down", help="Do not try to reach the source.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Sync the groups' offsets a last time, and show where each group continues on the target."""
    from kafka_ferry.runs.failover.failover import failover as fail_over

    chosen = one_flow(config, flow).model_copy(update={"is_waited_for": True})
    show_outlook(
        fail_over(chosen, group or (), dry_run=dry_run, source_down=source_down), as_json=as_json
    )


def show_outlook(outlook: Outlook, *, as_json: bool) -> None:
    """Print a report.

    Raises:
        GroupsFailed: if a group may not start, or something failed.
    """
    if as_json:
        show_json([json.loads(outlook.to_json())], several=False)
    else:
        # The error names the failures.
        for line in outlook_lines(replace(outlook, failures=())):
            out.print(line)
    if not outlook.all_can_start:
        raise GroupsFailed(outlook.problems, transient=False)
