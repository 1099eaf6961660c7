from pathlib import Path

import pytest

from kafka_ferry.ledger import LedgerTable

from .projected import Topic, a_table


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Topic:
    topic = Topic()
    monkeypatch.setattr("kafka_ferry.ledger.projection.read_ledger", topic.read_ledger)
    return topic


@pytest.fixture
def table(tmp_path: Path) -> LedgerTable:
    return a_table(tmp_path)
