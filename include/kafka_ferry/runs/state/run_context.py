"""A run of a flow, and where its state is: what every step of it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_ferry.ledger import ledger_topic
from kafka_ferry.runs.state.flow_state import flow_ledger, flow_state
from kafka_ferry.runs.state.run_folder import RunFolder

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.state import StateFolder


@dataclass(frozen=True, slots=True)
class RunContext:
    """A run of a flow, and where its state is.

    Attributes:
        flow: the flow.
        run_id: the run's id.
        state: the flow's state folder.
        folder: the files that the run's steps leave.
        ledger: the flow's ledger table.
    """

    flow: Flow
    run_id: str
    state: StateFolder
    folder: RunFolder
    ledger: LedgerTable

    @classmethod
    def of(cls, flow: Flow, run_id: str) -> RunContext:
        """The run with this id, which need not have begun."""
        state = flow_state(flow)
        return cls(flow, run_id, state, RunFolder(state.folder("runs"), run_id), flow_ledger(flow))

    def project_ledger(self) -> int:
        """Bring the ledger table up to date; returns the ledger's end.

        Raises:
            FerryError: if the ledger cannot be read.
        """
        return self.ledger.project(self.flow.target, ledger_topic(self.flow.source.alias))
