"""``ferry run``: a whole run of a flow, or of each flow of a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafka_ferry.cli.commands.plan import plan_json
from kafka_ferry.cli.flows import Attempts, flows_of, for_each, with_timeout
from kafka_ferry.cli.options import (
    ApproveOption,
    ClustersOption,
    ConfigOption,
    DryRunOption,
    FlowOption,
    JsonOption,
    RateLimitOption,
    TimeoutOption,
    TopicsOption,
    VerifyAllOption,
    run_options,
)
from kafka_ferry.cli.plan_view import show_plan
from kafka_ferry.cli.report_view import show_report
from kafka_ferry.cli.terminal import messages, show_json, show_that_rules_are_read
from kafka_ferry.clock import run_id_now
from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError, InputError
from kafka_ferry.model import ORDINARY, RunOptions, Window
from kafka_ferry.model.results.failures import RangesFailed
from kafka_ferry.report.plan_text import deletions, risk_lines, rule_changes, summary

if TYPE_CHECKING:
    from kafka_ferry.runs import Run

RunIdOption = Annotated[
    str | None, typer.Option("--run-id", help="The run to repeat; without it, a new one.")
]


def run(
    config: ConfigOption,
    flow: FlowOption = None,
    clusters: ClustersOption = None,
    run_id: RunIdOption = None,
    *,
    topics: TopicsOption = None,
    dry_run: DryRunOption = False,
    verify_all: VerifyAllOption = False,
    rate_limit: RateLimitOption = 0,
    yes: ApproveOption = False,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plan, create topics, copy, verify, sync groups and publish. Exits with 0 only if all of it is proved."""
    options = run_options(
        topics, dry_run=dry_run, verify_all=verify_all, rate_limit=rate_limit, yes=yes
    )
    flows = flows_of(config, flow, clusters)
    require_known(flows, run_id)
    run_flows(flows, run_id, options, as_json=as_json, timeout=timeout)


def require_known(flows: Sequence[Flow], run_id: str | None, window: Window | None = None) -> None:
    """Check that one of the flows has the run that is to be repeated, for the same time; there need not be any.

    Raises:
        InputError: none has, or it was a backfill of another time, or none.
    """
    from kafka_ferry.runs import Run

    unknown: InputError | None = None
    for flow in flows if run_id else ():
        try:
            planned = Run.reopen(flow, run_id or "").stored_plan()
        except InputError as error:
            unknown = unknown or error
        else:
            if planned.options.window != window:
                raise _of_other_time(run_id or "", planned.options.window)
            return
    if unknown:
        raise unknown


def _of_other_time(run_id: str, window: Window | None) -> InputError:
    """The error where a run would be repeated as another one: its report would call that one's proof its own."""
    if window is None:
        advice = "Repeat it with ferry run --run-id, or leave --run-id out for a new backfill."
        return InputError(f"The run {run_id} is no backfill.", advice=advice)
    return InputError(
        f"The run {run_id} is a backfill of {window}.",
        advice=f"ferry backfill --since {window.since} --until {window.until} --run-id {run_id} continues it.",
    )


def run_flows(
    flows: Sequence[Flow],
    run_id: str | None = None,
    options: RunOptions = ORDINARY,
    *,
    as_json: bool,
    tasks: int | None = None,
    timeout: int | None = None,
) -> None:
    """Run one flow after the other, and show each report.

    Args:
        flows: what to run.
        run_id: the id of each of their runs; None for a new one.
        options: each run's options.
        as_json: whether to print the reports as JSON instead; a list for several flows.
        tasks: how many Spark tasks run at a time; None for as many as Spark is set up for.
        timeout: how many seconds to try a cluster that does not answer while the run is planned, as ``with_timeout``.

    Raises:
        FerryError: the error of the only flow.
        FlowsFailed: some of several flows failed; the others ran.
    """
    from kafka_ferry.runs import Run

    documents: list[dict[str, Any]] = []
    this_run = run_id or run_id_now("cli")

    def ran(flow: Flow) -> None:
        if options.dry_run:
            _plan_flow(with_timeout(flow, timeout), this_run, options, documents, as_json=as_json)
        else:
            planner = Run(with_timeout(flow, timeout), this_run)
            _run_flow(planner, flow, options, documents, as_json=as_json, tasks=tasks)

    attempts: Attempts[None] = for_each(flows, ran)
    if as_json:
        show_json(documents, several=len(flows) > 1)
    attempts.raise_failures()


def _plan_flow(
    flow: Flow, run_id: str, options: RunOptions, documents: list[dict[str, Any]], *, as_json: bool
) -> None:
    """Show a dry run's plan, and fail where the run would."""
    from kafka_ferry.runs import Run
    from kafka_ferry.spark.session import terminal_spark

    with terminal_spark(f"rules of {flow.name}", 1, show_that_rules_are_read) as spark:
        planned = Run(flow, run_id).plan(options, spark=spark)
    if not as_json:
        show_plan(planned)
    documents.append(plan_json(planned))
    if refused := planned.remarks.refused:
        raise RangesFailed((), transient=False, refused=refused)


def _run_flow(
    planner: Run,
    flow: Flow,
    options: RunOptions,
    documents: list[dict[str, Any]],
    *,
    as_json: bool,
    tasks: int | None,
) -> None:
    from kafka_ferry.runs import Run
    from kafka_ferry.runs.progress import progress_bar
    from kafka_ferry.spark.session import terminal_spark
    from kafka_ferry.verify.expectations.gx import import_in_background

    # At its beginning a person does not wait for long; once it copies, it waits as long as in Airflow.
    run, run_id = Run(flow, planner.run_id), planner.run_id
    with terminal_spark(f"ferry {flow.name}", tasks) as spark:
        made = planner.plan(options, spark=spark)
        if made.ranges:
            spark.begin()
        planned = run.sync_topics(made.digest)
        messages.print(f"{flow.name}, run {run_id}: {summary(planned)}")
        lines = (*deletions(planned), *rule_changes(planned), *risk_lines(planned.remarks.risks))
        for line in lines:
            messages.print(line)
        if planned.ranges:
            import_in_background()
        # A step's error is in its record: the other steps do what they still can, and publish reports it.
        with suppress(FerryError), progress_bar(flow, planned, messages, hidden=as_json):
            run.mirror(spark, expected=planned.digest)
        with suppress(FerryError):
            run.verify(spark)
    with suppress(FerryError):
        run.sync_groups()
    try:
        run.publish()
    finally:
        report = run.report()
        if report:
            documents.append(json.loads(report.to_json()))
            if not as_json:
                show_report(report, run.report_path)
