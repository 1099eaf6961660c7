"""A mirror task that is killed, timed out or lost is repeated, and in the end the copy is exact."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from kafka_ferry.config import Flow
from kafka_ferry.runs import Run
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.long_topic import RECORDS, a_long_topic, length
from tests.support.runs.flows import assert_same, ledger_rows, make_flow, plan_now, remote
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.task_process import JVM, TaskProcess, mirror_task
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

# What Spark gives up with where its Python takes more than ten seconds to start, on a busy machine.
BUSY = "Python worker failed to connect back"
TRIES = 5
# So slow that a task can be killed in the middle of it.
BYTES_PER_S = 32 * 1024


@pytest.fixture
def topic(primary: KafkaCluster, unique: Unique) -> str:
    return a_long_topic(primary, unique("orders"))


@pytest.fixture
def flow(folder: Path, primary: KafkaCluster, backup: KafkaCluster, topic: str) -> Flow:
    return make_flow(folder, primary, backup, [topic], rate_limit_bytes=BYTES_PER_S)


def sends(running: TaskProcess, target: KafkaCluster, topic: str, before: int) -> bool:
    """Whether the task sends something before it ends."""
    over = running.supervisor.poll
    wait_until(lambda: over() is not None or length(target, topic) > before, 400)
    return over() is None


@contextmanager
def copying_task(
    folder: Path, flow: Flow, target: KafkaCluster, topic: str
) -> Iterator[TaskProcess]:
    """A mirror task that has sent more than was there."""
    before = length(target, topic)
    for _ in range(TRIES):
        with mirror_task(folder, flow.file, "run-1") as running:
            if sends(running, target, topic, before):
                yield running
                return
            assert BUSY in running.said(), running.said()
    raise AssertionError("Spark does not start")


def complete(folder: Path, flow: Flow) -> None:
    """Runs the mirror task to its end."""
    for _ in range(TRIES):
        with mirror_task(folder, flow.file, "run-1") as running:
            said = running.wait()
            if said.endswith("ENDED well\n"):
                return
            assert BUSY in said, said
    raise AssertionError("Spark does not start")


def assert_exact(flow: Flow, source: KafkaCluster, topic: str, target: KafkaCluster) -> None:
    """The copy is the original, and the ledger counts each record once."""
    assert_same(source, topic, target, remote(flow, topic))
    assert sum(int(str(row["records"])) for row in ledger_rows(flow)) == RECORDS


def kill_the_supervisor(running: TaskProcess) -> None:
    running.supervisor.kill()


def kill_spark(running: TaskProcess) -> None:
    running.find(JVM).kill()


def ask_it_to_end(running: TaskProcess) -> None:
    running.task.send_signal(signal.SIGTERM)


@pytest.mark.long
def test_however_a_mirror_task_ends_spark_ends_with_it_and_a_rerun_completes_the_copy(
    pair: Pair, flow: Flow, topic: str
) -> None:
    plan_now(flow)
    last_words = []
    for end in (kill_the_supervisor, kill_spark, ask_it_to_end):
        with copying_task(pair.folder, flow, pair.backup, remote(flow, topic)) as running:
            assert len(running.processes()) > 3  # the task, its watcher, Spark's JVM and Python

            end(running)

            said = running.wait(60)
            last_words.append(said.rpartition("ENDED ")[2])
            assert Run(flow, "run-1").failure("mirror") is None or end is kill_spark

    assert "The task mirror was terminated" in last_words[-1]
    complete(pair.folder, flow)
    assert_exact(flow, pair.primary, topic, pair.backup)


@pytest.mark.long
def test_a_mirror_task_that_is_timed_out_ends_with_its_spark_application(
    folder: Path, flow: Flow, topic: str, backup: KafkaCluster
) -> None:
    plan_now(flow)

    with mirror_task(folder, flow.file, "run-1", timeout=8) as running:
        said = running.wait()

    assert "ENDED AirflowTaskTimeout" in said
    assert Run(flow, "run-1").failure("mirror") is None


@pytest.mark.long
def test_an_orphan_that_survives_its_task_is_fenced_by_the_next_one(
    pair: Pair, flow: Flow, topic: str
) -> None:
    plan_now(flow)
    with copying_task(pair.folder, flow, pair.backup, remote(flow, topic)) as orphan:
        watcher = orphan.find("process_guard.py")
        watcher.kill()
        task = orphan.task
        spark = [it for it in orphan.processes() if it.pid not in (watcher.pid, task.pid)]
        task.kill()
        task.wait(10)
        # Not before: the system hangs up on what is stopped when it loses its parent.
        for process in spark:
            process.suspend()

        complete(pair.folder, flow)
        for process in spark:
            process.resume()
        psutil.wait_procs(spark, timeout=200)

        assert not orphan.processes(), "the orphan goes on"
    assert Run(flow, "run-1").failure("mirror") is None
    assert_exact(flow, pair.primary, topic, pair.backup)
