"""A run of a flow, and where its state is: what every step of it needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from kafka_ferry.ledger import LedgerTable, ledger_topic
from kafka_ferry.runs.state.flow_state import flow_ledger, flow_state
from kafka_ferry.runs.state.run_folder import RunFolder
from kafka_ferry.state import StateFolder

if TYPE_CHECKING:
    from kafka_ferry.config import Flow


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

    def with_id(self, run_id: str) -> RunContext:
        """Another run of the flow."""
        folder = RunFolder(self.state.folder("runs"), run_id)
        return replace(self, run_id=run_id, folder=folder)

    @contextmanager
    def by_topic(self) -> Iterator[RunContext]:
        """The run with a table of its own, made from the whole topic: others may write to the one in the state folder.

        For what cannot be undone; reads as long as the ledger is.

        Raises:
            FerryError: if the ledger cannot be read.
        """
        with TemporaryDirectory(prefix="ferry-ledger-") as folder:
            run = replace(self, ledger=LedgerTable(StateFolder(folder), self.flow.name))
            run.project_ledger()
            yield run

    def project_ledger(self) -> int:
        """Bring the ledger table up to date; returns the ledger's end.

        Raises:
            FerryError: if the ledger cannot be read; or has lost entries since the run was planned.
        """
        return self.ledger.project(
            self.flow.target,
            ledger_topic(self.flow.source.alias),
            is_relied_on=lambda: self.folder.known_plan() is not None,
        )
