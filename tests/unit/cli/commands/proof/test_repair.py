"""What ``ferry repair`` takes together."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_ferry.cli.entry import app


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        ("--findings", "--topic=eu.orders", "--topic and --findings or --leave"),
        ("--append=orders-3:1", "--set-aside=7", "--append and --ledger or --set-aside"),
        ("--leave=orders-3:1", "--audit=report.json", "--findings or --leave and --audit"),
    ],
)
def test_takes_one_request_at_a_time(tmp_path: Path, first: str, second: str, named: str) -> None:
    (tmp_path / "report.json").write_text("{}")
    second = second.replace("report.json", str(tmp_path / "report.json"))
    result = CliRunner().invoke(app, ["repair", first, second])
    assert result.exit_code == 2
    assert named in " ".join(result.output.replace("│", " ").split())
