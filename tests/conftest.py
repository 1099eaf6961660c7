"""Two real brokers for the whole session, started when the first test asks for one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from kafka_sandbox.broker import QUICK_CLEANER, Broker, start_all

# Brokers and Spark run beside the properties: how long an example takes says nothing.
settings.register_profile(
    "shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("shared-machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the fault storms."""
    storms = parser.getgroup("storms")
    storms.addoption("--storm-seed", type=int, help="repeat the storm with this seed")
    storms.addoption("--storm-faults", type=int, help="how many faults a storm has")


@pytest.fixture(scope="session")
def _clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Broker]]:
    home = tmp_path_factory.mktemp("clusters")
    brokers = {name: Broker(home / name, config=QUICK_CLEANER) for name in ("primary", "backup")}
    try:
        start_all(brokers.values())
        yield brokers
    finally:
        for broker in brokers.values():
            broker.wipe()


@pytest.fixture(scope="session")
def primary(_clusters: dict[str, Broker]) -> Broker:
    """The cluster that is copied."""
    return _clusters["primary"]


@pytest.fixture(scope="session")
def backup(_clusters: dict[str, Broker]) -> Broker:
    """The cluster that is copied to."""
    return _clusters["backup"]


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
