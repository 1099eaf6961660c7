"""Makes DAGs of each flow: its tasks call the library's steps and do nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from airflow.sdk import DAG, get_parsing_context

from kafka_ferry.config import Flow
from kafka_ferry.errors import ConfigError, FerryError
from kafka_ferry_airflow.dags.audits import audit_dag
from kafka_ferry_airflow.dags.description import describe, tags_of
from kafka_ferry_airflow.dags.failover import failback_dag, failover_dag
from kafka_ferry_airflow.dags.params import run_params, show_form
from kafka_ferry_airflow.dags.plans import plan_dag
from kafka_ferry_airflow.dags.tasks import BACK_OFF, add_tasks
from kafka_ferry_airflow.dags.timetables import deadline_of, timetable_of
from kafka_ferry_airflow.flow_files import FlowFiles, check_flow
from kafka_ferry_airflow.monitoring.lineage import report_lineage
from kafka_ferry_airflow.notify_task import add_notify_task
from kafka_ferry_airflow.project import Project

Kind = Literal["mirror", "emergency", "audit"]


@dataclass(frozen=True)
class Mirrors:
    """The DAGs of a folder of flows.

    Attributes:
        dags: by DAG id, those of all valid and enabled flows.
        problems: what is wrong with the others: file, key and reason.
    """

    dags: dict[str, DAG]
    problems: tuple[ConfigError, ...]

    def raise_problems(self) -> None:
        """Does nothing if there are none.

        Raises:
            FerryError: listing all of them.
        """
        if self.problems:
            # Several problems of one file are a line each.
            lines = [line for problem in self.problems for line in str(problem).splitlines()]
            count = len(self.problems)
            raise FerryError(f"{count} flow(s) cannot be loaded:", details=lines)


def build_mirrors(
    root: Path,
    kinds: Collection[Kind] = ("mirror", "emergency"),
    check: Callable[[Flow], object] = lambda _: None,
) -> Mirrors:
    """The DAGs of all flow files; never raises because of one of them.

    In the process of a task it makes only the DAG of that task.

    Args:
        root: the folder that holds ``include/configs``: see ``project_root``.
        kinds: which DAGs of each flow: the scheduled ones, those that are started manually in an
            emergency, or those of audits. Airflow reads 200 flows in a second, but not for both.
        check: a further check of each flow; a ``ConfigError`` that it raises is a problem.
    """
    project = Project(root)
    # The tasks' processes load this file too, and Spark's inherit their environment.
    os.environ.setdefault("FERRY_HOME", str(root))
    dag_id = get_parsing_context().dag_id or ""
    flow_files = FlowFiles(project, check).read()
    dags: dict[str, DAG] = {}
    problems = list(flow_files.problems)
    for flow in flow_files.flows.values():
        try:
            dags |= _dags_of(flow, project, dag_id, kinds)
        except ConfigError as error:
            problems.append(error)
        except Exception as error:
            # Errors of Airflow itself about a DAG.
            problems.append(ConfigError(flow.file, flow.name, f"gives no DAG: {error}"))
    return Mirrors(dags, tuple({str(problem): problem for problem in problems}.values()))


def raise_problems(root: Path) -> None:
    """Does nothing if all flow files are valid; keeps no DAG.

    Raises:
        FerryError: listing what is wrong.
    """
    kinds: tuple[Kind, ...] = ("mirror",)
    # The emergency DAGs have the same tasks, from this flow.
    build_mirrors(root, kinds, check_flow).raise_problems()


def _dags_of(flow: Flow, project: Project, dag_id: str, kinds: Collection[Kind]) -> dict[str, DAG]:
    """The DAGs of a flow by their ids; only the requested one, if there is one."""
    dags: list[DAG] = []
    if "mirror" in kinds and dag_id in ("", f"mirror_{flow.slug}"):
        dags.append(mirror_dag(flow, project))
    if "mirror" in kinds and dag_id in ("", f"plan_{flow.slug}"):
        dags.append(plan_dag(flow))
    is_audited = flow.audit_schedule and dag_id in ("", f"audit_{flow.slug}")
    if "audit" in kinds and is_audited:
        dags.append(audit_dag(flow, project))
    if "emergency" in kinds and (not dag_id or dag_id.endswith(f"_{flow.slug}")):
        dags += emergency_dags(flow, project)
    return {dag.dag_id: dag for dag in dags}


def mirror_dag(flow: Flow, project: Project) -> DAG:
    """The DAG ``mirror_{source}_to_{target}``, whose runs each have a data interval.

    Raises:
        ConfigError: the provider of a channel that the flow notifies is not installed.
        Exception: Airflow's own, for a timetable that it does not accept.
    """
    with DAG(
        dag_id=f"mirror_{flow.slug}",
        description=f"Copies {flow.source.alias} to {flow.target.alias}, exactly once, with proof",
        doc_md=describe(flow),
        tags=tags_of(flow, "mirror"),
        schedule=timetable_of(flow),
        # Before it, a run that a person triggers would have no task.
        start_date=flow.begins if flow.schedule else None,
        catchup=flow.catchup,
        max_active_runs=1,
        deadline=deadline_of(flow),
        default_args={"retries": flow.retries, **BACK_OFF},
        auto_register=False,
    ) as dag:
        published = add_tasks(flow, project)
        report_lineage(published, flow)
        add_notify_task(published, flow)
    show_form(dag, run_params())
    dag.validate()  # type: ignore[no-untyped-call]
    return dag


def emergency_dags(flow: Flow, project: Project) -> tuple[DAG, DAG]:
    """The DAGs ``failover_{source}_to_{target}`` and ``failback_{source}_to_{target}``, started by hand.

    Raises:
        ConfigError: if the opposite flow in the flow's file is invalid.
    """
    over = failover_dag(flow)
    back = failback_dag(flow, lambda reverse: add_tasks(reverse, project, reverse_of=flow))
    for dag in (over, back):
        dag.validate()  # type: ignore[no-untyped-call]
    return over, back
