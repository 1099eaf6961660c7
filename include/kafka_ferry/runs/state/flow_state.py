"""Where a flow's state is."""

from __future__ import annotations

from kafka_ferry.config import Flow
from kafka_ferry.ledger import LedgerTable
from kafka_ferry.state import StateFolder


def flow_state(flow: Flow) -> StateFolder:
    """The folder with all of the flow's state; it need not exist."""
    return StateFolder(flow.state_path).folder(flow.slug)


def flow_ledger(flow: Flow) -> LedgerTable:
    """The flow's ledger table, as it was last projected."""
    return LedgerTable(flow_state(flow).folder("ledger"), flow.name)
