"""One real Airflow for all the tests that schedule flows: it takes half a minute to start."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, StorageState

from kafka_sandbox.airflow import SETTINGS, Airflow
from kafka_sandbox.airflow_api import AirflowApi
from kafka_sandbox.broker import free_port
from tests.support.airflow.browser import People, chromium, running_browser, screenshot
from tests.support.airflow.dags import AddDag, add_flow
from tests.support.runs.pair import Pair
from tests.support.servers.postgres import Postgres
from tests.support.servers.receivers import UdpReceiver, udp_receiver

# There nothing may be missing, and no test be left out.
IN_CI = bool(os.environ.get("CI"))
VIEWER = "viewer"
# It takes a quarter of a minute, and minutes where much else runs.
RETRY_S = 400
# May log in, and see nothing.
OUTSIDER = "outsider"
FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keeps whether the test has failed, for what is done at its end."""
    report = yield
    if call.when == "call":
        item.stash[FAILED] = report.failed
    return report


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
def postgres() -> Iterator[Postgres | None]:
    """The server that holds Airflow's database; None, for SQLite, where a developer has none installed."""
    if not (IN_CI or Postgres.is_installed()):
        yield None
        return
    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def airflow(
    tmp_path_factory: pytest.TempPathFactory,
    configs: Path,
    statsd: UdpReceiver,
    postgres: Postgres | None,
) -> Iterator[Airflow]:
    """A running Airflow with the connections and pools of airflow_settings.yaml, and three users.

    ``admin`` may do everything, ``viewer`` may only look, ``outsider`` nothing at all. It is as in
    production but for its size: PostgreSQL holds its database, and the LocalExecutor runs its tasks.
    """
    home = tmp_path_factory.mktemp("airflow")
    extra = {
        "FERRY_CONFIGS": str(configs),
        "FERRY_HOME": str(home),
        # An object store of a test is on this machine.
        "FERRY_ALLOW_HOSTS": r"127\.0\.0\.1",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        # Tests have them read when there is a new flow (``tests.support.airflow.dags.have_read``).
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "20",
        # Seconds until the next task of a run is looked for.
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.25",
        # A scheduler that was killed is dead for the next one once it has been silent for 30 s. The
        # next one may begin sooner, and would look again after five minutes only.
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
        "AIRFLOW__METRICS__STATSD_ON": "True",
        "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
        "AIRFLOW__METRICS__STATSD_PORT": str(statsd.port),
    }
    if postgres:
        extra["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = postgres.url
    airflow = Airflow(home, port=free_port(), extra=extra, users={VIEWER: "viewer", OUTSIDER: ""})
    try:
        airflow.start().wait_healthy(RETRY_S).api.load_settings(SETTINGS)
        yield airflow
    finally:
        # Its files go with it: its end need not be orderly.
        airflow.kill()


@pytest.fixture(scope="session")
def api(airflow: Airflow) -> AirflowApi:
    """The REST API of the running Airflow, for who may do everything."""
    return airflow.api


@pytest.fixture
def add_dag(pair: Pair, configs: Path, api: AirflowApi) -> AddDag:
    """Adds flows between the pair's clusters; one without a timetable runs when it is triggered."""

    def add(*topics: str, **options: object) -> str:
        dag_id = add_flow(pair.folder, configs, pair.primary, pair.backup, *topics, **options)
        api.wait_for_dag(dag_id)
        if options.get("schedule") == "":
            assert api.unpause_and_find_run(dag_id) is None
        return dag_id

    return add


@pytest.fixture(autouse=True)
def at_rest(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sees to it that no flow of an ended test is run again by its timetable, beside other tests."""
    yield
    if "airflow" in request.fixturenames:
        request.getfixturevalue("api").pause_all()


@pytest.fixture(scope="session")
def known_people() -> dict[str, StorageState]:
    """What the browser knew after each login: one login of each user is enough."""
    return {}


# Of each file's own: while it runs, its thread can start no other event loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A running Chromium; where a developer has none installed, its tests are left out."""
    try:
        chromium()
    except FileNotFoundError as error:
        if IN_CI:
            raise
        pytest.skip(str(error))
    with running_browser() as browser:
        yield browser


@pytest.fixture
def people(
    browser: Browser,
    airflow: Airflow,
    known_people: dict[str, StorageState],
    request: pytest.FixtureRequest,
) -> Iterator[People]:
    """Opens pages as people who have logged in; shows each one at the end of a failed test."""
    people = People(browser, airflow, known_people)
    try:
        yield people
        if request.node.stash.get(FAILED, True):
            for number, page in enumerate(people.pages()):
                screenshot(page, f"failed-{request.node.name}-{number}")
    finally:
        people.leave()


@pytest.fixture
def browser_page(people: People) -> Page:
    """An empty window of a user who has logged in as ``admin``."""
    return people.page()
