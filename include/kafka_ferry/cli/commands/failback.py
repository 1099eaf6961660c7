"""``ferry failback``: copies records back to the source, and moves the groups back."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from typing import Annotated

import typer

from kafka_ferry.cli.commands.failover import DryRunOption, GroupsOption, show_outlook
from kafka_ferry.cli.commands.run import run_flows
from kafka_ferry.cli.flows import one_flow
from kafka_ferry.cli.options import ConfigOption, JsonOption, OneFlowOption
from kafka_ferry.cli.terminal import messages
from kafka_ferry.clock import run_id_now
from kafka_ferry.config.reverse_flow import load_reverse_flow
from kafka_ferry.errors import AccessDenied, FerryError
from kafka_ferry.model.results.failures import RangesFailed
from kafka_ferry.report.plan_text import summary


def failback(
    config: ConfigOption,
    flow: OneFlowOption = None,
    group: GroupsOption = None,
    dry_run: DryRunOption = False,
    copy_only: Annotated[
        bool,
        typer.Option(
            "--copy-only",
            help="Copy records, but move no groups: while applications still run on the target.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy records that are new on the target back to the source, and move the groups back."""
    from kafka_ferry.runs import Run
    from kafka_ferry.runs.failover.failback import failback as fail_back
    from kafka_ferry.runs.failover.failback import require_visible_topics

    forward = one_flow(config, flow)
    back = load_reverse_flow(config.absolute(), forward)
    run = run_id_now("failback")
    if dry_run:
        plan = Run(back, run).plan(save=False)
        messages.print(f"{back.name}, dry run: {summary(plan)}")
        if plan.remarks.refused:
            raise RangesFailed((), transient=False, refused=plan.remarks.refused)
    else:
        # Programs read a single report from stdout.
        aside = redirect_stdout(sys.stderr) if as_json and not copy_only else nullcontext()
        with aside:
            run_flows([back], run, as_json=as_json and copy_only)
    if copy_only:
        require_visible_topics(forward, back)
        return
    try:
        outlook = fail_back(forward, back, group or (), dry_run=dry_run)
    except FerryError as error:
        if not dry_run or as_json or isinstance(error, AccessDenied):
            raise
        messages.print(
            f"The groups can only be translated once records are copied: {error.message}"
        )
        return
    show_outlook(outlook, as_json=as_json)
