"""What comes out of Airflow's notifiers at the other end: an SMTP server, and a web server."""
# Airflow reads its environment when it is imported.
# ruff: noqa: PLC0415

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kafka_ferry.config.client.config_providers import ALLOWED
from kafka_ferry.config.options.notify import Channel
from kafka_ferry.errors import ConfigError, FerryError
from kafka_ferry.report.notice import Notice, fact
from kafka_sandbox.broker import free_port
from tests.support.servers.http_server import QuietHandler, http_server
from tests.support.servers.receivers import http_receiver, mail_receiver
from tests.unit.plan.builders import a_flow

TOKEN = "T000/B000/correct-horse"
# Of a broker that means no good: markup, a template, a mention.
NASTY = "orders-1: <b>{{ 7 * 7 }}</b> <!channel> & more."
NOTICE = Notice(
    "eu->us",
    "scheduled__2026-11-21T10:00:00+00:00",
    1_795_224_552_000,
    (fact("failure", "1 partition not copied to the end", [NASTY], "Clear the task mirror."),),
)
LINKS = {"Report": "http://airflow.example.org/report?a=1&b=2"}


def tell(channel: Channel) -> None:
    from kafka_ferry_airflow.monitoring.channels import send

    send(channel, NOTICE, LINKS)


@pytest.fixture(autouse=True)
def _airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))


def connect(monkeypatch: pytest.MonkeyPatch, name: str, **connection: object) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))


def test_slack_gets_one_text_in_which_only_our_links_are_links(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with http_receiver() as receiver:
        host = f"{receiver.url}/services"
        connect(monkeypatch, "ops", conn_type="slackwebhook", host=host, password=TOKEN)
        tell(Channel("slack", "ops"))

    ((method, path, _, body),) = receiver.requests
    text = json.loads(body)["text"]
    assert (method, path) == ("POST", f"/services/{TOKEN}")
    assert text.startswith("*eu-&gt;us: 1 partition not copied to the end*\nRun scheduled__")
    assert "&lt;b&gt;{{ 7 * 7 }}&lt;/b&gt; &lt;!channel&gt; &amp; more." in text
    assert "What to do: Clear the task mirror." in text
    assert text.endswith("<http://airflow.example.org/report?a=1&b=2|Report>")


def test_an_email_has_a_subject_that_says_it_and_no_markup_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with mail_receiver() as receiver:
        extra = {"from_email": "ferry@example.org", "disable_ssl": True, "disable_tls": True}
        place = {"host": "127.0.0.1", "port": receiver.port}
        connect(monkeypatch, "mail", conn_type="smtp", **place, extra=extra)
        tell(Channel("email", "mail", to=("a@example.org", "b@example.org")))

    ((sender, receivers, mail),) = receiver.mails
    assert (sender, receivers) == ("ferry@example.org", ["a@example.org", "b@example.org"])
    assert mail["Subject"] == "Kafka Ferry: eu->us: 1 partition not copied to the end"
    body = mail.get_body(("html",))
    assert body is not None
    html = body.get_content()
    assert "&lt;b&gt;{{ 7 * 7 }}&lt;/b&gt; &lt;!channel&gt; &amp; more." in html
    assert '<a href="http://airflow.example.org/report?a=1&amp;b=2">Report</a>' in html


def test_a_webhook_gets_json_for_programs_and_a_text_for_people(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with http_receiver() as receiver:
        connect(monkeypatch, "pager", conn_type="http", host=receiver.url, password="p", login="u")
        tell(Channel("webhook", "pager", endpoint="/hooks/kafka"))

    ((method, path, headers, body),) = receiver.requests
    told: Mapping[str, object] = json.loads(body)
    assert (method, path) == ("POST", "/hooks/kafka")
    assert headers["Authorization"].startswith("Basic ")
    assert (told["flow"], told["event"], told["run"]) == ("eu->us", "failure", NOTICE.run)
    assert told["facts"] == [
        {
            "event": "failure",
            "headline": "1 partition not copied to the end",
            "details": [NASTY],
            "more": 0,
            "advice": "Clear the task mirror.",
        }
    ]
    assert told["text"] == "\n".join(NOTICE.lines)
    assert told["links"] == LINKS


@pytest.mark.parametrize("status", [302, 403, 500])
def test_a_receiver_that_refuses_is_an_error(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with http_receiver(status) as receiver:
        connect(monkeypatch, "pager", conn_type="http", host=receiver.url)
        connect(monkeypatch, "ops", conn_type="slackwebhook", host=receiver.url, password=TOKEN)
        for channel in (Channel("webhook", "pager"), Channel("slack", "ops")):
            with pytest.raises(Exception, match=str(status)) as caught:
                tell(channel)
            assert TOKEN not in str(caught.value)


@contextmanager
def endless() -> Iterator[str]:
    """Yields the address of a server whose answer has no end."""

    def answer() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection, suppress(OSError):
                    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                    while True:
                        connection.sendall(b"x" * 2**16)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("channel", [Channel("slack", "ops"), Channel("webhook", "ops")])
def test_an_answer_is_not_read_to_its_end(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    conn_type = "slackwebhook" if channel.kind == "slack" else "http"
    with endless() as host:
        connect(monkeypatch, "ops", conn_type=conn_type, host=host, password=TOKEN)
        tell(channel)


def test_no_redirect_of_slacks_receiver_is_followed_and_no_error_has_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with http_receiver() as inside:

        class Redirect(QuietHandler):
            def do_POST(self) -> None:
                self.answer(302, headers={"Location": inside.url})

        with http_server(Redirect) as url:
            connect(monkeypatch, "ops", conn_type="slackwebhook", password=f"{url}/{TOKEN}")
            with pytest.raises(FerryError, match="a redirect, which is not followed"):
                tell(Channel("slack", "ops"))
    with pytest.raises(FerryError, match=r"slack:ops gives no answer: ConnectionError\.") as caught:
        tell(Channel("slack", "ops"))

    assert TOKEN not in str(caught.value)


def test_a_provider_that_is_missing_is_named_with_the_file_and_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from kafka_ferry_airflow.monitoring import channels

    monkeypatch.setattr(channels, "PROVIDERS", channels.PROVIDERS | {"slack": "no_such_thing"})
    flow = a_flow(notify="email:mail:a@example.org, slack:ops", file="flow.yaml")

    with pytest.raises(ConfigError, match=r"flow.yaml: notify: slack needs .*no_such_thing"):
        channels.check_providers(flow)
    channels.check_providers(a_flow(notify="email:mail:a@example.org, webhook:pager"))


def flow_file(tmp_path: Path) -> str:
    file = tmp_path / "flow.yaml"
    file.write_text(
        'source: {alias: eu, bootstrap.servers: "eu:9092"}\n'
        'target: {alias: us, bootstrap.servers: "us:9092"}\n'
        f"state.dir: {tmp_path}\n"
        "notify: [{webhook: ferry_pager, endpoint: /late}, {webhook: ferry_dead, events: deadline},\n"
        "  {webhook: ferry_pager, endpoint: /failed, events: failure}]\n"
    )
    return str(file)


def late_run(state: str) -> Mapping[str, object]:
    """What Airflow hands to the callback of a deadline, as far as it matters."""
    deadline = {"id": "d", "deadline_time": "2026-11-21T10:15:00+00:00"}
    return {"dag_run": {"dag_run_id": NOTICE.run, "state": state}, "deadline": deadline}


@pytest.mark.parametrize(
    ("state", "paths"), [("running", ["/late"]), ("queued", ["/late"]), ("failed", [])]
)
def test_a_late_run_is_told_to_who_asks_for_it_unless_it_has_failed_by_then(
    state: str, paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka_ferry_airflow.notify_task import deadline_missed

    with http_receiver() as receiver:
        connect(monkeypatch, "ferry_pager", conn_type="http", host=receiver.url)
        # No server is there; the others are told all the same.
        connect(monkeypatch, "ferry_dead", conn_type="http", host=f"http://127.0.0.1:{free_port()}")
        asyncio.run(deadline_missed(flow_file(tmp_path), "eu->us", late_run(state)))

    assert [path for _, path, _, _ in receiver.requests] == paths
    for *_, body in receiver.requests:
        title = json.loads(body)["title"]
        assert title == "eu->us: the run has not ended by 2026-11-21 10:15:00 UTC"


def test_a_late_run_is_told_and_holds_no_thread_where_its_store_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka_ferry.runs.publish.notifications import Notices
    from kafka_ferry_airflow.notify_task import deadline_missed
    from kafka_ferry_airflow.page import store_reads

    over = threading.Event()
    monkeypatch.setattr(store_reads, "READS", store_reads.StoreReads(seconds=0.1))
    monkeypatch.setattr(Notices, "steps_ended", lambda _: over.wait(60))
    with http_receiver() as receiver:
        connect(monkeypatch, "ferry_pager", conn_type="http", host=receiver.url)
        connect(monkeypatch, "ferry_dead", conn_type="http", host=f"http://127.0.0.1:{free_port()}")
        asyncio.run(deadline_missed(flow_file(tmp_path), "eu->us", late_run("running")))
        assert not over.is_set()
        over.set()

    ((*_, body),) = receiver.requests
    assert "Which steps have ended is unknown. The state store" in json.loads(body)["text"]


def test_who_is_told_of_late_runs_and_does_not_end_its_answer_holds_no_thread_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from kafka_ferry_airflow import notify_task

    async def miss_deadlines() -> bool:
        # The loop has four threads more than there are processors, and 32 at most.
        late = [notify_task.deadline_missed("flow.yaml", "eu->us") for _ in range(33)]
        await asyncio.gather(*late)
        return await asyncio.wait_for(asyncio.to_thread(lambda: True), 30)

    over = threading.Event()
    monkeypatch.setattr(notify_task, "_TELLING_S", 0.1)
    monkeypatch.setattr(notify_task, "_tell_late", lambda *_: over.wait(60))
    assert asyncio.run(miss_deadlines())
    over.set()


def test_a_late_flow_reaches_no_more_than_one_in_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka_ferry_airflow.notify_task import deadline_missed

    assert ALLOWED not in os.environ

    asyncio.run(deadline_missed(flow_file(tmp_path), "eu->us", late_run("running")))

    # The test's own end takes it back.
    assert os.environ[ALLOWED] == ""


def test_a_flow_that_is_gone_is_told_to_the_log_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from kafka_ferry_airflow.notify_task import deadline_missed

    asyncio.run(deadline_missed(str(tmp_path / "gone.yaml"), "eu->us", late_run("running")))

    assert "no notification could be sent" in caplog.text


def test_of_mapped_tasks_the_worst_one_counts_and_the_notice_itself_does_not() -> None:
    from kafka_ferry_airflow.notify_task import task_states

    states = {"plan": "success", "sync_topics": "success", "mirror_0": "success"}
    states |= {"mirror_1": "failed", "mirror_10": "running", "notify": "running"}

    assert task_states(states) == {"plan": "success", "sync_topics": "success", "mirror": "failed"}


def test_a_flow_that_notifies_has_a_task_for_it_after_all_others_that_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka_ferry_airflow import build_mirrors

    file = Path(flow_file(tmp_path))
    monkeypatch.setenv("FERRY_CONFIGS", str(tmp_path))
    dag = build_mirrors(tmp_path).dags["mirror_eu_to_us"]
    (last,) = [task for task in dag.tasks if not task.downstream_task_ids]

    assert last.task_id == "notify"
    assert last.is_teardown
    assert not last.on_failure_fail_dagrun
    assert "publish" in last.upstream_task_ids
    assert last.max_active_tis_per_dag == 1

    file.write_text(file.read_text().replace("notify:", "# notify:").replace("  {", "#  {"))
    assert "notify" not in build_mirrors(tmp_path).dags["mirror_eu_to_us"].task_dict


def test_a_provider_that_is_missing_is_a_problem_of_its_flows_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka_ferry_airflow import build_mirrors
    from kafka_ferry_airflow.monitoring import channels

    file = flow_file(tmp_path)
    monkeypatch.setenv("FERRY_CONFIGS", str(tmp_path))
    monkeypatch.setattr(channels, "PROVIDERS", channels.PROVIDERS | {"webhook": "no_such_thing"})

    (problem,) = build_mirrors(tmp_path).problems

    assert str(problem).startswith(f"{file}: notify: webhook needs ")
