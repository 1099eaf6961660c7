"""A listener that fails a run without tasks, which Airflow would call successful.

A run that a person triggers with a logical date before the ``start.date`` of its flow has none. So has one that is
triggered now, where that date is still to come.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from airflow.listeners import hookimpl

from kafka_ferry_airflow.dags.description import TAG

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

log = logging.getLogger(__name__)

_REASON: Final = (
    "It has no tasks, and has done nothing: its logical date is before start.date of the flow's file. Trigger it with "
    "a later logical date or without one, or set start.date earlier."
)


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """Fail a run of a flow that the scheduler has just started, if it has no task; its note says why."""
    from sqlalchemy.orm import object_session  # noqa: PLC0415  (only schedulers need it)

    session, dag = object_session(dag_run), getattr(dag_run, "dag", None)
    if session is None or dag is None or TAG not in dag.tags or _has_tasks(session, dag_run):
        return
    from airflow.utils.state import DagRunState  # noqa: PLC0415

    log.error("%s, run %s: %s", dag_run.dag_id, dag_run.run_id, _REASON)
    dag_run.state = DagRunState.FAILED
    dag_run.note = _REASON


def _has_tasks(session: Session, dag_run: Any) -> bool:
    from airflow.models.taskinstance import TaskInstance  # noqa: PLC0415
    from sqlalchemy import select  # noqa: PLC0415

    of_run = (TaskInstance.dag_id == dag_run.dag_id, TaskInstance.run_id == dag_run.run_id)
    return session.scalar(select(TaskInstance.id).where(*of_run).limit(1)) is not None
