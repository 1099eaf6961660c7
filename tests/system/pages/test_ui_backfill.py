"""In a browser: a backfill from Airflow's dialog, its task that fails, and the clearing of it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from kafka_sandbox.airflow_api import AirflowApi
from kafka_sandbox.cluster import KafkaCluster
from tests.support.airflow.browser import People, screenshot
from tests.support.airflow.dags import have_read
from tests.support.records.builders import Record, create_topic, read_all
from tests.support.runs.flows import write_flow
from tests.support.runs.pair import Pair
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.alone, pytest.mark.timeout(900)]

# Of hours, one would often end while the test runs.
DAY = timedelta(days=1)
# Four in a row share a writer, and a shard has whole writers.
PARTITIONS = 5
SHARDS = 2


def records_of(day: datetime) -> list[Record]:
    first = int(day.timestamp() * 1000)
    return [
        Record(
            value=str(day).encode(),
            timestamp=first + number * 60_000,
            partition=number % PARTITIONS,
        )
        for number in range(20)
    ]


def add_flow_by_connection(
    folder: Path, configs: Path, site: str, source: KafkaCluster, target: KafkaCluster, topic: str
) -> str:
    """Gives Airflow a flow whose source is a connection; the id of its DAG."""
    written = write_flow(
        folder, source, target, [topic], auto_offset_reset="latest", shards=SHARDS, shard_by="size"
    )
    flow = json.loads(written.read_text())
    flow["source"] = {"alias": folder.name, "airflow.connection": site}
    (configs / f"{folder.name}.yaml").write_text(json.dumps(flow))
    have_read()
    return f"mirror_{folder.name}_to_backup"


def choose(page: Page, dialog: Locator, label: str, when: datetime) -> None:
    """Fills in one end of the dialog's range of dates."""
    dialog.get_by_role("group").filter(has_text=label).get_by_text("Select date and time").click()
    calendar = page.get_by_role("dialog").filter(has=page.get_by_placeholder("YYYY/MM/DD"))
    calendar.get_by_placeholder("YYYY/MM/DD").fill(when.strftime("%Y/%m/%d"))
    calendar.get_by_placeholder("YYYY/MM/DD").press("Enter")
    calendar.get_by_role("textbox", name="HH:mm").fill(when.strftime("%H:%M"))
    calendar.get_by_role("textbox", name="HH:mm").press("Enter")
    page.keyboard.press("Escape")
    expect(calendar).to_be_hidden()


def backfill(page: Page, dag_id: str, day: datetime) -> None:
    """Runs a backfill of one interval from the dialog of the DAG's page."""
    page.goto(f"/dags/{dag_id}")
    page.get_by_role("button", name="Trigger Dag").click()
    page.get_by_text("Run this Dag for a range of dates").click()
    dialog = page.get_by_role("dialog").filter(has=page.get_by_role("heading", name="Run Backfill"))
    choose(page, dialog, "From", day)
    choose(page, dialog, "To", day)
    expect(dialog.get_by_text("1 run will be triggered")).to_be_visible()
    screenshot(page, "backfill-dialog")
    dialog.get_by_role("button", name="Run Backfill").click()
    expect(page.get_by_text("Backfill generated")).to_be_visible()


def clear(page: Page, dag_id: str, run_id: str, task_id: str) -> None:
    """Clears a task, and all that come after it, on the task's page."""
    page.goto(f"/dags/{dag_id}/runs/{run_id}/tasks/{task_id}")
    expect(page.get_by_text("there is no connection").first).to_be_visible()
    screenshot(page, "clear-failed-task")
    page.get_by_role("button", name="Press shift+c to clear").click()
    dialog = page.get_by_role("dialog").filter(
        has=page.get_by_role("heading", name="Clear Task Instance")
    )
    expect(dialog.get_by_text(re.compile("Affected Tasks: [1-9]"))).to_be_visible()
    screenshot(page, "clear-dialog")
    dialog.get_by_role("button", name="Confirm").click()
    expect(dialog).to_be_hidden()


def failed_backfills(page: Page, source: str) -> object:
    """Those that the flow's page names until they are repeated."""
    answer = page.request.get(f"/kafka-ferry/api/flows/{source}_to_backup")
    return answer.json()["dag"]["failed_backfills"]


def test_a_backfill_is_run_and_a_task_that_failed_is_cleared_without_a_shell(
    pair: Pair, tmp_path: Path, configs: Path, api: AirflowApi, people: People
) -> None:
    source, topic, site = pair.unique("src"), pair.unique("orders"), pair.unique("ferry_site")
    wanted = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - 3 * DAY
    create_topic(pair.primary.bootstrap, topic, PARTITIONS)
    for day in (wanted - DAY, wanted, wanted + DAY):
        pair.produce(topic, records_of(day))
    dag_id = add_flow_by_connection(
        tmp_path / source, configs, site, pair.primary, pair.backup, topic
    )
    api.wait_for_dag(dag_id, 300)
    # The dialogs are higher than a usual window.
    page = people.page(viewport={"width": 1280, "height": 1000})

    # The source's connection does not exist yet: the first task fails at once, and says so.
    backfill(page, dag_id, wanted)
    wait_until(lambda: "failed" in api.runs(dag_id, "backfill").values(), 300)
    (run_id,) = api.runs(dag_id, "backfill")
    assert failed_backfills(page, source) == [run_id]

    api.add_connection(site, "kafka", {"bootstrap.servers": pair.primary.bootstrap})
    clear(page, dag_id, run_id, "plan")
    # The dialog is gone before the tasks are cleared.
    wait_until(lambda: api.runs(dag_id, "backfill")[run_id] != "failed", 30)
    run = api.wait(dag_id, run_id)

    assert run.state == "success", run.log
    assert failed_backfills(page, source) == []
    assert api.states(dag_id, run_id, "mirror") == ["success"] * SHARDS, "a task of each shard"
    parts = read_all(pair.backup.bootstrap, f"{source}.{topic}")
    copied = [record.value for part in parts.values() for record in part]
    assert copied == [str(wanted).encode()] * 20
    page.goto(f"/dags/{dag_id}/runs/{run_id}")
    expect(page.get_by_text("Success").first).to_be_visible()
    screenshot(page, "backfill-run")
