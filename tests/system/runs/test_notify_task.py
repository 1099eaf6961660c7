"""A real Airflow tells people what became of a run: by mail, in Slack's form, and to a webhook."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafka_sandbox.airflow import Airflow
from kafka_sandbox.airflow_api import AirflowApi
from kafka_sandbox.broker import free_port
from kafka_sandbox.brokers import Brokers
from tests.faults.sides import frozen
from tests.support.airflow.dags import AddDag
from tests.support.records.builders import Record, create_topic
from tests.support.runs.pair import Pair
from tests.support.servers.receivers import HttpReceiver, MailReceiver, http_receiver, mail_receiver
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.alone, pytest.mark.timeout(600)]

ANYBODY = "T000/B000/correct-horse"


@pytest.fixture
def web() -> Iterator[HttpReceiver]:
    with http_receiver() as receiver:
        yield receiver


@pytest.fixture
def mail() -> Iterator[MailReceiver]:
    with mail_receiver() as receiver:
        yield receiver


def connect(api: AirflowApi, tmp_path: Path, web: HttpReceiver, mail: MailReceiver) -> None:
    """Creates the connections that the channels name; no server listens at the last one's address."""
    no_tls = {"from_email": "ferry@example.org", "disable_ssl": True, "disable_tls": True}
    no_tls |= {"retry_limit": 1}
    connections = [
        {"conn_id": "ferry_ops", "conn_type": "slackwebhook", "conn_host": f"{web.url}/slack"},
        {"conn_id": "ferry_mail", "conn_type": "smtp", "conn_host": "127.0.0.1"},
        {"conn_id": "ferry_pager", "conn_type": "http", "conn_host": web.url},
        {
            "conn_id": "ferry_dead",
            "conn_type": "http",
            "conn_host": f"http://127.0.0.1:{free_port()}",
        },
    ]
    connections[0] |= {"conn_password": ANYBODY}
    connections[1] |= {"conn_port": mail.port, "conn_extra": no_tls}
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump({"airflow": {"connections": connections}}))
    api.load_settings(file)


def told(web: HttpReceiver, path: str) -> list[dict[str, Any]]:
    return [json.loads(body) for _, at, _, body in web.requests if at == path]


def events_of(web: HttpReceiver, run_id: str) -> dict[str, dict[str, Any]]:
    """What the webhook was told of a run, by event; nothing may have been told twice."""
    hooks = [hook for hook in told(web, "/hooks") if hook["run"] == run_id]
    by_event = {hook["event"]: hook for hook in hooks}
    assert len(by_event) == len(hooks), hooks
    return by_event


def kill(api: AirflowApi, dag_id: str, run_id: str, task_id: str) -> None:
    """Kills the process of a task as soon as it runs."""
    deadline = time.monotonic() + 120
    while (task := api.task(dag_id, run_id, task_id))["state"] != "running":
        assert time.monotonic() < deadline, task["state"]
        time.sleep(0.2)
    os.kill(task["pid"], signal.SIGKILL)


@pytest.mark.long
def test_a_killed_task_is_told_once_to_each_channel_and_then_that_all_is_well(
    pair: Pair,
    tmp_path: Path,
    add_dag: AddDag,
    airflow: Airflow,
    api: AirflowApi,
    primary: Brokers,
    web: HttpReceiver,
    mail: MailReceiver,
) -> None:
    source, topic = pair.folder.name, pair.unique("orders")
    create_topic(pair.primary.bootstrap, topic)
    pair.produce(topic, [Record(key=b"%d" % number) for number in range(100)])
    connect(api, tmp_path, web, mail)
    dag_id = add_dag(
        topic,
        schedule="",
        retries=0,
        deadline="PT5S",
        notify=[
            {"slack": "ferry_ops", "events": ["failure", "recovered"]},
            {"email": "ferry_mail", "to": ["oncall@example.org"], "events": ["failure"]},
            {"webhook": "ferry_pager", "endpoint": "/hooks"},
            {"webhook": "ferry_dead", "events": ["recovered"]},
        ],
    )

    # Killed before anything is known of the run: the library has left no word.
    with ExitStack() as still:
        # So that the plan does not end between two looks.
        for broker in primary.brokers.values():
            still.enter_context(frozen(broker))
        bad_id = api.trigger(dag_id)
        kill(api, dag_id, bad_id, "plan")
    bad = api.wait(dag_id, bad_id)

    assert (bad.state, bad.tasks["plan"], bad.tasks["notify"]) == ("failed", "failed", "success")
    hook = events_of(web, bad_id)["failure"]
    assert hook["title"] == f"{source}->backup: the task plan failed"
    assert hook["links"]["Run in Airflow"].startswith(f"{airflow.url}/dags/{dag_id}/runs/manual__")
    (slack,) = told(web, f"/slack/{ANYBODY}")
    assert "the task plan failed" in slack["text"]
    ((_, receivers, message),) = mail.mails
    assert receivers == ["oncall@example.org"]
    assert "the task plan failed" in message["Subject"]

    # Good, and late; a channel that cannot be told is tried again, and the others are not.
    good_id = api.trigger(dag_id)
    good = api.wait(dag_id, good_id)

    assert good.state == "success", good.log
    assert good.tasks["notify"] == "failed"
    assert "Could not notify webhook:ferry_dead" in api.log(dag_id, good_id, "notify")
    wait_until(lambda: "deadline" in events_of(web, good_id), 60)
    events = events_of(web, good_id)
    assert set(events) == {"deadline", "recovered"}
    assert events["recovered"]["facts"][0]["details"] == [f"{bad_id} had failed."]
    assert events["recovered"]["links"]["Report"].startswith(f"{airflow.url}/kafka-ferry/api/flows")
    assert "the run has not ended by 20" in events["deadline"]["title"]
    assert len(told(web, f"/slack/{ANYBODY}")) == 2
    assert len(mail.mails) == 1

    links = api.links(dag_id, good_id, "mirror")
    assert links["Report"].startswith("/kafka-ferry/api/flows/")
    assert links["Mirror"].startswith(f"/plugin/mirrors?flow={source}_to_backup&run=manual__")
