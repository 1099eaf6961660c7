"""A flow's history: a line for each published run, the newest last, in one file next to the runs.

It stays when runs' folders are deleted, so that plots reach further back than reports. It may be deleted at any
time: the page then knows only the runs that are published after that.
"""

from __future__ import annotations

from typing import Final

from kafka_ferry.as_json import read_checked, reader_of
from kafka_ferry.report.summary import RunSummary
from kafka_ferry.state import StateFolder

HISTORY: Final = "history.jsonl"
KEPT: Final = 2_000
"""Lines that are kept: twelve weeks of an hourly flow."""
_LINE: Final = reader_of(RunSummary)


def remember(runs: StateFolder, summary: RunSummary) -> None:
    """Add a run; the line of the same run, published before, is replaced, unless that was for other records.

    Airflow lets its users delete a run and trigger another one by the same id: one of some topics has not looked at
    what one of all of them has found. Two runs that are published at the same instant may leave one line: it serves
    plots, not proofs.
    """
    again = (summary.run, summary.scope)
    lines = [one for one in read_history(runs) if (one.run, one.scope) != again]
    lines = sorted([*lines, summary], key=lambda one: one.finished_at)[-KEPT:]
    runs.write(HISTORY, b"".join(_LINE.dump_json(line) + b"\n" for line in lines))


def read_history(runs: StateFolder) -> list[RunSummary]:
    """The runs, oldest first; empty where nothing was published yet."""
    return parse_history(runs.read(HISTORY) or b"")


def parse_history(stored: bytes) -> list[RunSummary]:
    """The last lines of a history; lines of other releases are skipped."""
    summaries = []
    for line in stored.splitlines()[-KEPT:]:
        try:
            summaries.append(read_checked(_LINE, line))
        except ValueError:
            continue
    return summaries
