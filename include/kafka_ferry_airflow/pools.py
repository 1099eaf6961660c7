"""The pools whose slots flows share; and a listener that creates missing ones.

A task has one pool, a flow two clusters: unless its file says otherwise, its Spark jobs are in the
pool of the *target*, which has most of the work: written data is replicated, and verification reads it
back; several readers of one source share its page cache, and ``rate.limit.bytes`` bounds their
throughput. A task in a missing pool would wait for ever, so the listener, which the plugin registers,
creates those of a run when the scheduler starts it.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

from airflow.listeners import hookimpl

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from kafka_ferry.config import Flow
    from kafka_ferry_airflow.project import Project

log = logging.getLogger(__name__)

PREFIX: Final = "kafka_ferry_"
SLOTS: Final = "FERRY_POOL_SLOTS"
_DEFAULT_SLOTS: Final = 2
_ALWAYS_THERE: Final = "default_pool"
_PLUGINS: Final = "airflow.plugins"
_PLUGIN: Final = "kafka_ferry"


def pool_of(flow: Flow, project: Project) -> str:
    """The pool of the Spark tasks of ``flow``.

    ``FERRY_POOL``, where it is set, is the pool of all flows. A cluster's own pool is used only where
    the plugin is present to create it.
    """
    if project.pool:
        return project.pool
    cluster = {"target": flow.target, "source": flow.source}.get(flow.pool)
    if cluster is None:
        return flow.pool
    return PREFIX + cluster.alias if _are_made() else _ALWAYS_THERE


def is_made(pool: str) -> bool:
    """Whether the listener makes the pool when a run of it starts: no other pool appears by itself."""
    return pool.startswith(PREFIX)


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """Create the missing pools of a run that the scheduler has just started."""
    from sqlalchemy.orm import object_session  # noqa: PLC0415  (only schedulers need it)

    session, dag = object_session(dag_run), getattr(dag_run, "dag", None)
    if session is None or dag is None:
        return
    for pool in sorted({task.pool for task in dag.tasks if is_made(task.pool)}):
        _make(session, pool)


def _make(session: Session, pool: str) -> None:
    """Add the pool to the scheduler's own transaction, which a listener may not commit."""
    from airflow.models.pool import Pool  # noqa: PLC0415
    from sqlalchemy import insert, select  # noqa: PLC0415

    if session.scalar(select(Pool.id).where(Pool.pool == pool)) is not None:
        return
    row = {
        "pool": pool,
        "slots": _slots(),
        "description": f"Spark jobs that copy to or from {pool.removeprefix(PREFIX)}",
        "include_deferred": False,
    }
    # Another scheduler may do the same at this moment, and an error would abort the transaction.
    statement: Any = insert(Pool).values(**row)
    dialect = session.get_bind().dialect.name
    if dialect == "mysql":
        statement = statement.prefix_with("IGNORE")
    elif dialect == "postgresql":
        from sqlalchemy.dialects import postgresql  # noqa: PLC0415

        statement = postgresql.insert(Pool).values(**row).on_conflict_do_nothing()
    elif dialect == "sqlite":
        statement = statement.prefix_with("OR IGNORE")
    session.execute(statement)
    log.info("Created the pool %s with %d slots.", pool, row["slots"])


def _slots() -> int:
    text = os.environ.get(SLOTS, "")
    return int(text) if text.isdecimal() and int(text) > 0 else _DEFAULT_SLOTS


@cache
def _are_made() -> bool:
    """Whether this Airflow has the plugin whose listener creates pools: not if only the import path has us."""
    return bool(entry_points(group=_PLUGINS, name=_PLUGIN))
