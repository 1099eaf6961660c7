"""A flow's deadline as Airflow's alert."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

# Airflow's own stub of this module lacks them.
from airflow.sdk import (  # type: ignore[attr-defined]
    AsyncCallback,
    DeadlineAlert,
    DeadlineReference,
)

if TYPE_CHECKING:
    from kafka_ferry.config import Flow

# By its path: Airflow imports it where the callback runs.
_TOLD_BY: Final = "kafka_ferry_airflow.notify_task.deadline_missed"


def deadline_of(flow: Flow) -> DeadlineAlert | None:
    """The alert for a run of ``flow`` that has not ended in time; None where it may take any time.

    The callback runs in the triggerer, where it can read Airflow's connections. The run continues.
    """
    if flow.deadline is None:
        return None
    reference = (
        DeadlineReference.DAGRUN_LOGICAL_DATE
        if flow.deadline_from == "logical-date"
        else DeadlineReference.DAGRUN_QUEUED_AT
    )
    # The triggerer has loaded no DAG file, and so nothing that tells it where relative paths start.
    told = {"config": flow.file, "flow": flow.name, "home": os.environ.get("FERRY_HOME", "")}
    return DeadlineAlert(
        reference=reference, interval=flow.deadline, callback=AsyncCallback(_TOLD_BY, kwargs=told)
    )
