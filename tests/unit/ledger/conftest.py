from pathlib import Path

import pytest

from kafka_ferry.ledger import LedgerTable
from kafka_ferry.state import StateFolder

from .entries import FLOW
from .projected import Topic


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Topic:
    topic = Topic()
    monkeypatch.setattr("kafka_ferry.ledger.projection.read_ledger", topic.read_ledger)
    return topic


@pytest.fixture
def table(tmp_path: Path) -> LedgerTable:
    return LedgerTable(StateFolder(str(tmp_path)), FLOW)
