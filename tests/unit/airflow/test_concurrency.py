"""A shard waits while another run of its DAG copies, and never for the shards of its own run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException

from kafka_ferry_airflow.concurrency import await_other_runs, log_other_runs


class Task:
    """A task instance that knows which runs' shards of its task are running now."""

    dag_id, task_id, run_id = "mirror_orders", "mirror", "run-2"

    def __init__(self, running: Sequence[str]) -> None:
        self.running = running

    def get_ti_count(
        self, *, dag_id: str, task_ids: list[str], states: list[str], run_ids: Sequence[str] = ()
    ) -> int:
        assert (dag_id, task_ids, states) == ("mirror_orders", ["mirror"], ["running"])
        return sum(run in run_ids for run in self.running) if run_ids else len(self.running)


def wait(running: Sequence[str]) -> None:
    await_other_runs(cast(Any, {"ti": Task(running)}))


@pytest.mark.parametrize("running", [["run-2"], ["run-2"] * 8])
def test_shards_of_one_run_copy_at_the_same_time(running: Sequence[str]) -> None:
    wait(running)


@pytest.mark.parametrize("running", [["run-1", "run-2"], ["run-1", "run-1", "run-2", "run-2"]])
def test_a_shard_gives_its_slot_back_while_another_run_copies(running: Sequence[str]) -> None:
    with pytest.raises(AirflowRescheduleException) as waiting:
        wait(running)
    pause = waiting.value.reschedule_date - datetime.now(UTC)
    assert timedelta(seconds=15) < pause <= timedelta(seconds=45)


@pytest.mark.parametrize(
    ("dag", "running", "is_told"),
    [
        ("mirror_orders", ["run-2"], False),
        ("mirror_orders", ["run-1", "run-2"], True),
        ("mirror_orders", [], False),
        ("plan_orders", ["run-2"], True),
    ],
)
def test_a_plan_says_that_another_run_copies(
    dag: str, running: Sequence[str], is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    task = Task(running)
    task.dag_id = dag
    log_other_runs(cast(Any, {"ti": task}), "mirror_orders")
    assert [message.split(":")[0] for message in caplog.messages] == (
        ["Another run of mirror_orders is copying"] if is_told else []
    )
