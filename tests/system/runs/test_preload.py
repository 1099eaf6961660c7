"""The scheduler imports what tasks need where it forks their processes, and nowhere else."""
# Airflow reads its environment when it is imported.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the listener has imported since."""
    from kafka_ferry_airflow import preload

    names: list[str] = []
    monkeypatch.setattr(preload, "import_module", names.append)
    return names


@pytest.mark.parametrize(
    ("process", "executor", "imports"),
    [
        ("scheduler", "LocalExecutor", True),
        ("scheduler", "CeleryExecutor,LocalExecutor", True),
        ("scheduler", "CeleryExecutor", False),
        ("triggerer", "LocalExecutor", False),
    ],
)
def test_it_imports_where_tasks_are_forked_from_it(
    process: str, executor: str, imports: bool, imported: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka_ferry_airflow import preload

    monkeypatch.setattr(sys, "argv", ["airflow", process])
    monkeypatch.setattr(preload.conf, "get", lambda *_: executor)

    preload.on_starting(component=object())

    assert ("kafka_ferry_airflow.factory" in imported) == imports


def test_a_library_that_cannot_be_imported_does_not_stop_the_scheduler(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from kafka_ferry_airflow import preload

    def fail(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(preload, "import_module", fail)
    monkeypatch.setattr(sys, "argv", ["airflow", "scheduler"])
    monkeypatch.setattr(preload.conf, "get", lambda *_: "LocalExecutor")

    preload.on_starting(component=object())

    assert "cannot be imported in the scheduler" in caplog.text
