"""One real Airflow for all the tests that schedule flows: it takes half a minute to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_sandbox.airflow import SETTINGS, Airflow
from kafka_sandbox.airflow_api import AirflowApi
from kafka_sandbox.broker import free_port
from tests.support.receivers import UdpReceiver, udp_receiver


@pytest.fixture(scope="session")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where Airflow looks for flow files."""
    return tmp_path_factory.mktemp("configs")


@pytest.fixture(scope="session")
def statsd() -> Iterator[UdpReceiver]:
    """What Airflow tells of its metrics and of the runs'."""
    with udp_receiver() as receiver:
        yield receiver


@pytest.fixture(scope="session")
def api(
    tmp_path_factory: pytest.TempPathFactory, configs: Path, statsd: UdpReceiver
) -> Iterator[AirflowApi]:
    """A running Airflow with the connections and pools of airflow_settings.yaml."""
    home = tmp_path_factory.mktemp("airflow")
    extra = {
        "FERRY_CONFIGS": str(configs),
        "FERRY_HOME": str(home),
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "2",
        "AIRFLOW__METRICS__STATSD_ON": "True",
        "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
        "AIRFLOW__METRICS__STATSD_PORT": str(statsd.port),
    }
    airflow = Airflow(home, port=free_port(), extra=extra)
    try:
        airflow.start().wait_healthy().api.load_settings(SETTINGS)
        yield airflow.api
    finally:
        airflow.stop()
