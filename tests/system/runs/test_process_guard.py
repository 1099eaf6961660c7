"""What a task has started ends with the task, however the task ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import kafka_ferry_airflow
from kafka_sandbox.processes import OrphanGuard
from tests.support.waiting import wait_until

FOLDER = Path(kafka_ferry_airflow.__file__).parent
# Spark's Python workers are in a process group of their own; a JVM may take its time over SIGTERM.
APPLICATION = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
worker = "import os, time; os.setpgid(0, 0); print(os.getpid(), flush=True); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", worker])
print(os.getpid(), flush=True)
time.sleep(600)
"""
TASK = f"""
import os, subprocess, sys, time
sys.path.insert(0, {str(FOLDER)!r})
from process_guard import ProcessGuard

if os.fork():
    os.wait()
else:
    os.setpgid(0, 0)
    print(os.getpid(), flush=True)
    with ProcessGuard():
        subprocess.Popen([sys.executable, "-c", {APPLICATION!r}])
        sys.stdin.readline()
    print("left", flush=True)
    os._exit(0)
"""
Kill = Callable[["Task"], None]


class Task:
    """A supervisor, its task, and what the task has started.

    Attributes:
        supervisor: the first process.
        process: the task's own.
        application: those that the task has started.
    """

    def __init__(self) -> None:
        self.supervisor = subprocess.Popen(
            [sys.executable, "-c", TASK],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._guard = OrphanGuard(-self.supervisor.pid)
        self.process = psutil.Process(self._number())
        self.application = [psutil.Process(self._number()) for _ in range(2)]

    def finish(self) -> None:
        """Lets the task go on to its end."""
        assert self.supervisor.stdin
        self.supervisor.stdin.write("\n")
        self.supervisor.stdin.flush()

    def clean_up(self) -> None:
        """Ends all of it."""
        for process in (self.process, *self.application):
            if process.is_running():
                process.kill()
        self.supervisor.kill()
        self.supervisor.communicate()
        self._guard.release()

    def _number(self) -> int:
        assert self.supervisor.stdout
        return int(self.supervisor.stdout.readline())


def is_gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def kill_task(task: Task) -> None:
    task.process.kill()


def kill_supervisor(task: Task) -> None:
    task.supervisor.kill()


def kill_both(task: Task) -> None:
    task.process.send_signal(signal.SIGSTOP)
    task.supervisor.kill()
    task.process.kill()


@pytest.mark.parametrize("end", [kill_task, kill_supervisor, kill_both, Task.finish])
def test_nothing_of_a_task_outlives_it(end: Kill) -> None:
    task = Task()
    try:
        end(task)

        wait_until(lambda: all(map(is_gone, [task.process, *task.application])))
    finally:
        task.clean_up()


def test_a_task_that_goes_on_keeps_what_it_has_started() -> None:
    task, other = Task(), Task()
    try:
        kill_supervisor(other)
        wait_until(lambda: all(map(is_gone, other.application)))

        assert not any(map(is_gone, [task.process, *task.application]))
    finally:
        task.clean_up()
        other.clean_up()
