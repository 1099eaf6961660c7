"""An Airflow run goes through a rolling restart of both clusters without a failed task."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafka_sandbox.airflow_api import AirflowApi
from kafka_sandbox.broker import QUICK_CLEANER
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import start_all
from tests.faults.sides import roll
from tests.support.airflow.dags import add_flow
from tests.support.records.builders import create_topic
from tests.support.records.long_topic import fill
from tests.support.records.offsets import assert_same_offsets
from tests.support.runs.flows import assert_same
from tests.system.conftest import RETRY_S

KIB = 1024
RATE = 128 * KIB
"""Bytes a second: slow enough for the copy to outlast the restarts."""
SECONDS = 75
STEPS = ("plan", "sync_topics", "mirror", "verify", "sync_groups", "publish")


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[Brokers, Brokers]]:
    """A source and a target of three brokers each, which no other test uses."""
    both = [Brokers(tmp_path / name, config=QUICK_CLEANER) for name in ("source", "target")]
    try:
        start_all(both)
        yield both[0], both[1]
    finally:
        for cluster in both:
            cluster.wipe()


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(900)
def test_a_run_goes_through_a_rolling_restart_of_both_clusters_without_a_failed_task(
    tmp_path: Path,
    configs: Path,
    api: AirflowApi,
    clusters: tuple[Brokers, Brokers],
    unique: Callable[[str], str],
) -> None:
    source, target = clusters
    name = unique("src")
    topics = {unique("translated"): "translated", unique("preserved"): "preserved"}
    for topic in topics:
        create_topic(source.bootstrap, topic, partitions=3)
        fill(source, topic, SECONDS * RATE // len(topics))
    dag_id = add_flow(
        tmp_path / name,
        configs,
        source,
        target,
        *topics,
        offsets=topics,
        rate_limit_bytes=RATE,
        transaction_max_bytes=256 * KIB,
    )
    api.wait_for_dag(dag_id, RETRY_S)
    rolled: list[Brokers] = []

    def roll_both() -> None:
        for cluster in clusters:
            roll(cluster)
            rolled.append(cluster)

    with ThreadPoolExecutor(1) as pool:
        began = time.monotonic()
        run_id = api.unpause_and_find_run(dag_id)
        assert run_id is not None
        # From its first task on.
        rolling = pool.submit(roll_both)
        run = api.wait(dag_id, run_id)
        took_s, within = time.monotonic() - began, len(rolled)
        rolling.result()
    print(f"the run took {took_s:.0f} s, with all brokers of {within} clusters restarted in it")

    assert (run.state, {step: run.tasks[step] for step in STEPS}) == (
        "success",
        dict.fromkeys(STEPS, "success"),
    ), run.log
    tries = {step: api.task(dag_id, run_id, step)["try_number"] for step in STEPS}
    assert tries == dict.fromkeys(STEPS, 1)
    # On a slow machine, the last of the target's may be restarted after it.
    assert within, "the run ended before the source's brokers were restarted"
    for topic, offsets in topics.items():
        if offsets == "preserved":
            assert_same_offsets(source, topic, target, f"{name}.{topic}")
        else:
            assert_same(source, topic, target, f"{name}.{topic}")
