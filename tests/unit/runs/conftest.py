"""A flow whose clusters no test can reach, and a run of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.ledger.record import Entry
from kafka_ferry.runs.state.run_context import RunContext
from tests.unit.plan.builders import a_flow


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return a_flow(state_dir=str(tmp_path / "state"))


@pytest.fixture
def run_with(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunContext]:
    """Gives the run "run-2" of the flow, whose ledger has some entries."""

    def run(*entries: object) -> RunContext:
        read = "kafka_ferry.ledger.projection.read_ledger"
        monkeypatch.setattr(read, lambda *_: iter(enumerate(entries)))
        context = RunContext.of(flow, "run-2")
        context.project_ledger()
        return context

    return run


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Entry]]:
    """The entries, with their offsets, that a run's progress is counted from."""
    entries: list[tuple[int, Entry]] = []

    def read(_: object, topic: str, start: int) -> Iterator[tuple[int, Entry]]:
        assert topic == "ferry-ledger.primary.internal"
        return iter([it for it in entries if it[0] >= start])

    monkeypatch.setattr("kafka_ferry.runs.mirror.progress_counts.read_ledger", read)
    return entries
