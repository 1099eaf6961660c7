"""The demo says what it waits for."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kafka_sandbox.demo import __main__ as demo


def test_a_wait_is_named_before_it_begins_even_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = io.StringIO()
    monkeypatch.setattr(demo, "console", Console(file=output, highlight=False))

    with demo._stage("Starting Airflow"):
        assert output.getvalue() == "Starting Airflow ...\n"

    assert output.getvalue().endswith(" s  Starting Airflow\n")
