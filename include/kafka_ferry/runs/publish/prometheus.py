"""Exports a run's metrics to Prometheus: a file for its collectors, and a push to a Pushgateway.

A failed export does not fail the run: it becomes a sentence in its report.
"""

from __future__ import annotations

import base64
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPException
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError, URLError

from prometheus_client import CollectorRegistry, generate_latest, push_to_gateway
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import default_handler

from kafka_ferry.config.files.password_files import read_push_credentials
from kafka_ferry.config.types.home import at_home
from kafka_ferry.errors import FerryError
from kafka_ferry.printable import excerpt, one_line
from kafka_ferry.report.catalogue import METRICS
from kafka_ferry.report.metrics import Sample, samples

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.report import RunReport

log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 10
_Headers = list[tuple[str, str]]


def export_to_prometheus(flow: Flow, report: RunReport) -> list[str]:
    """Export the run's metrics to the file and the Pushgateway that the flow names.

    Returns:
        A sentence for each failure.
    """
    if not flow.metrics_prometheus_dir and not flow.metrics_prometheus_push_url:
        return []
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(samples(report, flow.metrics_detail)))
    return [*_write(flow, registry), *_push(flow, registry)]


class _Collector:
    """Samples as prometheus-client collects them; they may be collected more than once."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        order = {name: at for at, name in enumerate(METRICS)}
        self._samples = sorted(samples, key=lambda sample: order[sample.name])

    def collect(self) -> Iterator[Metric]:
        for name, same in groupby(self._samples, key=attrgetter("name")):
            metric = METRICS[name]
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family: Any = kind(metric.prometheus_name, f"{metric.meaning}.")
            sample_name = metric.prometheus_name
            for sample in same:
                # Two names that look alike would be one sample twice, for which Prometheus refuses all others too.
                tags = {
                    tag: one_line(value.replace("\\", "\\\\")) for tag, value in sample.tags.items()
                }
                family.add_sample(sample_name, tags, sample.value)
            yield family


def _write(flow: Flow, registry: CollectorRegistry) -> Iterator[str]:
    if not flow.metrics_prometheus_dir:
        return
    folder = at_home(flow.metrics_prometheus_dir, flow.file)
    file = folder / f"kafka-ferry-{flow.slug}.prom"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_whole(file, registry)
    except OSError as error:
        yield _missing_text(
            f"the metrics could not be written to {file}: {error.strerror or error}."
        )


def _write_whole(file: Path, registry: CollectorRegistry) -> None:
    # Under another name first, so that collectors never see half of it. Who may write in the folder too could put a
    # link under either name: a new file is opened through none, and keeps its mode when it is renamed.
    descriptor, unfinished = mkstemp(dir=file.parent, prefix=f"{file.name}.")
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(generate_latest(registry))
            # node_exporter runs as another user.
            os.fchmod(descriptor, 0o644)
        Path(unfinished).replace(file)
    except BaseException:
        Path(unfinished).unlink()
        raise


def _push(flow: Flow, registry: CollectorRegistry) -> Iterator[str]:
    url = flow.metrics_prometheus_push_url
    if not url:
        return
    try:
        push_to_gateway(
            url,
            job=flow.metrics_prometheus_push_job,
            registry=registry,
            grouping_key={"source": flow.source.alias, "target": flow.target.alias},
            timeout=_TIMEOUT_S,
            handler=_handler(flow),
        )
    # Of a host's name that is none, or an address in other letters.
    except (OSError, HTTPException, UnicodeError, FerryError) as error:
        yield _missing_text(f"the metrics could not be pushed to {url}: {_reason(error)}.")


def _handler(flow: Flow) -> Callable[..., Callable[[], None]]:
    """prometheus-client's handler, with the Pushgateway's credentials."""
    login = _login(read_push_credentials(flow))

    def handle(
        url: str, method: str, timeout: float | None, headers: _Headers, data: bytes
    ) -> Callable[[], None]:
        return default_handler(url, method, timeout, [*headers, *login], data)

    return handle


def _login(credentials: dict[str, str]) -> _Headers:
    if "token" in credentials:
        return [("Authorization", f"Bearer {credentials['token']}")]
    if credentials:
        pair = f"{credentials['username']}:{credentials['password']}".encode()
        return [("Authorization", f"Basic {base64.b64encode(pair).decode()}")]
    return []


def _reason(error: Exception) -> str:
    """The error's text; urllib wraps network errors in one of its own."""
    if isinstance(error, URLError) and not isinstance(error, HTTPError):
        return excerpt(str(error.reason))
    return excerpt(str(error))


def _missing_text(sentence: str) -> str:
    log.warning("%s", sentence)
    return sentence[0].upper() + sentence[1:]
