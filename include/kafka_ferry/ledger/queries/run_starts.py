"""The starts of a flow's runs, by its ledger."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from kafka_ferry.ledger.rows import is_one_of

if TYPE_CHECKING:
    from kafka_ferry.ledger.table import LedgerTable
    from kafka_ferry.plan.schedule.sharding import Writers


@dataclasses.dataclass(frozen=True, slots=True)
class RunStart:
    """The record of a run that began to copy.

    Attributes:
        ledger_offset: the record's offset in the ledger.
        run: the run.
        at: when it was written, in milliseconds since 1970.
        writers: how many writers the run has.
        assignment: ``Writers.assignment`` of these.
        file: the flow's file; "" where the run did not say it.
        topics: which topics the flow selected; "" where the run did not say it.
    """

    ledger_offset: int
    run: str
    at: int
    writers: int
    assignment: str = ""
    file: str = ""
    topics: str = ""

    def has_writers(self, writers: Writers) -> bool:
        """Whether the run has these writers, and each partition the same one of them."""
        return (self.writers, self.assignment) == (writers.count, writers.assignment)


def last_run(ledger: LedgerTable) -> RunStart | None:
    """The start that the ledger had last; None where no run has begun."""
    return next(iter(last_runs(ledger, 1)), None)


def last_runs(ledger: LedgerTable, count: int) -> list[RunStart]:
    """The starts that the ledger had last, the newest first, at most ``count``."""
    columns = [field.name for field in dataclasses.fields(RunStart)]
    rows = ledger.read(pc.field("type") == "run", columns)
    newest = rows.slice(max(0, rows.num_rows - count)).to_pylist()
    return [RunStart(**row) for row in reversed(newest)]


def most_writers(ledger: LedgerTable) -> int:
    """The most writers that any run had; 0 where none has begun."""
    rows = ledger.read(pc.field("type") == "run", ["writers"])
    return int(pc.max(rows["writers"]).as_py() or 0)


def selection_at_start(ledger: LedgerTable, run: str) -> str:
    """Which topics the flow selected when a run last began to copy; "" where it did not, or did not say it."""
    rows = ledger.read((pc.field("type") == "run") & (pc.field("run") == run), ["topics"])
    return next(filter(None, reversed(rows["topics"].to_pylist())), "")


def isolation_levels(ledger: LedgerTable, runs: Collection[str]) -> frozenset[str]:
    """By which of the source's records some runs have copied; "unknown" where one of them has never begun.

    What was taken over has been copied by another mirror.
    """
    wanted = (pc.field("type") == "run") & is_one_of("run", runs)
    rows = ledger.read(wanted, ["run", "isolation_level"]).to_pylist()
    levels = frozenset(row["isolation_level"] for row in rows)
    return levels if {row["run"] for row in rows} >= set(runs) else levels | {"unknown"}


def last_start_before(ledger: LedgerTable, run: str) -> int:
    """When the last of the runs other than ``run`` began, in milliseconds since 1970; 0 where there is none."""
    others = (pc.field("type") == "run") & (pc.field("run") != run)
    return int(pc.max(ledger.read(others, ["at"])["at"]).as_py() or 0)
