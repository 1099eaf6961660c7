"""What a failover says of a verification that failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.model import Plan
from kafka_ferry.runs.failover import failed_verification as of_failover
from kafka_ferry.runs.failover.failed_verification import failed_verification
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.run_folder import RECONCILIATION, Reconciliation, RunFolder
from kafka_ferry.verify import Verdict

FAILED = Reconciliation(verdict=Verdict(False, failures=("orders-3 [0, 9): it lacks 9 records",)))


@pytest.mark.parametrize(
    ("content", "in_ledger", "said"),
    [
        (None, False, ""),
        (Reconciliation(verdict=Verdict(True)).to_json(), False, ""),
        (FAILED.to_json(), False, "run-1 failed: orders-3 [0, 9): it lacks 9 records"),
        (FAILED.to_json(), True, "run-1 failed: orders-3 [0, 9): it lacks 9 records"),
        ("{", False, ""),
        ("{", True, "has found ranges of 1 transaction wrong"),
        (None, True, "has found ranges of 1 transaction wrong"),
    ],
    ids=["none", "proved", "failed", "in both", "damaged", "ledger, damaged", "ledger, none"],
)
def test_a_failed_verification_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: str | None,
    in_ledger: bool,
    said: str,
) -> None:
    flow = Flow.model_validate(
        {
            "source": {"alias": "eu", "properties": {"bootstrap.servers": "localhost:1"}},
            "target": {"alias": "us", "properties": {"bootstrap.servers": "localhost:2"}},
            "state.dir": str(tmp_path),
        }
    )
    run = RunFolder(flow_state(flow).folder("runs"), "run-1")
    run.save_plan(Plan(flow.name, "run-1", 1, "A", "B"))
    if content:
        run.files.write(RECONCILIATION, content)
    monkeypatch.setattr(of_failover, "failed_entries", lambda _: {7} if in_ledger else set())
    ledger: Any = None
    notes = list(failed_verification(flow, ledger))
    assert len(notes) == bool(said)
    assert all(said in note for note in notes)
