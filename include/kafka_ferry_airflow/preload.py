"""Imports the tasks' modules once in the scheduler, whose LocalExecutor forks its tasks' processes.

Otherwise each task imports them again, which takes longer than most tasks. Where tasks run elsewhere
(Celery, Kubernetes) nothing is imported here. Restart the scheduler after a change of the library.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from typing import Any, Final

from airflow.listeners import hookimpl
from airflow.sdk.configuration import conf

log = logging.getLogger(__name__)

_MODULES: Final = (
    "kafka_ferry_airflow.factory",
    "kafka_ferry_airflow.monitoring.metrics",
    "kafka_ferry.report",
    "kafka_ferry.runs.publish.publish",
    "kafka_ferry.runs.verify.verify",
    "kafka_ferry.runs.sync_groups.sync",
    "pandas",
)


@hookimpl
def on_starting(component: Any) -> None:  # noqa: ARG001
    """Import the library, if this process is a scheduler that is about to start its LocalExecutor."""
    # The component is a job that does not know its kind yet.
    if "scheduler" not in sys.argv or "LocalExecutor" not in conf.get("core", "executor"):
        return
    try:
        for module in _MODULES:
            import_module(module)
        from kafka_ferry.verify.expectations.gx import great_expectations  # noqa: PLC0415

        great_expectations()
    except Exception:
        # A task that needs it reports the error.
        log.exception("Kafka Ferry's library cannot be imported in the scheduler")
