"""Which runs' folders are forgotten, and that nothing else is."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.runs.state import cleanup
from kafka_ferry.runs.state.cleanup import RunFiles, delete_old_runs, outdated_runs, run_files
from kafka_ferry.runs.state.flow_state import flow_state

DAY_MS = 24 * 60 * 60 * 1000
NOW = int(datetime(2026, 11, 21, tzinfo=UTC).timestamp() * 1000)


def left(**runs: int) -> dict[str, RunFiles]:
    """Runs by the days since they ended; those whose name begins with ``un`` never did."""
    return {
        name: RunFiles(NOW - days * DAY_MS, published=not name.startswith("un"))
        for name, days in runs.items()
    }


def gone(runs: dict[str, RunFiles], days: int | None = None, keep: int | None = None) -> set[str]:
    before = None if days is None else NOW - days * DAY_MS
    return set(outdated_runs(runs, before=before, keep=keep))


def test_runs_go_that_are_older_than_the_days() -> None:
    assert gone(left(a=91, b=90, c=89, d=1), days=90) == {"a"}


def test_runs_go_that_are_not_among_the_newest() -> None:
    assert gone(left(a=4, b=3, c=2, d=1), keep=2) == {"a", "b"}


def test_either_limit_is_enough() -> None:
    assert gone(left(a=40, b=3, c=2, d=1), days=30, keep=2) == {"a", "b"}


def test_without_limits_nothing_goes() -> None:
    assert gone(left(a=4_000, unfinished=5_000)) == set()


def test_the_newest_run_that_ended_stays_whatever_its_age() -> None:
    assert gone(left(a=500, b=400), days=90, keep=0) == {"a"}
    assert gone(left(a=500, unfinished=400), days=90, keep=0) == set()


def test_a_run_that_did_not_end_goes_only_when_a_newer_one_did_and_it_was_not_touched_for_long() -> (
    None
):
    runs = left(unfinished=200, unlucky=2, a=100, b=1)
    assert gone(runs, days=90) == {"unfinished", "a"}
    assert gone(runs, keep=1) == {"a"}
    assert gone(left(a=300, unfinished=200), days=90) == set()


def test_the_oldest_goes_first() -> None:
    assert outdated_runs(left(a=3, b=9, c=1, d=5), before=None, keep=0) == ("b", "d", "a")


def test_a_run_has_ended_when_its_last_step_is_recorded() -> None:
    files = {
        "groups-seen.json": 99,
        "run-1/plan.json": 3,
        "run-1/step-publish.json": 7,
        "run-2/plan.json": 8,
        "run-2/outcomes/a/step-publish.json": 9,
    }
    assert run_files(files) == {
        "run-1": RunFiles(7, published=True),
        "run-2": RunFiles(9, published=False),
    }


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return Flow.model_validate(
        {
            "source": {"alias": "eu", "properties": {"bootstrap.servers": "localhost:1"}},
            "target": {"alias": "us", "properties": {"bootstrap.servers": "localhost:2"}},
            "state.dir": str(tmp_path),
            "reports.keep.runs": "2",
        }
    )


def fill(flow: Flow) -> None:
    """Three runs and their pages, the ledger's table, the checkpoint, and what lies beside the runs."""
    state = flow_state(flow)
    for number in range(3):
        for name in ("plan.json", "outcomes/a.json", "step-publish.json"):
            state.write(f"runs/run-{number}/{name}", "{}")
        state.write(f"data_docs/runs/2026112{number}T010203000000Z-run-{number}/run.json", "{}")
    for name in ("runs/groups-seen.json", "runs/verified-until.json", "ledger/0-9.parquet"):
        state.write(name, "")
    state.write("data_docs/expectations/ranges.html", "")
    state.write("checkpoint/offsets/0", "")


def test_only_runs_and_their_pages_are_deleted(flow: Flow) -> None:
    fill(flow)
    state = flow_state(flow)
    before = state.changes().keys()

    delete_old_runs(flow)

    assert before - state.changes().keys() == {
        "runs/run-0/plan.json",
        "runs/run-0/outcomes/a.json",
        "runs/run-0/step-publish.json",
        "data_docs/runs/20261120T010203000000Z-run-0/run.json",
    }
    delete_old_runs(flow)
    assert state.folder("runs").folders() == ["run-1", "run-2"]


def test_days_count_from_the_last_change(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(flow)
    later = datetime.now(UTC) + timedelta(days=100)
    monkeypatch.setattr(cleanup, "now_ms", lambda: int(later.timestamp() * 1000))
    delete_old_runs(flow)
    assert flow_state(flow).folder("runs").folders() == ["run-2"]


def test_a_flow_that_never_ran_has_nothing_to_forget(flow: Flow) -> None:
    delete_old_runs(flow)
    assert flow_state(flow).is_empty()


def test_what_cannot_be_deleted_is_told_and_fails_nothing(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fill(flow)

    def refuse(*_: object) -> None:
        raise PermissionError("read-only file system")

    monkeypatch.setattr("kafka_ferry.state.StateFolder.delete_folder", refuse)
    delete_old_runs(flow)
    assert "Old runs of eu->us could not be deleted: read-only file system" in caplog.text
