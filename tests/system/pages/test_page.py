"""The API of the page Mirrors, in a real Airflow: what it answers, and to whom."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import quote

import httpx
import pytest

from kafka_ferry.config import load_flow
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_sandbox.airflow import Airflow
from kafka_sandbox.airflow_api import AirflowApi
from tests.support.airflow.page import client, got
from tests.support.runs.shown_flows import Past, add_shown_flow, big_topics
from tests.system.conftest import OUTSIDER, VIEWER

pytestmark = [pytest.mark.alone, pytest.mark.timeout(600)]

SLUG = "shown_to_backup"
DAG = f"mirror_{SLUG}"
FLOWS = "/kafka-ferry/api/flows"
FLOW = f"{FLOWS}/{SLUG}"


@pytest.fixture(scope="module")
def runs(api: AirflowApi, configs: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The ids of the runs of a flow with a past, the newest first; its DAG is paused."""
    past = Past(topics=big_topics(10_000), runs=40, reports=2, lost=(0,), drifts=("a drift",))
    folder = tmp_path_factory.mktemp("shown")
    _, runs = add_shown_flow(configs, folder, past, source="shown")
    api.wait_for_dag(DAG)
    return runs


@pytest.fixture(scope="module")
def admin(airflow: Airflow, runs: list[str]) -> Iterator[httpx.Client]:
    with client(airflow, "admin") as logged_in:
        yield logged_in


def routes(run: str) -> list[str]:
    """All that the application answers."""
    one = f"{FLOW}/runs/{quote(run, safe='')}"
    parts = ["", "/topics", "/partitions", "/history", "/groups", "/runs", "/data_docs/index.html"]
    record = "topic=orders&partition=0"
    parts += ["/offsets", "/offsets/rows", f"/offsets/ranges?{record}"]
    parts += [f"/offsets/record?{record}&offset=0"]
    return [
        FLOWS,
        *(f"{FLOW}{part}" for part in parts),
        *(one, f"{one}/ranges", f"{one}/report"),
        "/kafka-ferry/static/mirrors.js",
    ]


def test_without_a_login_there_is_nothing_to_see(airflow: Airflow, runs: list[str]) -> None:
    with client(airflow, None) as stranger:
        assert {stranger.get(path).status_code for path in routes(runs[0])} == {401}


def test_who_may_look_sees_all_of_it(airflow: Airflow, runs: list[str]) -> None:
    with client(airflow, VIEWER) as viewer:
        answers = {path: viewer.get(path) for path in routes(runs[0])}
    assert {it.status_code for it in answers.values()} == {200}, answers
    for path, answer in answers.items():
        assert answer.headers["cache-control"].startswith("private, no-"), path
        assert answer.headers["x-content-type-options"] == "nosniff", path


def test_who_may_not_read_a_dag_sees_nothing_of_its_flow(airflow: Airflow, runs: list[str]) -> None:
    with client(airflow, OUTSIDER) as outsider:
        about_flows = [path for path in routes(runs[0]) if path.startswith(FLOW + "/")]
        assert {outsider.get(path).status_code for path in about_flows} == {403}
        assert outsider.get(f"{FLOWS}/whatever").status_code == 403
        listed = got(outsider, FLOWS)
        assert (listed["flows"], listed["problems"], listed["folder"]) == ([], [], "")


def test_a_flow_is_listed_with_its_state_and_its_dag(admin: httpx.Client, runs: list[str]) -> None:
    (flow,) = (one for one in got(admin, FLOWS)["flows"] if one["slug"] == SLUG)
    assert (flow["name"], flow["dag_id"], flow["status"]) == ("shown->backup", DAG, "verified")
    assert flow["dag"]["paused"] and flow["last"]["run"] == runs[0]
    assert (flow["last"]["lost"], flow["last"]["drifts"]) == (1_204, 1)
    assert flow["current"]["records_behind"] > 0
    details = got(admin, FLOW)
    assert (details["totals"]["topics"], details["totals"]["partitions"]) == (400, 10_000)
    assert {kind["title"] for kind in details["attention"]} >= {"Lost before it was copied"}
    assert len(got(admin, f"{FLOW}/history")["runs"]) == 40


def test_10_000_partitions_come_in_parts_searched_and_sorted(admin: httpx.Client) -> None:
    path = f"{FLOW}/partitions"
    late = got(admin, path, sort="records_behind", order="desc", limit=3)
    behind = [row["records_behind"] for row in late["rows"]]
    assert late["total"] == 10_000
    assert behind == sorted(behind, reverse=True) and behind[0] > 0
    found = got(admin, path, search="events-0123 17")
    assert [(row["topic"], row["partition"]) for row in found["rows"]] == [("events-0123", 17)]
    last = got(admin, path, offset=9_999)["rows"]
    assert [(row["topic"], row["partition"]) for row in last] == [("events-0399", 24)]
    assert got(admin, path, topic="events-0001")["total"] == 25
    answer = admin.get(path, params={"limit": 50})
    assert answer.elapsed.total_seconds() < 2


def test_a_run_shows_its_ranges_and_groups_their_offsets(
    admin: httpx.Client, runs: list[str]
) -> None:
    run = f"{FLOW}/runs/{quote(runs[0], safe='')}"
    assert got(admin, run)["summary"]["run"] == runs[0]
    ranges = got(admin, f"{run}/ranges", search="events-0007", sort="partition", order="desc")
    assert ranges["total"] == 25 and ranges["rows"][0]["partition"] == 24
    assert ranges["rows"][0]["reasons"] == {"control": 10, "aborted": 2}
    groups = got(admin, f"{FLOW}/groups", search="fraud")
    assert groups["rows"][0]["action"] == "held" and "in use" in groups["rows"][0]["reason"]


def test_reports_and_data_docs_are_pages_without_an_origin(
    admin: httpx.Client, runs: list[str]
) -> None:
    report = f"{FLOW}/runs/{quote(runs[0], safe='')}/report"
    for path in (report, f"{FLOW}/data_docs/index.html"):
        answer = admin.get(path)
        assert answer.headers["content-type"].startswith("text/html")
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "allow-same-origin" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert admin.get(f"{FLOW}/data_docs/").headers["location"] == "index.html"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{FLOWS}/nobody_to_nowhere", 404),
        (f"{FLOW}/runs/none", 404),
        (f"{FLOW}/runs/none/report", 404),
        (f"{FLOW}/data_docs/none.html", 404),
        (f"{FLOW}/data_docs/%2e%2e/runs/history.jsonl", 404),
        (f"{FLOW}/topics?sort=secret", 422),
        (f"{FLOW}/topics?limit=100000", 422),
        (f"{FLOW}/topics?order=sideways", 422),
        ("/kafka-ferry/static/none.js", 404),
        ("/kafka-ferry/static/%2e%2e", 404),
        ("/kafka-ferry/openapi.json", 404),
    ],
)
def test_what_there_is_not_is_said(admin: httpx.Client, path: str, status: int) -> None:
    assert admin.get(path).status_code == status


def test_a_run_that_waits_is_shown_before_it_has_published_anything(
    admin: httpx.Client, api: AirflowApi, runs: list[str]
) -> None:
    # The DAG is paused: the run stays queued.
    waiting = api.trigger(DAG)

    def status() -> tuple[str, str | None]:
        (flow,) = (one for one in got(admin, FLOWS)["flows"] if one["slug"] == SLUG)
        return flow["status"], flow["activity"]

    assert status() == ("verified", "queued")
    listed = got(admin, f"{FLOW}/runs", search=waiting)["rows"]
    assert [(row["run"], row["state"], row["outcome"]) for row in listed] == [
        (waiting, "queued", "")
    ]
    run = got(admin, f"{FLOW}/runs/{quote(waiting, safe='')}")
    assert (run["summary"], run["has_report"]) == (None, False)
    assert {task["task"] for task in run["tasks"]} >= {"plan", "mirror", "publish"}

    # A person says that it has succeeded: nothing of it is proved.
    api.end_run(DAG, waiting, "success")
    assert status() == ("not proved", None)
    run = got(admin, f"{FLOW}/runs/{quote(waiting, safe='')}")
    assert (run["outcome"], run["dag_run"]["state"]) == ("not proved", "success")
    for conf in ({"dry_run": True}, {"topics": ["orders"]}):
        other = api.trigger(DAG, conf)
        assert status() == ("not proved", "queued")
        api.end_run(DAG, other, "success")
        # It has not looked at what the run before it was for.
        assert status() == ("not proved", None)
        outcome = "dry run" if "dry_run" in conf else "not proved"
        assert got(admin, f"{FLOW}/runs", search=other)["rows"][0]["outcome"] == outcome


def test_a_file_that_is_no_flow_is_told_to_who_may_see_such_problems(
    airflow: Airflow, configs: Path, admin: httpx.Client
) -> None:
    broken = configs / "broken.yaml"
    broken.write_text("topiks: [a]\n")
    try:
        assert any("broken.yaml" in problem for problem in got(admin, FLOWS)["problems"])
    finally:
        broken.unlink()


def test_a_pool_that_there_is_not_is_told_with_the_flows_file(
    configs: Path, api: AirflowApi, admin: httpx.Client
) -> None:
    file = configs / "pooled.yaml"
    file.write_text(
        "source: {alias: pooled, bootstrap.servers: 'a:1'}\n"
        "target: {alias: backup, bootstrap.servers: 'b:1'}\n"
        "pool: no_such_pool\n"
    )
    try:
        api.wait_for_dag("mirror_pooled_to_backup")
        (told,) = (it for it in got(admin, FLOWS)["problems"] if "pooled.yaml" in it)
        assert "pool: Airflow has no pool 'no_such_pool': the tasks mirror and verify stay" in told
        # A user who looks at the flow alone sees only a run that goes on.
        (kind,) = got(admin, f"{FLOWS}/pooled_to_backup")["attention"]
        assert kind["sentences"] == [told.partition("pool: ")[2]]
    finally:
        file.unlink()


@pytest.fixture
def state(configs: Path, runs: list[str]) -> Path:
    """The state folder of the flow that is shown."""
    return flow_state(load_flow(configs / "shown.yaml")).local_path or Path()


def test_no_link_in_the_state_folder_is_followed(
    admin: httpx.Client, state: Path, tmp_path: Path
) -> None:
    (tmp_path / "report.html").write_text("fernet key")
    (tmp_path / "x.html").write_text("fernet key")
    evil, docs = state / "runs" / "evil", state / "data_docs"
    for link, names in (
        (evil, tmp_path),
        (docs / "runs", tmp_path),
        (docs / "expectations", Path("/")),
    ):
        if link.is_dir():
            link.rename(link.with_name(f"{link.name}-kept"))
        link.symlink_to(names)
    (docs / "page.html").symlink_to(tmp_path / "x.html")
    (docs / "index.html.old").write_text("not a page")
    paths = (
        "/runs/evil/report",
        "/data_docs/runs/x/x.html",
        "/data_docs/expectations/proc/self/environ",
        "/data_docs/page.html",
        "/data_docs/index.html.old",
        "/data_docs/runs/x/run.json",
    )
    assert {path: admin.get(f"{FLOW}{path}").status_code for path in paths} == dict.fromkeys(
        paths, 404
    )


def test_a_file_that_no_run_has_written_is_named(admin: httpx.Client, state: Path) -> None:
    folder = state / "runs" / "damaged"
    folder.mkdir()
    (folder / "step-plan.json").write_bytes(b"\0" * 100)

    answer = admin.get(f"{FLOW}/runs/damaged")

    assert answer.status_code == 503
    assert "step-plan.json in " in answer.json()["detail"]


@pytest.mark.parametrize(
    "path",
    [
        f"{FLOW}/offsets/record?topic=orders&partition=0&offset={2**70}",
        f"{FLOW}/offsets/record?topic=orders&partition={2**40}&offset=1",
        f"{FLOW}/offsets/ranges?topic=a%00b&partition=0",
        f"{FLOW}/offsets?topic={'t' * 5_000}&partition=0",
        f"{FLOW}/topics?offset={2**70}",
        f"{FLOW}/topics?search=%00",
        f"{FLOW}/runs/a%00b",
        f"{FLOW}/runs/{'r' * 5_000}/report",
        f"{FLOW}/runs/{'r' * 400}/report",
        f"{FLOW}/data_docs/a%00b.html",
        f"{FLOW}/data_docs/{'d' * 400}.html",
        f"{FLOWS}/a%00b",
        "/kafka-ferry/static/a%00b",
        f"/kafka-ferry/static/{'s' * 400}",
    ],
)
def test_no_input_is_an_error_of_the_server(admin: httpx.Client, path: str) -> None:
    assert admin.get(path).status_code in (403, 404, 422)


@pytest.mark.long
def test_a_state_store_that_does_not_answer_is_named_and_nothing_waits_for_it(
    airflow: Airflow, api: AirflowApi, configs: Path, admin: httpx.Client
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=500) as silent:
        store = f"127.0.0.1:{silent.getsockname()[1]}"
        file = configs / "silent_to_backup.yaml"
        file.write_text(
            "source: {alias: silent, bootstrap.servers: 'a:1'}\n"
            "target: {alias: backup, bootstrap.servers: 'b:1'}\n"
            f"state.dir: s3://bucket/ferry?region=a&scheme=http&endpoint_override={store}\n"
        )
        try:
            api.wait_for_dag("mirror_silent_to_backup")
            with ThreadPoolExecutor(60) as readers:
                path = f"{FLOWS}/silent_to_backup"
                refused = [readers.submit(admin.get, path) for _ in range(60)]
                # By then, all of them wait.
                sleep(1.5)
                asked = monotonic()
                # Of the database's few connections, none waits for a store.
                assert admin.get("/api/v2/pools").status_code == 200
                assert monotonic() - asked < 5
                assert got(admin, FLOWS)["flows"]
                assert monotonic() - asked < 30
            answers = [one.result() for one in refused]
            assert {one.status_code for one in answers} == {503}
            assert all("does not answer" in one.json()["detail"] for one in answers)
            listed = got(admin, FLOWS)
            assert any("does not answer" in problem for problem in listed["problems"])
            assert SLUG in {one["slug"] for one in listed["flows"]}
        finally:
            file.unlink()
