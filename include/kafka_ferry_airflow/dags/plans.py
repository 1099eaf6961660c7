"""The DAG ``plan_{source}_to_{target}``, which shows what a run would do, and does nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow.sdk import DAG

from kafka_ferry_airflow.dags.description import tags_of
from kafka_ferry_airflow.dags.params import plan_params, show_form
from kafka_ferry_airflow.dags.steps import ShowPlanOperator

if TYPE_CHECKING:
    from kafka_ferry.config import Flow

_DOC: Final = """\
**Shows what the next run of `mirror_{flow.slug}` would do, and changes nothing on either cluster.**

The log of the task **plan** names what would be copied, created and changed, what would be left out, and why. It
works while `mirror_{flow.slug}` is paused: that DAG's own *Dry run* has to wait until it is unpaused, which starts
its scheduled run too.
"""


def plan_dag(flow: Flow) -> DAG:
    """The DAG that plans a run of ``flow``; it is never paused, since it has no timetable and changes nothing."""
    with DAG(
        dag_id=f"plan_{flow.slug}",
        description=f"Shows what a run from {flow.source.alias} to {flow.target.alias} would do; changes nothing",
        doc_md=_DOC.format(flow=flow),
        tags=tags_of(flow, "plan"),
        schedule=None,
        is_paused_upon_creation=False,
        auto_register=False,
    ) as dag:
        ShowPlanOperator(task_id="plan", flow=flow)
    show_form(dag, plan_params())
    dag.validate()  # type: ignore[no-untyped-call]
    return dag
