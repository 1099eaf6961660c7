"""Forgetting what runs have left in the state folder, once it has been kept for as long as the flow says.

What is never deleted: the ledger's table and Spark's checkpoint, of which Spark keeps the last batches
by itself; the newest run that was published; and what an unfinished run needs to go on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.verify.expectations.data_docs import forget

log = logging.getLogger(__name__)

_DAY_MS: Final = 24 * 60 * 60 * 1000
_LAST_STEP: Final = "step-publish.json"


@dataclass(frozen=True, slots=True)
class Leavings:
    """What a run has left.

    Attributes:
        changed_at: when any of it was written last, in milliseconds since 1970.
        published: whether the run has come to its end, well or not.
    """

    changed_at: int
    published: bool


def clear_old(flow: Flow) -> None:
    """Delete the folders and Data Docs of runs that the flow has kept for long enough.

    What cannot be deleted is told in the log, and fails nothing: the next run tries again.
    """
    days, many = flow.reports_keep_days, flow.reports_keep_runs
    before = None if days < 0 else now_ms() - days * _DAY_MS
    keep = None if many < 0 else many
    state = flow_state(flow)
    runs = state.folder("runs")
    try:
        old = outdated(leavings(runs.changes()), before=before, keep=keep)
        for name in old:
            runs.delete_folder(name)
        pages = 0
        if state.local_path:
            line = None if before is None else datetime.fromtimestamp(before / 1000, UTC)
            pages = forget(state.local_path / "data_docs", before=line, keep=keep)
    except OSError as error:
        log.warning("Old runs of %s could not be deleted: %s", flow.name, error)
        return
    if old or pages:
        log.info(
            "%s: forgot %d old runs, and the Data Docs of %d (reports.keep.days=%d, "
            "reports.keep.runs=%d)",
            flow.name,
            len(old),
            pages,
            days,
            many,
        )


def leavings(files: Mapping[str, int]) -> dict[str, Leavings]:
    """What each run's folder holds.

    Args:
        files: by path below the runs' folder, when each file changed.
    """
    found: dict[str, Leavings] = {}
    for path, changed_at in files.items():
        name, separator, rest = path.partition("/")
        if separator:
            known = found.get(name, Leavings(0, published=False))
            found[name] = Leavings(
                max(known.changed_at, changed_at), known.published or rest == _LAST_STEP
            )
    return found


def outdated(
    runs: Mapping[str, Leavings], *, before: int | None, keep: int | None
) -> tuple[str, ...]:
    """The runs whose folders are to go, oldest first.

    A run that did not come to its end goes only when nothing was written to its folder for as long as
    reports are kept, and a newer run has come to its end since: that one has copied all that was left.

    Args:
        runs: the runs by their folders.
        before: what was written last before this time is old; None for nothing.
        keep: how many published runs stay at the most; None for any number.
    """
    return tuple(sorted(_outdated(runs, before, keep), key=lambda name: runs[name].changed_at))


def _outdated(runs: Mapping[str, Leavings], before: int | None, keep: int | None) -> Iterator[str]:
    published = sorted(
        (name for name, left in runs.items() if left.published),
        key=lambda name: (runs[name].changed_at, name),
        reverse=True,
    )
    if not published:
        return
    newest = runs[published[0]].changed_at
    for place, name in enumerate(published[1:], 1):
        is_old = before is not None and runs[name].changed_at < before
        if is_old or (keep is not None and place >= keep):
            yield name
    for name, left in runs.items():
        if not left.published and before is not None and left.changed_at < min(before, newest):
            yield name
