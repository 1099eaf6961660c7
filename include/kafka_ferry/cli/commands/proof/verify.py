"""``ferry verify``: reads a run back and judges it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafka_ferry.cli.flows import answer_each, flows_within
from kafka_ferry.cli.options import (
    ClustersOption,
    ConfigOption,
    FlowOption,
    JsonOption,
    TimeoutOption,
)
from kafka_ferry.cli.terminal import out
from kafka_ferry.config import Flow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_ferry.verify import Verdict

AllOption = Annotated[
    bool,
    typer.Option(
        "--all",
        help="Verify all that the flow ever copied, whether verified before or not. For some topics only: "
        "ferry run --verify-all --topics NAME,...",
    ),
]
RunIdOption = Annotated[
    str | None, typer.Option("--run-id", help="The run to verify (again); by default the newest.")
]


def verify(
    config: ConfigOption,
    flow: FlowOption = None,
    clusters: ClustersOption = None,
    run_id: RunIdOption = None,
    everything: AllOption = False,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read the target back and judge a run, and all that no run has verified before."""
    from kafka_ferry.report.plan_text import refused_lines
    from kafka_ferry.runs import Run
    from kafka_ferry.spark.session import terminal_spark

    flows = flows_within(timeout, config, flow, clusters)

    def answer(flow: Flow) -> dict[str, Any]:
        with terminal_spark(f"ferry verify {flow.name}") as spark:
            run = Run.reopen(flow, run_id) if run_id else Run.latest(flow, whole=everything)
            verdict = run.verify(spark, everything=everything, afresh=True)
        # Who hears that all is verified hears what that does not speak of.
        refused = [*refused_lines(run.stored_plan().remarks.refused)]
        if not as_json:
            _show(flow, run.run_id, verdict, refused, is_named=len(flows) > 1)
        document: dict[str, Any] = json.loads(verdict.to_json())
        return {"flow": flow.name, "run": run.run_id, "refused": refused} | document

    answer_each(flows, answer, as_json=as_json)


def _show(
    flow: Flow, run_id: str, verdict: Verdict, refused: Iterable[str], *, is_named: bool
) -> None:
    where = f"{flow.name}: " if is_named else ""
    if verdict.ranges:
        out.print(f"{where}verified: {verdict.found} ({run_id})")
    else:
        nothing = "nothing to verify: all that was copied was proved before, or nothing was copied"
        out.print(f"{where}{nothing} ({run_id}). --all reads all of it again.")
    for warning in verdict.warnings:
        out.print(f"WARNING {warning}", style="yellow")
    for line in refused:
        out.print(line, style="yellow")
