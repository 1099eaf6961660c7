"""Two real clusters for the whole session, started when the first test asks for one."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from kafka_ferry import secret_values
from kafka_ferry.config.client.config_providers import ALLOWED
from kafka_ferry.config.permissions import CODE, CONNECTIONS, FILES, HOSTS
from kafka_sandbox.broker import QUICK_CLEANER
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import KafkaCluster, start_all
from tests import PROJECT
from tests.support.examples import examples
from tests.support.records.builders import delete_all_topics
from tests.support.runs.pair import Pair, Unique

settings.register_profile(
    "shared-machine", examples(100), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("shared-machine")

# Spark's workers find the tests' functions there: they look for no module in the current folder.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")])
)

# As the Makefile has them: thousands of unit tests need not be collected only to be left out.
_FOLDERS: Final = {"long": ("system", "faults", "integration", "simulation"), "alone": ("system",)}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the fault storms."""
    storms = parser.getgroup("storms")
    storms.addoption("--storm-seed", type=int, help="repeat the storm with this seed")
    storms.addoption(
        "--storm-faults", type=int, help="how many faults a storm, and rounds a walk has"
    )


def _brokers() -> tuple[int, int]:
    """Of source and target: two each in the first of the processes side by side, one each in the others.

    So both are seen. Tests that need three ask for ``three_brokers``: all the time, six would take a fifth of two
    processors.
    """
    usual = 2 if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0" else 1
    source, target = (
        int(os.environ.get(f"FERRY_{side}_BROKERS", usual)) for side in ("SOURCE", "TARGET")
    )
    return source, target


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The variants that ``short`` does not name are long.

    Raises:
        UsageError: a test has a marker that the Makefile does not look for in its folder.
    """
    for item in items:
        short = item.get_closest_marker("short")
        if short and isinstance(item, pytest.Function) and item.callspec.id not in short.args:
            item.add_marker(pytest.mark.long)
        folder = item.path.relative_to(PROJECT / "tests").parts[0]
        for marker, folders in _FOLDERS.items():
            if item.get_closest_marker(marker) and folder not in folders:
                raise pytest.UsageError(f"{item.nodeid}: only in {folders} may a test be {marker}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Long tests begin until the moment that ``FERRY_BEGIN_UNTIL`` names, in seconds since 1970 (.ci/run)."""
    until = os.environ.get("FERRY_BEGIN_UNTIL")
    if until and time.time() > float(until) and item.get_closest_marker("long"):
        pytest.skip("It would begin too late for CI's machine.")


def pytest_report_header() -> str:
    """How many brokers the tests' clusters have."""
    source, target = _brokers()
    return (
        f"clusters: primary of {source} (FERRY_SOURCE_BROKERS), "
        f"backup of {target} brokers (FERRY_TARGET_BROKERS)"
    )


@pytest.fixture(autouse=True)
def _known_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A password of one test may be a word in the sentences of another."""
    monkeypatch.setattr(secret_values, "_known", {})


@pytest.fixture(autouse=True)
def _may_look_up_what_a_file_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on the command line, also after a test that did what Airflow's processes do: they forbid it."""
    for name in (ALLOWED, FILES, CODE, HOSTS, CONNECTIONS):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def _clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Brokers]]:
    home = tmp_path_factory.mktemp("clusters")
    clusters = {
        name: Brokers(home / name, count=count, config=QUICK_CLEANER)
        for name, count in zip(("primary", "backup"), _brokers(), strict=True)
    }
    try:
        start_all(clusters.values())
        for cluster in clusters.values():
            # Otherwise nothing would tell that tests have come to ask one broker for everything.
            cluster.assert_spread()
        yield clusters
    finally:
        for cluster in clusters.values():
            cluster.wipe()


@pytest.fixture(scope="module")
def three_brokers(
    _clusters: dict[str, Brokers], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Brokers]:
    """A cluster of three brokers, for tests of replicas, racks and moved leaders: ``backup`` where that has as many.

    Others end with the file: while they idle they would take more of the processors than a start does.
    """
    if len(_clusters["backup"].brokers) >= 3:
        yield _clusters["backup"]
        delete_all_topics(_clusters["backup"])
        return
    three = Brokers(tmp_path_factory.mktemp("three") / "backup", config=QUICK_CLEANER)
    try:
        start_all([three])
        yield three
    finally:
        three.wipe()


@pytest.fixture(scope="module")
def primary(_clusters: dict[str, Brokers]) -> Iterator[KafkaCluster]:
    """The cluster that is copied, without the topics of the tests of another file.

    Brokers look at all their partitions each time they replicate one.
    """
    yield _clusters["primary"]
    delete_all_topics(_clusters["primary"])


@pytest.fixture(scope="module")
def backup(_clusters: dict[str, Brokers]) -> Iterator[KafkaCluster]:
    """The cluster that is copied to, as ``primary`` without the topics of another file's tests."""
    yield _clusters["backup"]
    delete_all_topics(_clusters["backup"])


@pytest.fixture
def unique() -> Unique:
    """Makes a name of a topic, a group or a flow that no other test has."""
    return lambda prefix: f"{prefix}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def folder(tmp_path: Path, unique: Unique) -> Path:
    """A folder whose name, and so a flow's source alias, no other test has."""
    folder = tmp_path / unique("src")
    folder.mkdir()
    return folder


@pytest.fixture
def pair(folder: Path, primary: KafkaCluster, backup: KafkaCluster, unique: Unique) -> Pair:
    """Both clusters with a folder and names; where a file has a ``primary`` or ``backup`` of its own, that one."""
    return Pair(folder, primary, backup, unique)
