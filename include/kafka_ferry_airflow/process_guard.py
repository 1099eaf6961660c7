"""Ends a task's Spark application when the task ends, in whatever way.

A task's process may be killed without a chance to clean up, and with it, or before it, its supervising
Airflow process. Spark's JVM, its Python driver and their Python workers would continue then: they are in
other process groups, and orphaned. So each task has its own watcher, in its own session: this file, run
as a script. It holds one end of a pipe whose other end only the task holds, and ends all processes that
carry the task's mark in their environment.

Processes on other machines are not reached, such as a driver with ``deploy_mode: cluster``.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import psutil

MARK: Final = "KAFKA_FERRY_TASK"
"""The environment variable that all processes of a task's Spark application inherit."""

# Spark's shutdown hooks delete its temporary folders.
_GRACE_S: Final = 3.0
_GIVE_UP_S: Final = 30.0
_LOOK_S: Final = 1.0
_LOOK_AGAIN_S: Final = 0.1


class ProcessGuard:
    """In its body, all processes that this process starts carry a mark; after it, none of them is left.

    Marked processes are ended when the body is left, when ``end_all`` is called, when this process dies,
    and when its parent does: Airflow's supervisor, without which the task is lost. Then this process is
    killed too.
    """

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        self._watcher: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ProcessGuard:
        environment = {name: value for name, value in os.environ.items() if name != MARK}
        # Isolated: a task's environment cannot keep it from starting.
        command = [sys.executable, "-I", str(Path(__file__)), self._mark]
        self._watcher = subprocess.Popen(
            [*command, str(os.getpid()), str(os.getppid())],
            stdin=subprocess.PIPE,
            # Airflow treats a task as unfinished while any process holds its output.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        os.environ[MARK] = self._mark
        return self

    def __exit__(self, *_: object) -> None:
        os.environ.pop(MARK, None)
        self.end_all()
        if self._watcher and self._watcher.stdin:
            self._watcher.kill()
            self._watcher.wait()
            self._watcher.stdin.close()

    def end_all(self) -> int:
        """End all marked processes; returns how many there were."""
        return end_marked(self._mark)


def end_marked(mark: str) -> int:
    """End all processes of this user that carry a mark: with SIGTERM, and after three seconds with SIGKILL.

    Returns:
        How many there were.
    """
    ended = left = _marked_processes(mark)
    _signal(ended, psutil.Process.terminate)
    now = time.monotonic()
    while left and time.monotonic() < now + _GIVE_UP_S:
        if time.monotonic() > now + _GRACE_S:
            _signal(left, psutil.Process.kill)
        # Not psutil's own wait: it would take the exit status from the process's parent.
        time.sleep(_LOOK_AGAIN_S)
        left = _marked_processes(mark)
    return len(ended)


def _marked_processes(mark: str) -> list[psutil.Process]:
    marked = []
    for process in psutil.process_iter():
        # Gone, another user's, or a zombie.
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                marked.append(process)
    return marked


def _signal(processes: Iterable[psutil.Process], how: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            how(process)


def _watch(mark: str, task: int, supervisor: int) -> None:
    """Wait until a task or its supervisor is gone; then end the marked processes, and the task."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(task)
        # An orphaned process gets another parent.
        while process.ppid() == supervisor:
            # The other end of the pipe closes with the task.
            if select.select([sys.stdin], [], [], _LOOK_S)[0]:
                break
        else:
            process.kill()
    end_marked(mark)


if __name__ == "__main__":
    _watch(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
