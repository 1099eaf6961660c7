"""OpenLineage hears of both topics of each pair: through its own provider, from the DAG's own task."""
# Airflow reads its environment when it is imported.
# ruff: noqa: PLC0415

from __future__ import annotations

import json
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.run_folder import RunFolder
from kafka_ferry.verify import Verdict
from tests import PROJECT
from tests.support.runs.reports import RANGE, a_report, changed
from tests.support.servers.receivers import http_receiver

RUN = "scheduled__2026-11-21T10:00:00+00:00"
SOURCE, TARGET = "kafka://eu-1:9092", "kafka://us-1:9093"
CONTENT = """
source: {alias: eu, bootstrap.servers: "eu-1:9092, eu-2:9092"}
target: {alias: us, bootstrap.servers: "SSL://us-1:9093"}
"""
ORDERS = changed(RANGE, partition=0, run=RUN)
RANGES = (
    ORDERS,
    changed(ORDERS, partition=1, copied=10),
    changed(ORDERS, topic="clicks", remote_topic="eu.clicks", copied=5),
    # Verified by this run, and copied by another one.
    changed(ORDERS, topic="older", remote_topic="eu.older", run="another"),
)
PROVED = Verdict(success=True)


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flow:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("FERRY_HOME", str(tmp_path))
    monkeypatch.setenv("FERRY_CONFIGS", str(tmp_path))
    file = tmp_path / "flow.yaml"
    file.write_text(CONTENT)
    return load_flow(file)


def leave_report(flow: Flow, verdict: Verdict = PROVED) -> None:
    report = a_report(flow.name, RUN, ranges=RANGES, verdict=verdict)
    runs = flow_state(flow).folder("runs")
    RunFolder(runs, RUN).files.write("report.json", report.to_json())


def extracted() -> Any:
    """What the provider finds when the task ``publish`` of the flow's own DAG has succeeded."""
    from airflow.providers.openlineage.extractors.manager import ExtractorManager
    from airflow.utils.state import TaskInstanceState

    from kafka_ferry_airflow import build_mirrors

    operator = build_mirrors(PROJECT).dags["mirror_eu_to_us"].task_dict["publish"]
    run = SimpleNamespace(run_id=RUN)
    return ExtractorManager().extract_metadata(run, operator, TaskInstanceState.SUCCESS, run)


def emitted(lineage: Any) -> dict[str, Any]:
    """The event of a task that has succeeded, as it arrives where OpenLineage sends it."""
    from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
    from openlineage.client import OpenLineageClient
    from openlineage.client.transport.http import HttpConfig, HttpTransport

    with http_receiver() as receiver:
        client = OpenLineageClient(
            transport=HttpTransport(HttpConfig.from_dict({"url": receiver.url}))
        )
        OpenLineageAdapter(client).complete_task(
            run_id=str(uuid.uuid4()),
            job_name="mirror_eu_to_us.publish",
            end_time="2026-11-21T11:00:00+00:00",
            task=lineage,
            nominal_start_time=None,
            nominal_end_time=None,
            owners=None,
            tags=None,
            job_description=None,
        )
    ((_, _, _, body),) = receiver.requests
    event: dict[str, Any] = json.loads(body)
    return event


def test_an_event_names_what_the_run_copied_from_which_topic_into_which(flow: Flow) -> None:
    leave_report(flow)

    event = emitted(extracted())

    assert event["eventType"] == "COMPLETE"
    inputs = [(one["namespace"], one["name"]) for one in event["inputs"]]
    assert inputs == [(SOURCE, "clicks"), (SOURCE, "orders")]
    outputs = {one["name"]: one for one in event["outputs"]}
    assert list(outputs) == ["eu.clicks", "eu.orders"]
    assert {one["namespace"] for one in outputs.values()} == {TARGET}
    assert outputs["eu.orders"]["outputFacets"]["outputStatistics"]["rowCount"] == 100
    columns = outputs["eu.orders"]["facets"]["columnLineage"]["fields"]
    assert set(columns) == {"key", "value", "headers", "timestamp"}
    ((origin,),) = [column["inputFields"] for name, column in columns.items() if name == "key"]
    assert (origin["namespace"], origin["name"], origin["field"]) == (SOURCE, "orders", "key")
    assert origin["transformations"][0]["subtype"] == "IDENTITY"


@pytest.mark.parametrize("verdict", [Verdict(success=False), None])
def test_what_is_not_proved_is_not_named(flow: Flow, verdict: Verdict | None) -> None:
    leave_report(flow, verdict)  # type: ignore[arg-type]

    lineage = extracted()

    assert (lineage.inputs, lineage.outputs) == ([], [])


def test_a_run_without_a_report_names_nothing(flow: Flow) -> None:
    lineage = extracted()

    assert (lineage.inputs, lineage.outputs) == ([], [])
