"""Runs of one flow in child processes: started, killed, and asked what they ended with."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from kafka_ferry.config import Flow
from kafka_sandbox.processes import OrphanGuard

# Longer than all retries of the library together, on a machine that the storm keeps busy.
HANGS_AFTER_S = 450.0


@dataclass
class Running:
    """One run and its process."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    guard: OrphanGuard
    began: float = field(default_factory=time.monotonic)
    killed: bool = False

    @property
    def copying(self) -> bool:
        """Whether it has begun to copy and has not ended."""
        return self.process.poll() is None and "copying" in self.log.read_text(errors="replace")

    def kill(self) -> None:
        """End the process and all of its children at once, as its machine's power cut would."""
        self.killed = True
        try:
            children = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            children = []
        self.process.send_signal(signal.SIGKILL)
        for child in children:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.wait()

    def failures(self) -> list[str] | None:
        """What it said of its failures, after it ended; None if it ended in another way."""
        if self.process.returncode:
            return None
        # Spark's JVM may log something after it.
        for line in reversed(self.log.read_text(errors="replace").splitlines()):
            with suppress(ValueError):
                said = json.loads(line)
                if isinstance(said, list):
                    return said
        return None


class Runs:
    """All runs of one flow, one after the other or side by side.

    Attributes:
        ended: how many finished, failed and were killed.
        complaints: what no run may do: end without a word, not name what failed, hang.
        sentences: what failed runs said, without numbers, by how often.
        note: is told how each run ended.
        file: the flow's file, which those read that start from now on.
        files: the file that each run has read, by its name.
        next_arguments: what the next run's driver is told too.
    """

    def __init__(
        self, flow: Flow, folder: Path, engine: str, environment: Mapping[str, str]
    ) -> None:
        self.ended: Counter[str] = Counter()
        self.complaints: list[str] = []
        self.sentences: Counter[str] = Counter()
        self.note: Callable[[str], None] = lambda _: None
        self.file = Path(flow.file)
        self.next_arguments: list[str] = []
        self.files: dict[str, Path] = {}
        self._flow = flow
        self._folder = folder
        self._engine = engine
        self._environment = {**os.environ, **environment, "PYTHONUNBUFFERED": "1"}
        self._numbers = itertools.count(1)
        self._running: list[Running] = []

    @property
    def active(self) -> list[Running]:
        """The runs whose processes have not ended."""
        return [run for run in self._running if run.process.poll() is None]

    @property
    def copying(self) -> list[Running]:
        """The runs that copy right now."""
        return [run for run in self._running if run.copying]

    def start(self) -> Running:
        """Start one more run."""
        name = f"run-{next(self._numbers)}"
        self.files[name] = self.file
        arguments, self.next_arguments = self.next_arguments, []
        return self._start(name, name, self._engine, *arguments)

    def start_late(self, name: str) -> Running:
        """Start what an earlier run has planned once more, with the flow as that run has read it."""
        return self._start(f"{name}-late-{next(self._numbers)}", name, "late")

    def start_verification(self) -> Running:
        """Start to prove the newest run, and all that was ever copied."""
        return self._start(f"verification-{next(self._numbers)}", [*self.files][-1], "verify")

    def _start(self, name: str, run: str, engine: str, *arguments: str) -> Running:
        log, file = self._folder / f"{name}.log", self.files.get(run, self.file)
        command = [sys.executable, "-m", "tests.faults.driver", file, run, engine, *arguments]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, env=self._environment, start_new_session=True
            )
        running = Running(name, process, log, OrphanGuard(-process.pid))
        self._running.append(running)
        return running

    def change_flow(self, **options: object) -> None:
        """Let the runs that start from now on read a flow with other options; underscores are dots."""
        content = json.loads(self.file.read_text())
        content |= {name.replace("_", "."): value for name, value in options.items()}
        self.file = self.file.with_name(f"flow-{next(self._numbers)}.yaml")
        self.file.write_text(json.dumps(content, indent=1))

    def collect(self) -> None:
        """Judge the runs that have ended, and end those that hang."""
        for run in self._running.copy():
            if run.process.poll() is not None:
                self._running.remove(run)
                run.guard.release()
                how = self._judge(run)
                self.ended[how] += 1
                self.note(f"{run.name} {how} after {time.monotonic() - run.began:.1f} s")
            elif time.monotonic() - run.began > HANGS_AFTER_S:
                run.process.send_signal(signal.SIGUSR1)
                time.sleep(1)
                self._complain(run, f"hung for {HANGS_AFTER_S:g} s")
                run.kill()

    def finish(self, seconds: float) -> None:
        """Wait until no run is active; those that take longer than ``seconds`` are killed."""
        deadline = time.monotonic() + seconds
        while self.active and time.monotonic() < deadline:
            time.sleep(0.1)
            self.collect()
        for run in self.active:
            self._complain(run, f"did not end within {seconds:g} s, with all brokers up")
            run.kill()
        self.collect()

    def kill_all(self) -> None:
        """End whatever still runs."""
        for run in self.active:
            run.kill()
        self.collect()

    def _judge(self, run: Running) -> str:
        """How the run ended: ``finished``, ``failed`` or ``killed``."""
        if run.killed:
            return "killed"
        failures = run.failures()
        if failures is None:
            self._complain(
                run, f"ended with status {run.process.returncode} and no word of its own"
            )
            return "failed"
        self.sentences.update(re.sub(r"\d+", "#", sentence) for sentence in failures)
        for sentence in failures:
            if not self._names_something(sentence):
                self._complain(run, f"failed without a name: {sentence!r}")
        return "failed" if failures else "finished"

    def _names_something(self, sentence: str) -> bool:
        flow = self._flow
        names: Iterable[str] = (*flow.topics, flow.name, flow.source.alias, flow.target.alias)
        return any(name in sentence for name in names) or "127.0.0.1:" in sentence

    def _complain(self, run: Running, what: str) -> None:
        said = run.log.read_text(errors="replace")[-3000:]
        self.complaints.append(f"{run.name} {what}:\n{said}")
