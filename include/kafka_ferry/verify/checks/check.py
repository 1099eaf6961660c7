"""A check of the reconciliation table, and suites of checks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from kafka_ferry.config.options.verify import Severity
from kafka_ferry.flat import columns_of
from kafka_ferry.verify.verdict import Table

Row = TypeVar("Row")


# No slots: Python 3.11 cannot create generic dataclasses with slots.
@dataclass(frozen=True)
class Check(Generic[Row]):
    """One expectation.

    Attributes:
        key: its name in options, one of ``config.options.verify.CHECKS``.
        name: the sentence that should be true.
        left: the column that is checked.
        explain: what is wrong with a row, to follow its name.
        advice: what to check.
        right: the column that must be equal to ``left``; "" where ``left`` must be 0.
        only_where: the column without which a row is not checked; "" for every row.
        severity: its own severity, where it is not the suite's.
    """

    key: str
    name: str
    left: str
    explain: Callable[[Row], str]
    advice: str
    right: str = ""
    only_where: str = ""
    severity: Severity | None = None

    def holds(self, row: Row) -> bool:
        """Whether it is true of ``row``."""
        columns = columns_of(type(row))
        if self.only_where and not columns[self.only_where](row):
            return True
        wanted = columns[self.right](row) if self.right else 0
        return bool(columns[self.left](row) == wanted)


@dataclass(frozen=True)
class Suite(Generic[Row]):
    """Checks of one table; ``severity`` is for checks without their own."""

    name: str
    table: Table
    severity: Severity
    checks: tuple[Check[Row], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the checks look at, each once."""
        named = (name for it in self.checks for name in (it.left, it.right, it.only_where))
        return tuple(dict.fromkeys(filter(None, named)))

    def severities(self, chosen: Mapping[str, Severity]) -> dict[str, Severity]:
        """The severity of each check, by its key.

        Args:
            chosen: the severities that the flow sets, by the checks' keys.
        """
        return {
            check.key: chosen.get(check.key, check.severity or self.severity)
            for check in self.checks
        }
