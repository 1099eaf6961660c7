"""The DAG ``audit_{source}_to_{target}`` of a flow that is audited on a timetable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow.sdk import DAG

from kafka_ferry_airflow.dags.description import tags_of
from kafka_ferry_airflow.dags.tasks import BACK_OFF
from kafka_ferry_airflow.dags.timetables import timed_by
from kafka_ferry_airflow.operators import AuditOperator
from kafka_ferry_airflow.pools import pool_of

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry_airflow.project import Project

_DOC: Final = """\
**Compares the topics of {source} with their copies on {target}, record by record, without the ledger.**

The task fails if anything differs or could not be compared. Its log says what was found; all findings are in
the state folder, under `audits/`.
"""


def audit_dag(flow: Flow, project: Project) -> DAG:
    """The DAG that audits ``flow`` by ``audit.schedule``.

    Raises:
        Exception: Airflow's own, for a timetable that it does not accept.
    """
    with DAG(
        dag_id=f"audit_{flow.slug}",
        description=f"Compares {flow.target.alias} with {flow.source.alias}, record by record",
        doc_md=_DOC.format(source=flow.source.alias, target=flow.target.alias),
        tags=tags_of(flow, "audit"),
        schedule=timed_by(flow.audit_schedule, flow.timezone),
        start_date=flow.begins,
        catchup=False,
        max_active_runs=1,
        default_args={"retries": flow.retries, **BACK_OFF},
        auto_register=False,
    ) as dag:
        AuditOperator(
            task_id="audit",
            project=project,
            flow=flow,
            conn_id=flow.spark_connection,
            pool=pool_of(flow, project),
            priority_weight=flow.priority,
            weight_rule="absolute",
            max_active_tis_per_dag=1,
        )
    dag.validate()  # type: ignore[no-untyped-call]
    return dag
