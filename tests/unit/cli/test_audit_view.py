"""What ``ferry audit`` prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.cli.audit_view import show_audit
from tests.unit.audit.test_result import DIFFERS, SAME, a_report


def test_partitions_that_are_the_same_are_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    report = a_report(SAME)
    show_audit(report, None)
    printed = capsys.readouterr().out
    assert "orders-3" not in printed
    assert report.headline in printed
    assert "report:" not in printed


def test_partitions_that_differ_come_before_the_headline_with_their_findings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = a_report(SAME, DIFFERS)
    show_audit(report, Path("/reports/report.html"))
    printed = capsys.readouterr().out
    table, _, rest = printed.partition("\nMISSING ")
    assert table.splitlines()[-1].split() == [
        *("orders-3", "eu.orders", "0", "0", "70", "2", "2", "1", "1", "3", "differs")
    ]
    assert rest.startswith("2 records of orders-3 offsets 10 to 11 missing on the target")
    assert rest.index("FOREIGN") < rest.index(report.headline) < rest.index("report:   /reports/")


def test_a_long_list_of_findings_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show_audit(a_report(*[DIFFERS] * 60), None)
    printed = capsys.readouterr().out
    assert printed.count("\norders-3 ") == 50
    assert "and 10 more partitions" in printed
    assert f"and {60 * len(DIFFERS.findings) - 50} more findings" in printed
