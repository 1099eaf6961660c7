"""Two real clusters for the whole session, started when the first test asks for one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from kafka_sandbox.broker import QUICK_CLEANER
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import KafkaCluster, start_all
from tests.support.builders import delete_all_topics
from tests.support.examples import examples

settings.register_profile(
    "shared-machine", examples(100), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("shared-machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the fault storms."""
    storms = parser.getgroup("storms")
    storms.addoption("--storm-seed", type=int, help="repeat the storm with this seed")
    storms.addoption("--storm-faults", type=int, help="how many faults a storm has")


def _source_brokers() -> int:
    """One by turns, so that both are seen: of the processes side by side, every second has three."""
    given = os.environ.get("FERRY_SOURCE_BROKERS")
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return int(given) if given else (3, 1)[int(worker) % 2]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The variants that ``short`` does not name are long."""
    for item in items:
        short = item.get_closest_marker("short")
        if short and isinstance(item, pytest.Function) and item.callspec.id not in short.args:
            item.add_marker(pytest.mark.long)


def pytest_report_header() -> str:
    """How many brokers the tests' clusters have."""
    return f"clusters: primary of {_source_brokers()} (FERRY_SOURCE_BROKERS), backup of 3 brokers"


@pytest.fixture(scope="session")
def _clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Brokers]]:
    home = tmp_path_factory.mktemp("clusters")
    counts = {"primary": _source_brokers(), "backup": 3}
    clusters = {
        name: Brokers(home / name, count=count, config=QUICK_CLEANER)
        for name, count in counts.items()
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
def unique() -> Callable[[str], str]:
    """Makes a name of a topic, a group or a flow that no other test has."""
    return lambda prefix: f"{prefix}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def folder(tmp_path: Path, unique: Callable[[str], str]) -> Path:
    """A folder whose name, and so a flow's source alias, no other test has."""
    folder = tmp_path / unique("src")
    folder.mkdir()
    return folder
