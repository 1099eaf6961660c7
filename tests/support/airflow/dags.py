"""Flows that a running Airflow finds as DAGs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kafka_sandbox.cluster import KafkaCluster
from tests import PROJECT
from tests.support.runs.flows import write_flow

AddDag = Callable[..., str]
"""Gives Airflow a flow of topics with options, as ``add_flow``, and waits for its DAG; the DAG's id."""


def add_flow(
    folder: Path,
    configs: Path,
    source: KafkaCluster,
    target: KafkaCluster,
    *topics: str,
    **options: object,
) -> str:
    """Gives Airflow a flow file; the id of the DAG that it becomes.

    Args:
        folder: where the flow keeps its state; its name is the source's alias.
        configs: where Airflow looks for flow files.
    """
    # A run is due at once, and no second one comes at the next full hour.
    if "schedule_assets" not in options:
        options.setdefault("schedule", "@daily")
    written = write_flow(folder, source, target, topics, **options)
    written.rename(configs / f"{folder.name}.yaml")
    have_read()
    return f"mirror_{folder.name}_to_backup"


def have_read() -> None:
    """Has Airflow read its DAG files now: else it does so when as much time has gone by as it is told to wait."""
    for file in (PROJECT / "dags").glob("*.py"):
        file.touch()


def task_context(run_id: str, **pushed: str) -> Any:
    """What a task is given: its run, and what earlier tasks have pushed, by key."""
    instance = SimpleNamespace(xcom_pull=lambda *, task_ids, key: pushed.get(key))
    return {"run_id": run_id, "ti": instance}
