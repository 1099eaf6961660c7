"""The tasks of a run, and what each of them waits for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import TriggerRule

from kafka_ferry_airflow.dags.approval import PlanApprovalOperator
from kafka_ferry_airflow.dags.steps import (
    PlanOperator,
    PublishOperator,
    StepOperator,
    SyncGroupsOperator,
    SyncTopicsOperator,
    UpdateAssetsOperator,
)
from kafka_ferry_airflow.monitoring.assets import flow_alias
from kafka_ferry_airflow.operators import FerrySparkSubmitOperator
from kafka_ferry_airflow.pools import pool_of

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry_airflow.project import Project

BACK_OFF: Final[dict[str, Any]] = {
    "retry_delay": timedelta(seconds=30),
    # A factor. True, as in older Airflow, would be the factor 1.
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=15),
}
# What was copied is verified and reported even if some partitions failed; but not without a plan or
# prepared topics, nor for a dry run.
_AFTER_ALL: Final = TriggerRule.ALL_DONE_MIN_ONE_SUCCESS
# Not max_active_runs: it does not keep a backfill's run and a scheduled one apart.
_ALONE: Final[dict[str, Any]] = {"max_active_tis_per_dag": 1}


def add_tasks(flow: Flow, project: Project, reverse_of: Flow | None = None) -> Any:
    """Add the tasks of a run to the current DAG; returns ``publish``.

    Args:
        flow: what is mirrored.
        project: where the Spark jobs are.
        reverse_of: the file's flow of which ``flow`` is the reverse flow, if it is one: no DAG waits
            for the topics of such a run.
    """
    planned = PlanOperator(task_id="plan", flow=flow)
    # Two concurrent runs would both create what is missing, and record it in the ledger.
    synced = SyncTopicsOperator(task_id="sync_topics", flow=flow, **_ALONE)
    mirror, verify = _spark_tasks(flow, project, reverse_of, planned)
    # Of two concurrent ones, the slower one could move back what the other one has committed.
    grouped = SyncGroupsOperator(
        task_id="sync_groups", flow=flow, trigger_rule=_AFTER_ALL, **_ALONE
    )
    published = PublishOperator(task_id="publish", flow=flow, trigger_rule=_AFTER_ALL)
    if flow.approval == "never":
        planned >> synced
    else:
        # A rejected plan fails this task, and so all tasks that would change anything.
        planned >> PlanApprovalOperator(task_id="approve", flow=flow) >> synced
    ends: list[StepOperator] = [published]
    if reverse_of is None and flow.asset_events != "none":
        # Separate from publish, which fails if one topic did: a failed task emits no events at all.
        announced = UpdateAssetsOperator(
            task_id="update_assets", flow=flow, trigger_rule=_AFTER_ALL, outlets=[flow_alias(flow)]
        )
        ends.append(announced)
    # Few and long retries: Airflow compares whole DAGs each time.
    synced >> [mirror, verify, grouped, *ends]
    mirror >> verify >> grouped >> ends
    return published


def _spark_tasks(
    flow: Flow, project: Project, reverse_of: Flow | None, planned: PlanOperator
) -> tuple[Any, Any]:
    """``mirror``, mapped over its shards where the flow has several, and ``verify``."""
    common: dict[str, Any] = {
        "project": project,
        "flow": flow,
        "reverse_of": reverse_of,
        "conn_id": flow.spark_connection,
        "pool": pool_of(flow, project),
        "priority_weight": flow.priority,
        # Otherwise a task would have the weight of all tasks after it.
        "weight_rule": "absolute",
    }
    verify = FerrySparkSubmitOperator(
        task_id="verify", step="verify", trigger_rule=_AFTER_ALL, **common, **_ALONE
    )
    if flow.shards == 1:
        mirror = FerrySparkSubmitOperator(task_id="mirror", step="mirror", **common, **_ALONE)
        return mirror, verify
    mapped = FerrySparkSubmitOperator.partial(
        task_id="mirror", step="mirror", map_index_template="{{ task.shard_name }}", **common
    )
    return mapped.expand_kwargs(planned.output.map(_arguments)), verify


def _arguments(shard: Mapping[str, Any]) -> dict[str, Any]:
    """What a shard's task is given, and no more: an editor of the XCom of ``plan`` could add other arguments."""
    return {"shard": int(shard["shard"]), "shard_name": str(shard["shard_name"])}
