"""Where the buttons on a task lead to: what is there to see decides, while the task runs too."""
# Airflow reads its environment when it is imported.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.config.reverse_flow import load_reverse_flow
from kafka_ferry.runs.mirror.spark_ui import SparkApplication
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.run_folder import RunFolder

RUN = "scheduled__2026-11-21T10:00:00+00:00"
QUOTED = "scheduled__2026-11-21T10%3A00%3A00%2B00%3A00"
UI, HISTORY = "http://worker:4040", "http://history:18080"
CONTENT = """
source: {alias: eu, bootstrap.servers: "eu:9092"}
target: {alias: us, bootstrap.servers: "us:9092"}
"""
Links = Callable[..., dict[str, str]]


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flow:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.org/air/")
    monkeypatch.setenv("FERRY_HOME", str(tmp_path))
    monkeypatch.setenv("FERRY_CONFIGS", str(tmp_path / "configs"))
    file = tmp_path / "configs" / "flow.yaml"
    file.parent.mkdir()
    file.write_text(CONTENT)
    return load_flow(file)


@pytest.fixture
def links(flow: Flow, tmp_path: Path) -> Links:
    """The buttons that a task has."""
    from airflow.models.taskinstancekey import TaskInstanceKey

    from kafka_ferry_airflow.links import operator_links

    def shown(
        task: str = "mirror", dag: str = f"mirror_{flow.slug}", shard: int = -1
    ) -> dict[str, str]:
        key = TaskInstanceKey(dag_id=dag, task_id=task, run_id=RUN, map_index=shard)
        found = {link.name: link.get_link(None, ti_key=key) for link in operator_links(tmp_path)}
        return {name: address for name, address in found.items() if address}

    return shown


def run_of(flow: Flow) -> RunFolder:
    return RunFolder(flow_state(flow).folder("runs"), RUN)


def test_before_anything_is_done_a_task_leads_to_its_runs_place_on_the_page(links: Links) -> None:
    assert links() == {"Mirror": f"/air/plugin/mirrors?flow=eu_to_us&run={QUOTED}"}


def test_reports_and_data_docs_have_a_button_once_they_are_written(
    flow: Flow, links: Links
) -> None:
    run_of(flow).files.write("report.html", "")
    flow_state(flow).folder("data_docs").write("index.html", "")

    for task in ("plan", "publish"):
        found = links(task)
        assert found["Report"] == f"/air/kafka-ferry/api/flows/eu_to_us/runs/{QUOTED}/report"
        assert found["Data Docs"] == "/air/kafka-ferry/api/flows/eu_to_us/data_docs/"


def test_a_running_application_has_its_own_page_and_then_the_history_servers(
    flow: Flow, links: Links
) -> None:
    run = run_of(flow)
    run.files.write("spark-mirror.json", SparkApplication("app-7", UI, f"{HISTORY}/").to_json())

    assert links()["Spark"] == UI
    assert "Spark" not in links("verify")
    with run.step("mirror"):
        assert links()["Spark"] == UI
    assert links()["Spark"] == f"{HISTORY}/history/app-7/"


def test_without_a_history_server_the_button_is_gone_when_the_step_has_ended(
    flow: Flow, links: Links
) -> None:
    run = run_of(flow)
    run.files.write("spark-mirror.json", SparkApplication("app-7", UI).to_json())
    with run.step("mirror"):
        pass

    assert "Spark" not in links()


def test_each_shard_has_the_page_of_its_own_application(flow: Flow, links: Links) -> None:
    run_of(flow).files.write("spark-mirror-2.json", SparkApplication("app-7", UI).to_json())

    assert links(shard=2)["Spark"] == UI
    assert "Spark" not in links(shard=1)


def test_an_emergencys_tasks_lead_to_the_flow(links: Links) -> None:
    page = {"Mirror": "/air/plugin/mirrors?flow=eu_to_us"}

    assert links("failover", "failover_eu_to_us") == links("mirror", "failback_eu_to_us") == page


def test_tasks_of_others_have_no_button(links: Links) -> None:
    assert links(dag="another_clients") == links(dag="mirror_eu_to_nowhere") == {}


def test_a_damaged_file_takes_one_button_away_and_no_other(flow: Flow, links: Links) -> None:
    run_of(flow).files.write("spark-mirror.json", "{")

    assert set(links()) == {"Mirror"}


def test_the_spark_connections_extra_names_the_history_server() -> None:
    from airflow.sdk import Connection

    from kafka_ferry_airflow.links import history_conf

    named = Connection(conn_id="s", conn_type="spark", extra=f'{{"history-url": "{HISTORY}"}}')
    odd = Connection(conn_id="s", conn_type="spark", extra='{"history-url": "javascript:alert(1)"}')

    assert history_conf(named) == {"spark.ferry.history.url": HISTORY}
    assert history_conf(odd) == history_conf(Connection(conn_id="s", conn_type="spark")) == {}


@pytest.mark.parametrize("kind", ["mirror", "failback"])
def test_the_log_of_publish_names_a_report_that_opens(flow: Flow, kind: str) -> None:
    from types import SimpleNamespace

    from kafka_ferry.runs import Run
    from kafka_ferry_airflow.dags.steps import PublishOperator

    back = load_reverse_flow(flow.file, flow)
    copied = back if kind == "failback" else flow
    run_of(copied).files.write("report.html", "")
    task = PublishOperator(task_id="publish", flow=copied)

    context: Any = {"ti": SimpleNamespace(dag_id=f"{kind}_{flow.slug}")}
    address = task.report_address(Run(copied, RUN), context)

    if kind == "mirror":
        page = f"/kafka-ferry/api/flows/eu_to_us/runs/{QUOTED}/report"
        assert address == f"https://example.org/air{page}"
    else:
        # The page Mirrors has no flow us_to_eu: no file holds one.
        assert address == str(run_of(back).report_path)
