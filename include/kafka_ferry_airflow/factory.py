"""Makes DAGs of each flow: its tasks call the library's steps and do nothing else."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import (
    DAG,
    CronDataIntervalTimetable,
    TriggerRule,
    chain,
    get_current_context,
    task,
)

from kafka_ferry.config import Flow, cluster_aliases, flow_files, load_flows
from kafka_ferry.errors import ConfigError, FerryError
from kafka_ferry_airflow.approval import PlanApprovalOperator
from kafka_ferry_airflow.connections import provide_connections
from kafka_ferry_airflow.description import describe
from kafka_ferry_airflow.errors import airflow_errors
from kafka_ferry_airflow.failover import failback_dag, failover_dag
from kafka_ferry_airflow.operators import FerrySparkSubmitOperator
from kafka_ferry_airflow.plan_text import log_plan
from kafka_ferry_airflow.project import CLUSTERS, Project

if TYPE_CHECKING:
    from kafka_ferry.runs import Run

log = logging.getLogger(__name__)

BACK_OFF: Final[dict[str, Any]] = {
    "retry_delay": timedelta(seconds=30),
    # A factor. True, as in older Airflow, would be the factor 1.
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=15),
}


@dataclass(frozen=True)
class Mirrors:
    """What a folder of flows comes to in Airflow.

    Attributes:
        dags: by DAG id, those of all good and enabled flows.
        problems: what is wrong with the others: file, key and reason.
    """

    dags: dict[str, DAG]
    problems: tuple[ConfigError, ...]

    def raise_problems(self) -> None:
        """Does nothing if there are none.

        Raises:
            FerryError: that lists them all.
        """
        if self.problems:
            listed = "\n  ".join(map(str, self.problems))
            raise FerryError(f"{len(self.problems)} flow(s) cannot be loaded:\n  {listed}")


def build_mirrors(root: Path) -> Mirrors:
    """The DAGs of all flow files; never raises because of one of them.

    Args:
        root: the folder that holds ``dags/``, ``include/`` and ``spark_jobs/``.
    """
    project = Project(root)
    # The tasks' processes load this file too, and Spark's inherit their environment.
    os.environ.setdefault("FERRY_HOME", str(root))
    dags: dict[str, DAG] = {}
    files: dict[str, Path] = {}
    problems: list[ConfigError] = []
    for file, flow in _load_flows(project, problems):
        try:
            dag = mirror_dag(flow, project)
            by_hand = emergency_dags(flow, project)
        except Exception as error:
            # Airflow's own checks, such as that of a cron expression.
            problems.append(ConfigError(str(file), "schedule", str(error)))
            continue
        first = files.setdefault(dag.dag_id, file)
        if dag.dag_id in dags:
            problems.append(ConfigError(str(file), flow.name, f"is in {first} already"))
        else:
            dags |= {it.dag_id: it for it in (dag, *by_hand)}
    return Mirrors(dags, tuple(problems))


def _load_flows(project: Project, problems: list[ConfigError]) -> Iterator[tuple[Path, Flow]]:
    """The enabled flows of each file that can be read; what is wrong with the others is added."""
    try:
        files = flow_files(project.configs)
    except ConfigError as error:
        problems.append(error)
        return
    unknown = set(project.clusters)
    for file in files:
        try:
            known = set(cluster_aliases(file)) if project.clusters else set()
            here = [alias for alias in project.clusters if alias in known]
            unknown -= known
            flows = load_flows(file, here) if here or not project.clusters else ()
        except ConfigError as error:
            problems.append(error)
        else:
            yield from ((file, flow) for flow in flows if flow.enabled)
    for alias in sorted(unknown):
        problems.append(ConfigError(CLUSTERS, alias, "is a cluster of no file that can be read"))


def mirror_dag(flow: Flow, project: Project) -> DAG:
    """The DAG ``mirror_{source}_to_{target}``, whose runs each own a span of time.

    Raises:
        Exception: Airflow's own, for a timetable that it does not accept.
    """
    timetable = CronDataIntervalTimetable(flow.schedule, timezone="UTC") if flow.schedule else None
    with DAG(
        dag_id=f"mirror_{flow.slug}",
        description=f"Copies {flow.source.alias} to {flow.target.alias}, exactly once, with proof",
        doc_md=describe(flow),
        tags=["kafka-ferry", f"source:{flow.source.alias}", f"target:{flow.target.alias}"],
        schedule=timetable,
        start_date=datetime.combine(flow.start_date, time(), UTC),
        catchup=flow.catchup,
        max_active_runs=1,
        default_args={"retries": flow.retries, **BACK_OFF},
        auto_register=False,
    ) as dag:
        _add_tasks(flow, project)
    dag.validate()  # type: ignore[no-untyped-call]
    return dag


def emergency_dags(flow: Flow, project: Project) -> tuple[DAG, DAG]:
    """The DAGs ``failover_{source}_to_{target}`` and ``failback_{source}_to_{target}``, started by hand.

    Raises:
        ConfigError: if the opposite flow of the flow's file is not right.
    """
    over = failover_dag(flow)
    back = failback_dag(flow, lambda way_back: _add_tasks(way_back, project, way_back_of=flow))
    for dag in (over, back):
        dag.validate()  # type: ignore[no-untyped-call]
    return over, back


def _add_tasks(flow: Flow, project: Project, way_back_of: Flow | None = None) -> Any:
    """The tasks of a run; gives the last one."""

    @task
    def plan() -> dict[str, int]:
        """Says what is copied, what is not, and why."""
        with airflow_errors():
            planned = _run(flow).plan()
        log_plan(log, planned)
        return {"ranges": len(planned.ranges), "offsets": planned.offsets}

    @task
    def sync_topics() -> None:
        """Creates on the target what it lacks."""
        with airflow_errors():
            _run(flow).sync_topics()

    # Not max_active_runs: it does not keep a backfill's run and a scheduled one apart.
    spark: dict[str, Any] = {
        "project": project,
        "flow": flow,
        "way_back_of": way_back_of,
        "pool": project.pool,
        "max_active_tis_per_dag": 1,
    }
    # What was copied is verified and reported even if some partitions failed; nothing is, if there
    # was no plan or nowhere to copy to.
    after_all = TriggerRule.ALL_DONE_MIN_ONE_SUCCESS
    mirror = FerrySparkSubmitOperator(task_id="mirror", step="mirror", **spark)
    verify = FerrySparkSubmitOperator(
        task_id="verify", step="verify", trigger_rule=after_all, **spark
    )

    # Of two at once, the slower one could set back what the other one has committed.
    @task(trigger_rule=after_all, max_active_tis_per_dag=1)
    def sync_groups() -> dict[str, int]:
        """Translates the groups' offsets; commits them on the target if the flow says so."""
        with airflow_errors():
            moves = _run(flow).sync_groups()
        committed = sum(1 for _ in moves.partitions("written"))
        log.info("%d groups, %d offsets committed", len(moves.groups), committed)
        return {"groups": len(moves.groups), "committed": committed}

    @task(trigger_rule=after_all)
    def publish() -> dict[str, Any]:
        """Writes the report; fails unless the run is complete and proved."""
        from kafka_ferry.report import headline  # noqa: PLC0415  (jinja2, and rows of the proof)
        from kafka_ferry_airflow.metrics import tell_airflow  # noqa: PLC0415  (the same)

        run = _run(flow)
        try:
            with airflow_errors():
                report = run.publish()
        finally:
            log.info("Report: %s", run.report_path)
            if told := run.report():
                tell_airflow(flow, told)
        log.info("%s: %d records, %d bytes", headline(report), report.records, report.bytes)
        return {"records": report.records, "bytes": report.bytes, "report": str(run.report_path)}

    synced, published = sync_topics(), publish()
    # A plan that is rejected fails this task, and so all that would change anything.
    asked = [] if flow.approval == "never" else [PlanApprovalOperator(task_id="approve", flow=flow)]
    grouped = sync_groups()
    chain(plan(), *asked, synced, mirror, verify, grouped, published)
    synced >> [verify, grouped, published]
    return published


def _run(flow: Flow) -> Run:
    """This DAG run as the library knows it, with the connections that its clusters name."""
    from kafka_ferry.runs import Run  # noqa: PLC0415  (PySpark and Great Expectations)

    provide_connections(flow)
    return Run(flow, get_current_context()["run_id"])
