"""Deletes what runs have left in the state folder, once it is older than the flow's options say.

Never deleted: the ledger's table; Spark's checkpoint, of which Spark itself keeps only the last batches;
the newest published run; and what an unfinished run needs to continue.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.state import StateFolder
from kafka_ferry.verify.expectations.data_docs import forget

log = logging.getLogger(__name__)

_DAY_MS: Final = 24 * 60 * 60 * 1000
_LAST_STEP: Final = "step-publish.json"


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files of a run.

    Attributes:
        changed_at: when any of them was last written, in milliseconds since 1970.
        published: whether the run has ended, successfully or not.
    """

    changed_at: int
    published: bool


def delete_old_runs(flow: Flow) -> None:
    """Delete the folders and Data Docs of old runs.

    What cannot be deleted is logged and fails nothing: the next run tries again.
    """
    before, keep = _limits(flow)
    state = flow_state(flow)
    runs = state.folder("runs")
    try:
        old = delete_outdated(flow, runs, _LAST_STEP)
        pages = 0
        if state.local_path:
            line = None if before is None else datetime.fromtimestamp(before / 1000, UTC)
            pages = forget(state.local_path / "data_docs", before=line, keep=keep)
    except (OSError, FerryError) as error:
        log.warning("Old runs of %s could not be deleted: %s", flow.name, error)
        return
    if old or pages:
        log.info(
            "%s: forgot %d old runs, and the Data Docs of %d (reports.keep.days=%d, "
            "reports.keep.runs=%d)",
            flow.name,
            len(old),
            pages,
            flow.reports_keep_days,
            flow.reports_keep_runs,
        )


def delete_outdated(flow: Flow, runs: StateFolder, last: str) -> tuple[str, ...]:
    """Delete what the flow's options do not keep of some folders, each of which ends with the file ``last``.

    Returns:
        The deleted folders.

    Raises:
        OSError: if one cannot be deleted.
    """
    before, keep = _limits(flow)
    old = outdated_runs(run_files(runs.changes(), last), before=before, keep=keep)
    for name in old:
        runs.delete_folder(name)
    return old


def _limits(flow: Flow) -> tuple[int | None, int | None]:
    """The time before which reports are old, and how many stay; None where the flow sets no limit."""
    days, many = flow.reports_keep_days, flow.reports_keep_runs
    return None if days < 0 else now_ms() - days * _DAY_MS, None if many < 0 else many


def run_files(files: Mapping[str, int], last: str = _LAST_STEP) -> dict[str, RunFiles]:
    """What each run's folder holds.

    Args:
        files: by path below the runs' folder, when each file changed.
        last: the file that a run writes when it has ended.
    """
    files_by_run: dict[str, RunFiles] = {}
    for path, changed_at in files.items():
        name, separator, rest = path.partition("/")
        if separator:
            known = files_by_run.get(name, RunFiles(0, published=False))
            files_by_run[name] = RunFiles(
                max(known.changed_at, changed_at), known.published or rest == last
            )
    return files_by_run


def outdated_runs(
    runs: Mapping[str, RunFiles], *, before: int | None, keep: int | None
) -> tuple[str, ...]:
    """The runs whose folders are to be deleted, oldest first.

    An unfinished run is deleted only if nothing was written to its folder for as long as reports are
    kept, and a newer run has ended since: that one has copied all that was left.

    Args:
        runs: the runs by their folders.
        before: runs last written before this time are old; None if runs do not age.
        keep: how many published runs stay at most; None for any number.
    """
    return tuple(sorted(_outdated_runs(runs, before, keep), key=lambda name: runs[name].changed_at))


def _outdated_runs(
    runs: Mapping[str, RunFiles], before: int | None, keep: int | None
) -> Iterator[str]:
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
