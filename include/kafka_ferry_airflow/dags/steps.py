"""The tasks of a run that need no Spark: each calls a step of the library and does nothing else.

Classes, not decorated functions: 200 flows have 2,000 tasks, which are created in half the time.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from kafka_ferry.errors import FerryError
from kafka_ferry.report.plan_text import changes_on_target
from kafka_ferry_airflow.concurrency import log_other_runs
from kafka_ferry_airflow.connections import provide_connections
from kafka_ferry_airflow.dags.approval import APPROVED, PLANNED, PREPARED, require_planned
from kafka_ferry_airflow.dags.params import options_of
from kafka_ferry_airflow.dags.plan_text import log_plan
from kafka_ferry_airflow.errors import FAILURE_CALLBACKS, airflow_errors
from kafka_ferry_airflow.monitoring.assets import add_asset_events
from kafka_ferry_airflow.page.urls import report_url

if TYPE_CHECKING:
    from airflow.sdk import Context

    from kafka_ferry.config import Flow
    from kafka_ferry.model import Plan
    from kafka_ferry.runs import Run

log = logging.getLogger(__name__)


class StepOperator(BaseOperator):
    """A step of a run of ``flow``.

    Args:
        flow: what is mirrored.
        kwargs: as for ``BaseOperator``.
    """

    def __init__(self, *, flow: Flow, **kwargs: Any) -> None:
        super().__init__(doc_md=type(self).__doc__, **{**FAILURE_CALLBACKS, **kwargs})
        self.flow = flow

    def execute(self, context: Context) -> Any:
        """Executes the step, with the connections that the flow's clusters name.

        Raises:
            AirflowFailException: it failed, and no retry can help.
            AirflowException: it failed; a later try may succeed.
        """
        from kafka_ferry.runs import Run  # noqa: PLC0415  (PySpark and Great Expectations)

        provide_connections(self.flow)
        with airflow_errors():
            return self.step(Run(self.flow, context["run_id"]), context)

    def step(self, run: Run, context: Context) -> Any:
        """Does the task's work; returns what later tasks need."""
        raise NotImplementedError


def planned_run(run: Run, context: Context, *, save: bool = True) -> Plan:
    """The plan of what a run's form or a backfill's interval asks for, which the task's log shows."""
    from kafka_ferry.spark.session import terminal_spark  # noqa: PLC0415  (pyspark)

    try:
        options = options_of(context)
    except FerryError as error:
        if save:
            run.record_refusal(error)
        raise
    with terminal_spark(f"rules of {run.flow.name}", 1) as spark:
        planned = run.plan(options, save=save, spark=spark)
    log_plan(log, planned)
    return planned


class PlanOperator(StepOperator):
    """Shows what the run copies, what it does not copy, and why."""

    def step(self, run: Run, context: Context) -> Any:
        """Plans what the run's form, or a backfill's interval, asks for."""
        planned = planned_run(run, context)
        log_other_runs(context, context["ti"].dag_id)
        context["ti"].xcom_push(key=PLANNED, value=planned.digest)
        if self.flow.shards > 1:
            # Airflow can only map over a list that a task returns.
            names = enumerate(planned.shard_names)
            return [{"shard": number, "shard_name": name} for number, name in names]
        return {"ranges": len(planned.ranges), "offsets": planned.offsets}


class ShowPlanOperator(StepOperator):
    """Shows what a run would do; stores nothing, and changes nothing."""

    def step(self, run: Run, context: Context) -> dict[str, int]:
        """Plans what the form asks for."""
        planned = planned_run(run, context, save=False)
        log_other_runs(context, f"mirror_{self.flow.slug}")
        return {"ranges": len(planned.ranges), "offsets": planned.offsets}


class SyncTopicsOperator(StepOperator):
    """Creates what the target lacks, and changes what differs from the plan."""

    def step(self, run: Run, context: Context) -> None:
        """Makes the changes of the plan that the task ``plan`` has made; where it waits for an approval, that has it.

        In a dry run it skips itself, and so all tasks after it.
        """
        stored = run.stored_plan()
        if stored.options.dry_run:
            # Else a dry run's plan would end another run, successfully.
            require_planned(stored, context)
            raise AirflowSkipException("A dry run ends with its plan: nothing is changed.")
        task, key = ("plan", PLANNED) if self.flow.approval == "never" else ("approve", APPROVED)
        # Who may edit XComs need not be allowed to answer.
        run.require_approval()
        # A user who writes in the state folder cannot write to XCom.
        planned = run.sync_topics(str(context["ti"].xcom_pull(task_ids=task, key=key) or ""))
        context["ti"].xcom_push(key=PREPARED, value=planned.digest)
        changes = [*changes_on_target(planned)]
        for line in changes:
            log.info("%s", line)
        log.info("%s", "Made, or made already." if changes else "Nothing to change on the target.")


class SyncGroupsOperator(StepOperator):
    """Translates the groups' offsets; commits them on the target if the flow says so."""

    def step(self, run: Run, context: Context) -> dict[str, int]:  # noqa: ARG002
        """Syncs all groups."""
        moves = run.sync_groups()
        committed = sum(1 for _ in moves.partitions("written"))
        log.info("%d groups, %d offsets committed", len(moves.groups), committed)
        return {"groups": len(moves.groups), "committed": committed}


class PublishOperator(StepOperator):
    """Writes the report; fails unless the run is complete and proved."""

    def step(self, run: Run, context: Context) -> dict[str, Any]:
        """Publishes the report, and sends metrics to Airflow."""
        from kafka_ferry.report import headline  # noqa: PLC0415  (jinja2, and rows of the proof)
        from kafka_ferry_airflow.monitoring.metrics import export_metrics  # noqa: PLC0415  (rows too)

        try:
            report = run.publish()
        finally:
            if told := run.report():
                log.info("Report: %s", self.report_address(run, context))
                export_metrics(self.flow, told)
        counts = report.counts
        log.info("%s: %d records, %d bytes", headline(report), counts.records, counts.bytes)
        return {"records": counts.records, "bytes": counts.bytes, "report": str(run.report_path)}

    def report_address(self, run: Run, context: Context) -> str:
        """Where a person finds the report: a failback's flow need not be in a file, and is on no page then."""
        from kafka_ferry_airflow.links import absolute  # noqa: PLC0415

        if context["ti"].dag_id.startswith("failback_"):
            return run.report_address
        return absolute(report_url(self.flow.slug, run.run_id))


class UpdateAssetsOperator(StepOperator):
    """Updates the assets of the topics that are proved, and of no others."""

    def step(self, run: Run, context: Context) -> dict[str, int]:
        """Adds the events."""
        proofs = run.proved_topics()
        updated = add_asset_events(self.flow, run.run_id, proofs, context["outlet_events"])
        log.info("%d topics are proved, %d assets updated.", len(proofs), updated)
        return {"proved": len(proofs), "updated": updated}
