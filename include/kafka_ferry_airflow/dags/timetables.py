"""A flow's timetable and its deadline as Airflow's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

# Airflow's own stub of this module lacks what deadlines need.
from airflow.sdk import (  # type: ignore[attr-defined]
    Asset,
    AssetAll,
    AssetAny,
    AssetOrTimeSchedule,
    AsyncCallback,
    CronDataIntervalTimetable,
    DeadlineAlert,
    DeadlineReference,
    DeltaDataIntervalTimetable,
)

from kafka_ferry.config.types.durations import is_duration, read_duration

if TYPE_CHECKING:
    from airflow.sdk.bases.timetable import BaseTimetable
    from airflow.sdk.definitions.asset import BaseAsset

    from kafka_ferry.config import Flow

# By its path: Airflow imports it where the callback runs.
_TOLD_BY: Final = "kafka_ferry_airflow.notify_task.deadline_missed"


def timetable_of(flow: Flow) -> BaseTimetable | BaseAsset | None:
    """When the DAG of ``flow`` runs; None for manual runs only.

    Each run of a cron expression or of a span of time has the data interval that ends where it begins: in
    Airflow 3 a plain cron text would give runs an empty interval, and a backfill of such a run would be
    for no record at all.
    """
    timed = timed_by(flow.schedule, flow.timezone)
    if not flow.schedule_assets:
        return timed
    kind = AssetAny if flow.schedule_assets_when == "any" else AssetAll
    waited_for = kind(*map(_reference, flow.schedule_assets))
    return AssetOrTimeSchedule(timetable=timed, assets=waited_for) if timed else waited_for


def timed_by(schedule: str | None, timezone: str) -> BaseTimetable | None:
    """The timetable of a cron expression or a span of time; None for manual runs only."""
    if schedule and is_duration(schedule):
        return DeltaDataIntervalTimetable(read_duration(schedule))
    if schedule:
        return CronDataIntervalTimetable(schedule, timezone=timezone)
    return None


def _reference(asset: str) -> BaseAsset:
    """An asset that other DAGs update: defining it here too could give it a different URI."""
    return Asset.ref(uri=asset) if "://" in asset else Asset.ref(name=asset)


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
    arguments = {"config": flow.file, "flow": flow.name, "home": os.environ.get("FERRY_HOME", "")}
    return DeadlineAlert(
        reference=reference,
        interval=flow.deadline,
        callback=AsyncCallback(_TOLD_BY, kwargs=arguments),
    )
