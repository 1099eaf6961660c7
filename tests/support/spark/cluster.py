"""A standalone Spark cluster on this machine, of the jars that PySpark carries."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path
from secrets import token_hex

import psutil
import pyspark

from kafka_sandbox.broker import HOST, free_port
from kafka_sandbox.processes import OrphanGuard, last_lines

_HOME = Path(pyspark.__file__).parent
_PACKAGE = "org.apache.spark.deploy"
_EXECUTOR = "CoarseGrainedExecutorBackend"
_START_S = 60.0
_LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class SparkCluster:
    """A master and some workers, ended with this process. A run gets an executor on each worker.

    Args:
        folder: for logs and for what executors leave there.
        workers: how many.
        runs: how many applications may run side by side.
    """

    def __init__(self, folder: Path, workers: int = 2, runs: int = 2) -> None:
        self._folder = folder
        self._workers = workers
        self._runs = runs
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._guards: list[OrphanGuard] = []
        self._port = free_port()

    def __enter__(self) -> SparkCluster:
        self._conf.mkdir(parents=True)
        self._write_defaults()
        address = ["--host", HOST, "--port", str(self._port), "--webui-port", str(free_port())]
        self._launch("master", "master.Master", *address)
        self._wait_for("master")
        for number in range(self._workers):
            self._launch(
                f"worker-{number}",
                "worker.Worker",
                *("--host", HOST, "--webui-port", str(free_port())),
                *("--cores", str(self._runs), "--memory", f"{self._runs}g"),
                *("--work-dir", str(self._folder / f"work-{number}"), self.master),
            )
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            for child in _children(process.pid):
                _kill(child)
            process.kill()
            process.wait()
        for guard in self._guards:
            guard.release()

    @property
    def master(self) -> str:
        """The master's URL."""
        return f"spark://{HOST}:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """What makes a driver use this cluster."""
        return {
            "SPARK_CONF_DIR": str(self._conf),
            "SPARK_LOCAL_IP": HOST,
            "PYSPARK_PYTHON": sys.executable,
        }

    def kill_executor(self, chance: random.Random) -> bool:
        """SIGKILL for one executor's JVM; whether there was one."""
        return _kill_one(self._executors(), chance)

    def kill_python_worker(self, chance: random.Random) -> bool:
        """SIGKILL for a Python worker, or the daemon that forks them; whether there was one."""
        workers = [
            child
            for executor in self._executors()
            for child in _children(executor.pid)
            if "pyspark" in " ".join(_command(child))
        ]
        return _kill_one(workers, chance)

    def _executors(self) -> list[psutil.Process]:
        return [
            child
            for name, process in self._processes.items()
            if name != "master"
            for child in _children(process.pid)
            if any(_EXECUTOR in word for word in _command(child))
        ]

    @property
    def _conf(self) -> Path:
        return self._folder / "conf"

    @property
    def _secret(self) -> Path:
        return self._folder / "secret"

    def _write_defaults(self) -> None:
        self._secret.touch(0o600)
        self._secret.write_text(token_hex())
        defaults = {
            "spark.master": self.master,
            "spark.driver.host": HOST,
            # Of the master and its workers; drivers read it from a file.
            "spark.authenticate": "true",
            "spark.authenticate.secret.file": self._secret,
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.cores": 1,
            "spark.cores.max": self._workers,
            "spark.executor.extraJavaOptions": _LIGHT,
            # A storm kills more tasks and executors than a cluster loses in a month.
            "spark.task.maxFailures": 100,
            "spark.executor.heartbeatInterval": "2s",
            # Where a task hangs stands in its executor's stderr.
            "spark.python.worker.faulthandler.enabled": "true",
            "spark.python.worker.tracebackDumpIntervalSeconds": 150,
        }
        text = "".join(f"{name} {value}\n" for name, value in defaults.items())
        (self._conf / "spark-defaults.conf").write_text(text)

    def _launch(self, name: str, main_class: str, *arguments: str) -> None:
        environment = (
            os.environ
            | self.environment
            | {
                "SPARK_HOME": str(_HOME),
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_DAEMON_JAVA_OPTS": f"{_LIGHT} -Dspark.deploy.maxExecutorRetries=-1",
                "_SPARK_AUTH_SECRET": self._secret.read_text(),
            }
        )
        with self._log(name).open("wb") as log:
            process = subprocess.Popen(
                [str(_HOME / "bin" / "spark-class"), f"{_PACKAGE}.{main_class}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        self._processes[name] = process
        self._guards.append(OrphanGuard(-process.pid))

    def _wait_for(self, name: str) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self._processes[name].poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex((HOST, self._port)) == 0:
                    return
            time.sleep(0.1)
        raise RuntimeError(f"Spark's {name} does not start.\n{last_lines(self._log(name))}")

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


def _children(pid: int) -> list[psutil.Process]:
    """All descendants of a process; none if it is gone."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _kill_one(processes: list[psutil.Process], chance: random.Random) -> bool:
    return bool(processes) and _kill(chance.choice(processes))


def _kill(process: psutil.Process) -> bool:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return False
    return True
