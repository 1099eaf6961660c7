"""A plan in Airflow: in the plan task's log, and in the approval."""

from __future__ import annotations

import logging
import re
from itertools import islice
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from kafka_ferry.report.plan_text import Line, plan_text

if TYPE_CHECKING:
    from kafka_ferry.model import Plan

_LEVELS: Final = {"warning": logging.WARNING, "refusal": logging.ERROR}
# A user cannot review more than that, and Airflow's page shows it completely.
_LINES_SHOWN: Final = 400
_WIDTH: Final = 88
_TILDES: Final = re.compile("~+")


def log_plan(log: logging.Logger, plan: Plan) -> None:
    """Write a whole plan to a task's log."""
    for line in plan_text(plan):
        log.log(_LEVELS.get(line.tone, logging.INFO), "%s", line.text)


def _wrap(line: Line) -> list[str]:
    """The line as the dialog has room for it; what is plain may be a table's row."""
    if line.tone == "plain":
        return [line.text]
    return wrap(
        line.text, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def plan_markdown(plan: Plan) -> str:
    """A plan as Markdown: nothing in its lines is markup, and what only stays as it is comes last."""
    plan_lines = sorted(plan_text(plan), key=lambda line: line.tone == "aside")
    lines = (part for line in plan_lines for part in _wrap(line))
    shown = list(islice(lines, _LINES_SHOWN))
    more = sum(1 for _ in lines)
    if more:
        shown.append(f"... and {more:,} more lines: see the log of the task plan.")
    # A fence that no line can end: each is one line, and none has so many tildes.
    fence = "~" * (
        6 + max((len(run) for line in shown for run in _TILDES.findall(line)), default=0)
    )
    return "\n".join([f"{fence}text", *shown, fence])
