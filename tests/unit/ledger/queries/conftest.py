from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_ferry.ledger import Entry, LedgerTable
from kafka_ferry.state import StateFolder
from tests.unit.ledger.entries import FLOW

Ledger = Callable[..., LedgerTable]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Makes the table of a ledger that holds these entries, each at its number."""

    def made(*entries: Entry) -> LedgerTable:
        monkeypatch.setattr(
            "kafka_ferry.ledger.projection.read_ledger", lambda *_: iter(enumerate(entries))
        )
        table = LedgerTable(StateFolder(str(tmp_path)), FLOW)
        table.project(None, "ledger")  # type: ignore[arg-type]
        return table

    return made
