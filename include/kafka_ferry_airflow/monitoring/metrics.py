"""Exports a run's metrics through Airflow's own: to StatsD, OpenTelemetry or Datadog, as Airflow is set up.

All are gauges, so that a repeated task sets the same values again and counts nothing twice.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats

from kafka_ferry.printable import one_line
from kafka_ferry.report.catalogue import METRICS, PREFIX
from kafka_ferry.report.metrics import samples

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.report import RunReport
    from kafka_ferry.report.metrics import Sample

log = logging.getLogger(__name__)

# Airflow logs a stack trace for each, and drops the metric.
_LONGEST_NAME: Final = 250
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_NOT_IN_TAGS: Final = re.compile(r"[,=:|#\s]")


def export_metrics(flow: Flow, report: RunReport) -> None:
    """Set a gauge for each metric of a run; does nothing where Airflow exports no metrics."""
    if not any(_is_on(option) for option in ("statsd_on", "statsd_datadog_enabled", "otel_on")):
        return
    tagged = any(
        _is_on(option)
        for option in ("statsd_influxdb_enabled", "statsd_datadog_enabled", "otel_on")
    )
    too_long = 0
    for sample in samples(report, flow.metrics_detail):
        name = f"{PREFIX}.{sample.name}" if tagged else plain_name(sample)
        if len(name) > _LONGEST_NAME:
            too_long += 1
            continue
        stats.gauge(name, sample.value, tags=_clean(sample.tags) if tagged else None)
    if too_long:
        log.warning("%d metrics have names that are too long for StatsD: left out.", too_long)


def plain_name(sample: Sample) -> str:
    """A metric's name where tags are not supported: it contains their values, in the order of the tags.

    A dot in a value becomes ``__``, as in Airflow's own names, and any invalid character ``_``.
    """
    values = [sample.tags[tag] for tag in METRICS[sample.name].tags if tag in sample.tags]
    parts = [_NOT_IN_NAMES.sub("_", value.replace(".", "__")) or "_" for value in values]
    return ".".join([PREFIX, *parts, sample.name])


def _clean(tags: Mapping[str, str]) -> dict[str, str]:
    return {tag: _NOT_IN_TAGS.sub("_", one_line(value)) for tag, value in tags.items()}


def _is_on(option: str) -> bool:
    return bool(conf.getboolean("metrics", option, fallback=False))
