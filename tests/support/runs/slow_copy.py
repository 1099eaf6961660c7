"""A task that copies a planned run, slowly and without Spark, in a process that it has started.

``python -m tests.support.runs.slow_copy FLOW_FILE RUN`` is a supervisor, which forks the task, which starts the
copying process (``--copy``). Each prints who it is; the copying one also what failed, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import psutil

from kafka_sandbox.processes import OrphanGuard
from tests import PROJECT
from tests.support.runs.task_process import is_running
from tests.support.waiting import wait_until

BYTES_PER_S = 16 * 1024
"""Of each writer."""


class SlowCopy:
    """A running task that copies.

    Attributes:
        supervisor: the parent of the task.
        task: holds the guard.
        copier: the process that it has started.
        watcher: the process that ends ``copier``.
    """

    def __init__(self, folder: Path, file: str, run: str) -> None:
        self._log = folder / f"copy-{len(list(folder.glob('copy-*.log')))}.log"
        with self._log.open("wb") as log:
            self.supervisor = subprocess.Popen(
                [sys.executable, "-m", __name__, file, run],
                stdout=log,
                stderr=log,
                cwd=PROJECT,
                env=os.environ | {"PYTHONPATH": f"{PROJECT}{os.pathsep}{PROJECT / 'include'}"},
                start_new_session=True,
            )
        self._orphan_guard = OrphanGuard(-self.supervisor.pid)
        wait_until(lambda: "copier" in self.said, 120)
        self.task, self.copier, self.watcher = map(self._process, ("task", "copier", "watcher"))

    @property
    def said(self) -> str:
        """All that was written so far."""
        return self._log.read_text(errors="replace")

    @property
    def is_gone(self) -> bool:
        """Whether neither the task nor what it has started runs."""
        return not any(map(is_running, (self.task, self.copier)))

    def clean_up(self) -> None:
        """Ends all of it."""
        for process in (self.task, self.copier):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.supervisor.kill()
        self.supervisor.wait()
        self._orphan_guard.release()

    def _process(self, name: str) -> psutil.Process:
        found = re.search(rf"{name} (\d+)", self.said)
        assert found, self.said
        return psutil.Process(int(found[1]))


@contextlib.contextmanager
def slow_copy(folder: Path, file: str, run: str) -> Iterator[SlowCopy]:
    """A task that copies a planned run, ended in any case."""
    copy = SlowCopy(folder, file, run)
    try:
        yield copy
    finally:
        copy.clean_up()


def _copy(file: str, name: str) -> None:
    from kafka_ferry.config import load_flow  # noqa: PLC0415
    from kafka_ferry.copy import copy_for_flow  # noqa: PLC0415
    from kafka_ferry.copy.rate_limit import RateLimit  # noqa: PLC0415
    from kafka_ferry.model.rate import Rate  # noqa: PLC0415
    from kafka_ferry.model.results.failures import RangesFailed  # noqa: PLC0415
    from kafka_ferry.runs import Run  # noqa: PLC0415

    flow = load_flow(file)
    run = Run(flow, name)
    with run._folder.step("mirror"):
        ranges = sorted(run._folder.plan().ranges, key=attrgetter("owner"))
        groups = [list(group) for _, group in groupby(ranges, attrgetter("owner"))]
        with ThreadPoolExecutor(len(groups)) as pool:
            copies = [
                pool.submit(copy_for_flow, flow, name, group, RateLimit(Rate(BYTES_PER_S)))
                for group in groups
            ]
        failures = [it.failure for copy in copies for it in copy.result() if it.failure]
        print(json.dumps([*map(str, failures)]), flush=True)
        if failures:
            raise RangesFailed(failures, transient=True)


def _task(file: str, run: str) -> None:
    # Airflow, which the package's other modules import, is not needed.
    sys.path.insert(0, str(PROJECT / "include" / "kafka_ferry_airflow"))
    from process_guard import ProcessGuard  # noqa: PLC0415

    with ProcessGuard():
        (watcher,) = psutil.Process().children()
        copier = subprocess.Popen([sys.executable, "-m", __spec__.name, "--copy", file, run])
        print(f"watcher {watcher.pid} task {os.getpid()} copier {copier.pid}", flush=True)
        copier.wait()


def main(*arguments: str) -> None:
    if arguments[0] == "--copy":
        _copy(*arguments[1:])
    elif child := os.fork():
        os.waitpid(child, 0)
    else:
        os.setpgid(0, 0)
        _task(*arguments)
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
