"""A flow's history: a line for each run."""

from __future__ import annotations

from pathlib import Path

from kafka_ferry.report.summary import RunSummary
from kafka_ferry.runs.state import history
from kafka_ferry.runs.state.history import HISTORY, read_history, remember
from kafka_ferry.state import StateFolder
from tests.support.runs.reports import changed


def a_run(name: str, finished_at: int, **more: object) -> RunSummary:
    """A run of which nothing else matters."""
    return changed(RunSummary(name, finished_at - 1, finished_at, "verified"), **more)


def test_runs_are_remembered_in_the_order_in_which_they_ended(tmp_path: Path) -> None:
    runs = StateFolder(str(tmp_path))
    for name, at in (("b", 20), ("a", 10), ("c", 30)):
        remember(runs, a_run(name, at))
    assert [one.run for one in read_history(runs)] == ["a", "b", "c"]


def test_a_run_that_is_published_again_replaces_its_line(tmp_path: Path) -> None:
    runs = StateFolder(str(tmp_path))
    remember(runs, a_run("a", 10, records=1))
    remember(runs, a_run("b", 20))
    remember(runs, a_run("a", 30, records=2))
    assert [(one.run, one.copied.records) for one in read_history(runs)] == [("b", 0), ("a", 2)]
    # Another run of that id, which is for a part of the flow, takes nothing back.
    remember(runs, a_run("a", 40, partial=True))
    assert [(one.run, one.scope.is_whole) for one in read_history(runs)][1:] == [
        ("a", True),
        ("a", False),
    ]


def test_only_the_newest_runs_are_kept(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(history, "KEPT", 3)
    runs = StateFolder(str(tmp_path))
    for at in range(5):
        remember(runs, a_run(f"run-{at}", at))
    assert [one.run for one in read_history(runs)] == ["run-2", "run-3", "run-4"]


def test_a_line_of_another_release_is_passed_over(tmp_path: Path) -> None:
    runs = StateFolder(str(tmp_path))
    remember(runs, a_run("a", 10))
    runs.write(HISTORY, b'{"shape": "another"}\nnot json\n' + (runs.read(HISTORY) or b""))
    assert [one.run for one in read_history(runs)] == ["a"]


def test_there_is_no_history_before_the_first_run(tmp_path: Path) -> None:
    assert read_history(StateFolder(str(tmp_path / "none"))) == []
