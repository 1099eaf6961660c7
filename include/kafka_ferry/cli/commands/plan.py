"""``ferry plan``: what a run would do."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import typer

from kafka_ferry.cli.flows import flows_within, for_each
from kafka_ferry.cli.options import (
    ClustersOption,
    ConfigOption,
    FlowOption,
    JsonOption,
    TimeoutOption,
    TopicsOption,
    run_options,
)
from kafka_ferry.cli.plan_view import show_plan
from kafka_ferry.cli.terminal import out, show_json, show_that_rules_are_read
from kafka_ferry.config import Flow
from kafka_ferry.model import Plan

DIFFERENCES: Final = 2

VerboseOption = Annotated[
    bool, typer.Option("--verbose", help="List each partition, and each topic that is left out.")
]


def plan(
    config: ConfigOption,
    flow: FlowOption = None,
    clusters: ClustersOption = None,
    topics: TopicsOption = None,
    verbose: VerboseOption = False,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a run would do, and change nothing on either cluster. Exits with 2 if it would do anything."""
    from kafka_ferry.runs import Run
    from kafka_ferry.spark.session import terminal_spark

    options = run_options(topics)
    flows = flows_within(timeout, config, flow, clusters)

    def answer(flow: Flow) -> Plan:
        with terminal_spark(f"rules of {flow.name}", 1, show_that_rules_are_read) as spark:
            planned = Run(flow, "plan").plan(options, save=False, spark=spark)
        if not as_json:
            show_plan(planned, verbose=verbose)
            if told := _groups(flow):
                out.print(told, style="dim")
        return planned

    attempts = for_each(flows, answer)
    if as_json:
        show_json([plan_json(planned) for planned in attempts.results], several=len(flows) > 1)
    attempts.raise_failures()
    if any(planned.differences for planned in attempts.results):
        raise typer.Exit(DIFFERENCES)


def _groups(flow: Flow) -> str:
    """What a run does to groups, which no plan lists: their offsets move after the copy is proved."""
    if not flow.sync_group_offsets_enabled:
        says = "groups" in flow.model_fields_set
        return "groups: not moved (sync.group.offsets.enabled: false)" if says else ""
    return (
        f"groups: moved once the copy is proved ({', '.join(flow.groups)}); where each would continue, "
        "ferry failover --dry-run says"
    )


def plan_json(planned: Plan) -> dict[str, Any]:
    """A plan for programs."""
    document: dict[str, Any] = json.loads(planned.to_json())
    return document | {"differences": planned.differences}
