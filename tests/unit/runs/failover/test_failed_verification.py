"""What a failover says of a verification that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.model import Plan
from kafka_ferry.runs.failover.failed_verification import failed_verification
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.run_folder import RECONCILIATION, Reconciliation, RunFolder
from kafka_ferry.verify import Verdict

FAILED = Reconciliation(verdict=Verdict(False, failures=("orders-3 [0, 9): it lacks 9 records",)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, False),
        (Reconciliation(verdict=Verdict(True)).to_json(), False),
        (FAILED.to_json(), True),
        ("{", False),
    ],
    ids=["none", "proved", "failed", "damaged"],
)
def test_a_failed_verification_is_named(tmp_path: Path, content: str | None, said: bool) -> None:
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
    notes = list(failed_verification(flow))
    assert bool(notes) == said
    assert not said or "run-1 failed: orders-3 [0, 9): it lacks 9 records" in notes[0]
