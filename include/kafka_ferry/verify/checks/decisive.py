"""The checks that decide, and the rows of which they are not true. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka_ferry.verify.checks.check import Check, Row, Suite
from kafka_ferry.verify.checks.partitions import PARTITIONS
from kafka_ferry.verify.checks.ranges import RANGES
from kafka_ferry.verify.checks.warnings import WARNINGS
from kafka_ferry.verify.verdict import Table, Verdict


def decisive(
    table: Table,
    verdict: Verdict | None,
    suites: Iterable[Suite[Any]] = (RANGES, WARNINGS, PARTITIONS),
) -> tuple[Check[Any], ...]:
    """The checks of a table that fail a run, by the run's verdict.

    Args:
        table: the table.
        verdict: the run's; without one, what is critical by itself.
        suites: the suites with its checks.
    """
    judged = (
        {}
        if verdict is None
        else {expectation.key: expectation.severity for expectation in verdict.expectations}
    )
    return tuple(
        check
        for suite in suites
        if suite.table == table
        for check in suite.checks
        if suite.severities(judged)[check.key] == "critical"
    )


def unproved_rows(
    table: Table,
    verdict: Verdict | None,
    rows: Iterable[Row],
    suites: Iterable[Suite[Any]] = (RANGES, WARNINGS, PARTITIONS),
) -> list[Row]:
    """The rows of a table of which a check is not true that fails a run; arguments as of ``decisive``."""
    checks = decisive(table, verdict, suites)
    return [row for row in rows if not all(check.holds(row) for check in checks)]
