"""A mirror task in processes of its own, as Airflow has them: a supervisor, and the task that it has forked.

``python -m tests.support.runs.task_process FLOW_FILE RUN SECONDS`` executes the step mirror with the operator
of the DAGs and prints what became of it. SIGTERM to the task calls ``on_kill``, as Airflow's does; after
``SECONDS``, where they are not 0, it is timed out.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psutil

from kafka_sandbox.processes import OrphanGuard
from tests import PROJECT
from tests.support.airflow.dags import task_context
from tests.support.waiting import wait_until

JVM = "/bin/java "


class TaskProcess:
    """A running mirror task.

    Attributes:
        supervisor: stands for Airflow's supervisor.
        log: what all of its processes wrote.
    """

    def __init__(self, folder: Path, file: str, run: str, timeout: float = 0) -> None:
        self.log = folder / f"task-{time.monotonic_ns()}.log"
        # Airflow writes into its home when it is imported.
        environment = os.environ | {
            "AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
            "PYTHONPATH": f"{PROJECT}{os.pathsep}{PROJECT / 'include'}",
        }
        with self.log.open("wb") as log:
            self.supervisor = subprocess.Popen(
                [sys.executable, "-m", __name__, file, run, str(timeout)],
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        self._guard = OrphanGuard(-self.supervisor.pid)
        self._seen: dict[psutil.Process, str] = {}

    @property
    def task(self) -> psutil.Process:
        """The task's process, which is to be running."""
        return psutil.Process(self.supervisor.pid).children()[0]

    def find(self, word: str) -> psutil.Process:
        """One of its processes by a word of its command, which is to be running."""
        return next(it for it in self.processes() if word in self._seen[it])

    def processes(self) -> list[psutil.Process]:
        """All processes of the task and its Spark application that run, the supervisor left out."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self.supervisor.pid).children(recursive=True):
                self._see(process)
        return [process for process in self._seen if is_running(process)]

    def said(self) -> str:
        """All that was written so far."""
        return self.log.read_text(errors="replace")

    def wait(self, seconds: float = 300) -> str:
        """Waits for the end of the task and, half a minute more, of all that it has started; what was written."""
        wait_until(self._is_over, seconds)
        wait_until(lambda: not self.processes(), 30)
        assert any(JVM in command for command in self._seen.values()), self.said()
        return self.said()

    def _see(self, process: psutil.Process) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            # One that was killed and not yet waited for has none.
            if command := process.cmdline():
                self._seen[process] = " ".join(command)

    def _is_over(self) -> bool:
        self.processes()
        return self.supervisor.poll() is not None

    def clean_up(self) -> None:
        """Ends all of it."""
        for process in self.processes():
            process.kill()
        self.supervisor.kill()
        self.supervisor.wait()
        self._guard.release()


@contextlib.contextmanager
def mirror_task(folder: Path, file: str, run: str, timeout: float = 0) -> Iterator[TaskProcess]:
    """A mirror task of a planned run, ended in any case."""
    process = TaskProcess(folder, file, run, timeout)
    try:
        yield process
    finally:
        process.clean_up()


def is_running(process: psutil.Process) -> bool:
    """Whether it runs; one that only waits for its parent to ask how it ended does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _execute(file: str, run: str, seconds: float) -> None:
    from airflow.sdk.execution_time.task_runner import _run_execute_callable  # noqa: PLC0415

    from kafka_ferry.config import load_flow  # noqa: PLC0415
    from kafka_ferry.runs import Run  # noqa: PLC0415
    from kafka_ferry_airflow import FerrySparkSubmitOperator, Project  # noqa: PLC0415

    flow = load_flow(file)
    task = FerrySparkSubmitOperator(
        task_id="mirror",
        step="mirror",
        project=Project(PROJECT),
        flow=flow,
        execution_timeout=timedelta(seconds=seconds) if seconds else None,
    )
    context = task_context(run, plan_prepared=Run(flow, run)._folder.plan().digest)
    task.render_template_fields(context)
    signal.signal(signal.SIGTERM, lambda *_: task.on_kill())
    _run_execute_callable(context, task.execute, task)


def main(file: str, run: str, seconds: str) -> None:
    if child := os.fork():
        os.waitpid(child, 0)
        return
    os.setpgid(0, 0)
    try:
        _execute(file, run, float(seconds))
    except BaseException as error:
        print(f"ENDED {type(error).__name__}: {error}", flush=True)
    else:
        print("ENDED well", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
