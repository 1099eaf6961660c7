"""Plans, shown on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka_ferry.cli.terminal import out
from kafka_ferry.model import Plan
from kafka_ferry.report.plan_text import Line, Tone, plan_text

_STYLES: Final[dict[Tone, str]] = {
    "plain": "",
    "warning": "yellow",
    "refusal": "red",
    "aside": "dim",
}


def show_plan(planned: Plan, *, verbose: bool = False) -> None:
    """Print a whole plan.

    Args:
        planned: the plan.
        verbose: whether to list each partition instead of sums by topic.
    """
    _show(plan_text(planned, verbose=verbose))


def show_notes(notes: Iterable[object]) -> None:
    """Print notes: what is unusual but does not stop the run."""
    _show(Line(f"NOTE {note}", "warning") for note in notes)


def _show(lines: Iterable[Line]) -> None:
    for line in lines:
        out.print(line.text, style=_STYLES[line.tone])
