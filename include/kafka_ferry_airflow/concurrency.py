"""Prevents concurrent runs of a flow that is copied in shards.

Airflow's own limit for one task, ``max_active_tis_per_dag``, would let only one shard copy at a time;
``max_active_runs`` does not count a backfill's runs. So a shard checks before it begins. Two runs that
check at the same moment may still overlap: then one fences the other, and nothing is copied twice.
"""

from __future__ import annotations

import logging
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowRescheduleException

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

# Spread, so that one of several waiting runs is the first.
_PAUSE_S: Final = (20.0, 45.0)


def log_other_runs(context: Context, mirror: str) -> None:
    """Write to the log of a plan that another run copies at the same time.

    Args:
        context: of the plan's task.
        mirror: the id of the DAG whose runs copy.
    """
    ti: Any = context["ti"]
    query = {"dag_id": mirror, "task_ids": ["mirror"], "states": ["running"]}
    other_runs = ti.get_ti_count(**query)
    if other_runs and ti.dag_id == mirror:
        other_runs -= ti.get_ti_count(**query, run_ids=[ti.run_id])
    if other_runs > 0:
        log.warning(
            "Another run of %s is copying: what it has not committed yet counts here as still to copy.",
            mirror,
        )


def await_other_runs(context: Context) -> None:
    """Let the task continue only if no other run of its DAG runs the same task.

    Raises:
        AirflowRescheduleException: another run does; the task gives its slot back and checks again.
    """
    ti: Any = context["ti"]
    query = {"dag_id": ti.dag_id, "task_ids": [ti.task_id], "states": ["running"]}
    other_runs = ti.get_ti_count(**query) - ti.get_ti_count(**query, run_ids=[ti.run_id])
    if other_runs > 0:
        pause = random.uniform(*_PAUSE_S)
        log.info("Another run of %s is copying: checking again in %.0f s.", ti.dag_id, pause)
        again = datetime.now(UTC) + timedelta(seconds=pause)
        raise AirflowRescheduleException(again)  # type: ignore[no-untyped-call]
