"""Ctrl-C in a terminal ends a run with one sentence, whatever it is doing, and the next run goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.control.positions import read_positions
from kafka_sandbox.processes import OrphanGuard
from tests.support.records.builders import Record
from tests.support.runs.command_line import ferry_in_terminal, ferry_process
from tests.support.runs.flows import write_flow
from tests.support.runs.pair import Pair
from tests.support.waiting import wait_until

SENTENCE = "Interrupted. What was committed stays, and nothing is lost: run it again to continue."


class InterruptedRun:
    """``ferry run`` in a process group of its own, as in a terminal."""

    def __init__(self, folder: Path, file: Path) -> None:
        self._log = folder / "run.log"
        with self._log.open("wb") as log:
            self._run = ferry_in_terminal("run", "--config", file, stdout=log, stderr=log)
        self._guard = OrphanGuard(-self._run.pid)

    def interrupt(self) -> tuple[int, str]:
        """The exit status, and all that was said, after Ctrl-C; no process of the run is left."""
        children = psutil.Process(self._run.pid).children(recursive=True)
        os.killpg(self._run.pid, signal.SIGINT)
        status = self._run.wait(60)
        _, alive = psutil.wait_procs(children, 60)
        self._guard.release()
        assert not alive
        return status, self._log.read_text()


def copies(flow: Flow) -> bool:
    """Whether a run of the flow has committed something."""
    return any(position.offset for position in read_positions(flow.target, flow.name).values())


@pytest.mark.long
def test_ctrl_c_ends_a_run_with_one_sentence_and_the_next_run_continues(pair: Pair) -> None:
    topic = pair.topic("interrupted", partitions=2)
    for number in range(20):
        pair.produce(topic, [Record(key=b"%d" % i, value=b"%d" % number) for i in range(100)])
    options: dict[str, Any] = {"writers": 1, "transaction_max_bytes": 3000, "fetch_max_bytes": 1000}
    rate: dict[str, Any] = {"rate_limit_records": 200}

    def begins(step: str) -> bool:
        return bool([*pair.folder.glob(f"state/**/attempt-{step}")])

    steps: dict[str, tuple[dict[str, Any], Callable[[], bool]]] = {
        "planning": (rate, lambda: begins("plan")),
        "starting Spark": (rate, lambda: begins("mirror")),
        "copying": (rate, lambda: copies(flow)),
        "verifying": ({}, lambda: begins("verify")),
    }
    for step, (limits, is_there) in steps.items():
        file = write_flow(pair.folder, pair.primary, pair.backup, [topic], **options, **limits)
        flow = load_flow(file)
        shutil.rmtree(pair.folder / "state" / flow.slug / "runs", ignore_errors=True)
        run = InterruptedRun(pair.folder, file)
        wait_until(is_there, 120)
        status, said = run.interrupt()

        lines = [line for line in said.splitlines() if line.strip()]
        assert (step, status) == (step, 130), said
        assert lines[-1] == SENTENCE, said
        assert all(word not in said for word in ("Traceback", "WARNING", "ERROR", "\tat ")), said

    report = json.loads(ferry_process("run", "--config", file, "--json").stdout)
    assert report["verdict"]["success"]
    assert report["records"] < 2000, "the runs before should have copied a part"
    pair.assert_same(flow, topic)
