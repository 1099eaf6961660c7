"""What several integration tests ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_sandbox.broker import Broker
from tests.support.runs.proof import judge_without_docs, recount_here
from tests.support.runs.waits import shorten_waits


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verifications recount in this process; no Data Docs are written."""
    recount_here(monkeypatch)


@pytest.fixture
def without_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verifications recount in Spark; no Data Docs are written."""
    judge_without_docs(monkeypatch)


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that contradicts the ledger is about to change: runs need not wait long for it."""
    shorten_waits(monkeypatch)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of its own, whose logs are changed while it is stopped."""
    broker = Broker(tmp_path_factory.mktemp("target"))
    broker.start()
    try:
        yield broker.wait_ready()
    finally:
        broker.wipe()
