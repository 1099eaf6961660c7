"""A flow's history: a line for each published run, the newest last, in one file beside the runs.

It stays when runs' folders are cleared away, so that plots reach further back than reports do. It
may be deleted at any time; what is lost then is the past of the plots.
"""

from __future__ import annotations

from typing import Final

from pydantic import TypeAdapter, ValidationError

from kafka_ferry.report.summary import RunSummary
from kafka_ferry.state import StateFolder

HISTORY: Final = "history.jsonl"
KEPT: Final = 2_000
"""Lines that are kept: of an hourly flow, those of twelve weeks."""
_LINE: Final = TypeAdapter(RunSummary)


def remember(runs: StateFolder, summary: RunSummary) -> None:
    """Add a run; the line of the same run, published before, is replaced.

    Two runs that are published in the same instant may leave one line: it is a plot's, not a proof's.
    """
    lines = [one for one in read_history(runs) if one.run != summary.run]
    lines = sorted([*lines, summary], key=lambda one: one.finished_at)[-KEPT:]
    runs.write(HISTORY, b"".join(_LINE.dump_json(line) + b"\n" for line in lines))


def read_history(runs: StateFolder) -> list[RunSummary]:
    """The runs, oldest first; none where nothing was published yet."""
    return parse_history(runs.read(HISTORY) or b"")


def parse_history(stored: bytes, last: int = KEPT) -> list[RunSummary]:
    """The last lines of a history; a line that is none of this release's is passed over."""
    found = []
    for line in stored.splitlines()[-last:]:
        try:
            found.append(_LINE.validate_json(line))
        except ValidationError:
            continue
    return found
