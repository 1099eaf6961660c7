"""Airflow's Kafka connections reach the library and Spark's driver, and nothing that others can read."""
# Airflow reads its environment when it is imported.
# ruff: noqa: PLC0415

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.runs import Run
from tests.support.airflow.dags import task_context
from tests.system.spark.test_submit import Submissions, connect

SECRET = "c0nnection-5ecret"
EXTRA = {
    "bootstrap.servers": "left:9092",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "ferry",
    "sasl.password": SECRET,
}


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection ``left`` is in a secrets backend of Airflow's, and not in the environment."""
    file = tmp_path / "connections.json"
    file.write_text(json.dumps({"left": {"conn_type": "kafka", "extra": EXTRA}}))
    backend = "airflow.secrets.local_filesystem.LocalFilesystemBackend"
    place = json.dumps({"connections_file_path": str(file)})
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", backend)
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND_KWARGS", place)
    for name in ("LEFT", "NOWHERE"):
        # Whatever a task sets there is gone after the test.
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", "")
        monkeypatch.delenv(f"AIRFLOW_CONN_{name}")


def flow_from(folder: Path, connection: str) -> Flow:
    file = folder / "flow.yaml"
    file.write_text(f"""
        source: {{alias: left, airflow.connection: {connection}}}
        target: {{alias: right, bootstrap.servers: "right:9092"}}
    """)
    return load_flow(file)


@pytest.mark.usefixtures("kept")
def test_a_task_gives_the_library_the_connections_of_its_flow(tmp_path: Path) -> None:
    from kafka_ferry_airflow.connections import provide_connections

    flow = flow_from(tmp_path, "left")
    provide_connections(flow)

    properties = flow.source.client_properties("admin")
    assert properties["bootstrap.servers"] == "left:9092"
    assert SECRET in properties["sasl.jaas.config"]
    assert SECRET not in repr(flow)


@pytest.mark.usefixtures("kept")
def test_a_connection_that_is_not_there_is_named_with_the_flows_file(tmp_path: Path) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from kafka_ferry_airflow.connections import provide_connections

    with pytest.raises(
        AirflowFailException, match=r"left: airflow\.connection: .*'nowhere'"
    ) as said:
        provide_connections(flow_from(tmp_path, "nowhere"))
    assert str(tmp_path / "flow.yaml") in str(said.value)


@pytest.mark.usefixtures("kept")
def test_spark_inherits_the_connection_and_its_command_shows_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka_ferry_airflow import FerrySparkSubmitOperator, Project

    for name in ("PATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "/usr/bin")
    connect(monkeypatch, "local[*]")
    monkeypatch.setattr(Run, "needs_spark", lambda *_: True)
    spark = Submissions(monkeypatch)
    task = FerrySparkSubmitOperator(
        task_id="mirror", step="mirror", project=Project(tmp_path), flow=flow_from(tmp_path, "left")
    )

    task.execute(task_context("run-1"))

    (command,) = spark.commands
    assert SECRET not in command
    assert "left:9092" not in command
    assert SECRET in os.environ["AIRFLOW_CONN_LEFT"]


@pytest.mark.usefixtures("kept")
def test_a_dag_is_made_without_any_connection(tmp_path: Path) -> None:
    from kafka_ferry_airflow import Project
    from kafka_ferry_airflow.factory import mirror_dag

    dag = mirror_dag(flow_from(tmp_path, "nowhere"), Project(tmp_path))

    assert "`the connection nowhere`" in str(dag.doc_md)
