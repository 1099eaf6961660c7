"""Whatever becomes of a task in the middle of its copying, the next try makes the copy exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.runs import Run
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.long_topic import RECORDS, a_long_topic, length
from tests.support.runs.flows import assert_same, ledger_rows, plan_now, remote
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.slow_copy import SlowCopy, slow_copy
from tests.support.waiting import wait_until


@pytest.fixture
def topic(primary: KafkaCluster, unique: Unique) -> str:
    return a_long_topic(primary, unique("orders"))


@pytest.fixture
def flow(pair: Pair, topic: str) -> Flow:
    flow = pair.flow([topic])
    plan_now(flow)
    return flow


def wait_until_more_is_there(target: KafkaCluster, topic: str, before: int) -> None:
    wait_until(lambda: length(target, topic) > before, 120)


def complete(folder: Path, flow: Flow) -> None:
    """Copies the rest, in a task of its own."""
    with slow_copy(folder, flow.file, "run-1") as copy:
        copy.supervisor.wait(120)
        assert copy.said.endswith("[]\n"), copy.said


def assert_exact(flow: Flow, source: KafkaCluster, topic: str, target: KafkaCluster) -> None:
    """The copy is the original, the ledger counts each record once, and the step has ended well."""
    assert_same(source, topic, target, remote(flow, topic))
    assert sum(int(str(row["records"])) for row in ledger_rows(flow)) == RECORDS
    record = Run(flow, "run-1")._folder.step_record("mirror")
    assert record is not None and record.error is None


def kill_the_task(copy: SlowCopy) -> None:
    copy.task.kill()


def kill_the_supervisor(copy: SlowCopy) -> None:
    copy.supervisor.kill()


@pytest.mark.long
def test_a_task_that_is_lost_takes_its_copying_with_it_and_the_next_one_copies_the_rest(
    pair: Pair, flow: Flow, topic: str
) -> None:
    for lose in (kill_the_task, kill_the_supervisor):
        before = length(pair.backup, remote(flow, topic))
        with slow_copy(pair.folder, flow.file, "run-1") as copy:
            wait_until_more_is_there(pair.backup, remote(flow, topic), before)

            lose(copy)

            wait_until(lambda copy=copy: copy.is_gone)  # type: ignore[misc]
        assert Run(flow, "run-1")._folder.step_record("mirror") is None

    complete(pair.folder, flow)
    assert_exact(flow, pair.primary, topic, pair.backup)


@pytest.mark.long
def test_an_orphan_that_wakes_up_after_its_successor_changes_nothing(
    pair: Pair, flow: Flow, topic: str
) -> None:
    with slow_copy(pair.folder, flow.file, "run-1") as orphan:
        wait_until_more_is_there(pair.backup, remote(flow, topic), 0)
        orphan.watcher.kill()
        orphan.task.kill()
        orphan.task.wait(10)
        # Not before: the system hangs up on what is stopped when it loses its parent.
        orphan.copier.suspend()
        complete(pair.folder, flow)

        orphan.copier.resume()
        wait_until(lambda: orphan.is_gone, 120)

    assert_exact(flow, pair.primary, topic, pair.backup)
