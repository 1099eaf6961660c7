"""A real Airflow runs a flow's DAG through its scheduler, on two real brokers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from kafka_ferry.model import TopicPartition
from kafka_sandbox.airflow import SETTINGS, Airflow
from kafka_sandbox.airflow_api import AirflowApi
from tests.support.airflow.dags import AddDag
from tests.support.records.builders import Record, create_topic, read_all, set_config
from tests.support.records.groups import commit_alone, first_read
from tests.support.runs.flows import assert_same
from tests.support.runs.pair import Pair
from tests.support.servers.receivers import UdpReceiver
from tests.support.waiting import wait_until
from tests.system.conftest import RETRY_S

pytestmark = [pytest.mark.alone, pytest.mark.timeout(600)]

STEPS = ("plan", "sync_topics", "mirror", "verify", "sync_groups", "update_assets", "publish")
# Airflow and Spark write half of these.
LONG_LOG = 40
LONG_AGO = datetime(2025, 12, 31, tzinfo=UTC)


@pytest.fixture
def no_spark_connection(api: AirflowApi) -> Iterator[None]:
    """Airflow without its connection ``spark_default``, for a test."""
    api.delete_connection("spark_default")
    yield
    api.load_settings(SETTINGS)


def kill_spark_with(
    api: AirflowApi, dag_id: str, run_id: str, end: Callable[[Mapping[str, Any]], None]
) -> None:
    """Ends a mirror task once its Spark application runs, which is to end with it."""

    def found() -> list[psutil.Process]:
        task = api.task(dag_id, run_id, "mirror")
        if task["state"] != "running" or not psutil.pid_exists(task["pid"]):
            return []
        # A child may end before it has told its name.
        with suppress(psutil.NoSuchProcess):
            return [it for it in children(task["pid"]) if it.name() == "java"]
        return []

    wait_until(lambda: bool(found()), 180)
    task = api.task(dag_id, run_id, "mirror")
    spark = children(task["pid"])
    end(task)
    _, left = psutil.wait_procs(spark, timeout=60)
    assert not left, "Spark goes on"


def children(pid: int) -> list[psutil.Process]:
    """All that a process has started; nothing if it is gone."""
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def some_records(count: int) -> list[Record]:
    return [Record(key=b"%d" % number, value=b"value %d" % number) for number in range(count)]


def test_a_cleared_mirror_copies_nothing_twice_and_its_groups_fail_over(
    pair: Pair, add_dag: AddDag, api: AirflowApi, statsd: UdpReceiver
) -> None:
    source, topic, group = pair.folder.name, pair.unique("orders"), pair.unique("billing")
    create_topic(pair.primary.bootstrap, topic, partitions=4)
    pair.produce(topic, some_records(2000), compression="lz4")
    pair.produce(topic, some_records(50), transactional_id=topic, abort=True)
    commit_alone(pair.primary, group, {TopicPartition(topic, number): 7 for number in range(4)})
    dag_id = add_dag(topic, groups=[group])

    # The timetable starts it, for the hour that has ended.
    run_id = api.unpause_and_find_run(dag_id)
    assert run_id is not None and run_id.startswith("scheduled__")
    # Its task is killed, and Airflow lets it wait for another try, which does not come.
    kill_spark_with(api, dag_id, run_id, lambda task: psutil.Process(task["pid"]).kill())
    wait_until(lambda: api.task(dag_id, run_id, "mirror")["state"] == "up_for_retry", 60)
    api.clear(dag_id, run_id, "mirror")
    # It is marked as failed while it runs, and what comes after it begins at once.
    kill_spark_with(api, dag_id, run_id, lambda task: api.mark(dag_id, run_id, "mirror", "failed"))
    api.clear(dag_id, run_id, "mirror")
    first = api.wait(dag_id, run_id)

    assert (first.state, first.tasks) == ("success", dict.fromkeys(STEPS, "success")), first.log
    assert_same(pair.primary, topic, pair.backup, f"{source}.{topic}")
    assert f"{source}.{topic}" in api.log(dag_id, run_id, "plan")
    assert "2,000" in api.log(dag_id, run_id, "mirror")
    for step in STEPS:
        assert len(api.log(dag_id, run_id, step).splitlines()) < LONG_LOG, step

    api.clear(dag_id, run_id, "mirror", downstream=False)
    again = api.wait(dag_id, run_id)

    assert again.state == "success", again.log
    assert_same(pair.primary, topic, pair.backup, f"{source}.{topic}")

    runs = pair.folder / "state" / f"{source}_to_backup" / "runs"
    (report,) = [json.loads(file.read_text()) for file in runs.glob("*/report.json")]
    assert report["records"] == 2000
    gauges = statsd.gauges(f"airflow.kafka_ferry.{source}.backup.")
    assert gauges["verified.run-state"] == 1
    copied = [gauges[f"{source}__{topic}.{partition}.record-count"] for partition in range(4)]
    assert sum(copied) == 2000

    failover = f"failover_{source}_to_backup"
    unconfirmed = api.trigger_and_wait(failover, conf={"dry_run": False})
    assert unconfirmed.state == "failed"
    assert f"has to have the mirror's name ({source}->backup)" in unconfirmed.log
    confirmed = {"dry_run": False, "confirm": f"{source}->backup"}
    # Before the flow's first day too: without tasks it would succeed, and have moved no group.
    over = api.wait(failover, api.trigger(failover, confirmed, LONG_AGO))

    assert over.state == "success", over.log
    assert f"READY {group}" in api.log(failover, over.run_id, "failover")
    _, offset = first_read(pair.backup, group, f"{source}.{topic}")
    assert offset == 7

    # A timetable needs its first day: no task of this run is one.
    empty = api.wait(dag_id, api.trigger(dag_id, logical_date=LONG_AGO))
    assert (empty.state, empty.tasks) == ("failed", {})


@pytest.mark.long
def test_what_airflow_was_killed_in_is_done_after_its_start_and_cannot_be_marked_done_before(
    pair: Pair, add_dag: AddDag, airflow: Airflow, api: AirflowApi
) -> None:
    source, topic = pair.folder.name, pair.unique("orders")
    create_topic(pair.primary.bootstrap, topic, partitions=2)
    # So slow that Airflow ends the task before it has copied all of it.
    for part in range(10):
        pair.produce(topic, some_records(200)[part::10])
    options = {"schedule": "", "retries": 0, "rate_limit_records": 10, "join_batches_below": 0}
    dag_id = add_dag(topic, **options)
    run_id = api.trigger(dag_id)

    # Scheduler, supervisor and task are gone in one moment, and only the task's watcher is left.
    kill_spark_with(api, dag_id, run_id, lambda _: airflow.kill())
    airflow.start().wait_healthy(RETRY_S)
    # Its scheduler takes the task for lost and starts it again, and a user marks it done.
    kill_spark_with(api, dag_id, run_id, lambda _: api.mark(dag_id, run_id, "mirror", "success"))
    said = api.wait(dag_id, run_id)

    assert said.state == "failed"
    assert (said.tasks["mirror"], said.tasks["publish"]) == ("success", "failed")
    unended = f"The step mirror of the run {run_id} has not ended."
    assert unended in api.log(dag_id, run_id, "publish")

    api.clear(dag_id, run_id, "mirror")
    done = api.wait(dag_id, run_id)

    assert done.state == "success", done.log
    assert_same(pair.primary, topic, pair.backup, f"{source}.{topic}")


@pytest.mark.long
@pytest.mark.usefixtures("no_spark_connection")
def test_a_topic_that_cannot_be_copied_is_named_in_the_log_and_the_others_are_copied(
    pair: Pair, add_dag: AddDag, api: AirflowApi
) -> None:
    source, good, bad = pair.folder.name, pair.unique("good"), pair.unique("bad")
    for topic in (good, bad):
        create_topic(pair.primary.bootstrap, topic)
        pair.produce(topic, some_records(10))
    create_topic(pair.backup.bootstrap, f"{source}.{bad}", message_timestamp_type="LogAppendTime")
    dag_id, plan_id = add_dag(good, bad), f"plan_{source}_to_backup"

    # A paused flow can be tried without a copy.
    tried = api.trigger_and_wait(plan_id)
    assert tried.state == "success", tried.log
    assert f"REFUSED {bad}" in api.log(plan_id, tried.run_id, "plan")
    assert not api.runs(dag_id, "scheduled")
    there = AdminClient({"bootstrap.servers": pair.backup.bootstrap}).list_topics(timeout=10).topics
    assert f"{source}.{good}" not in there

    run_id = api.unpause_and_find_run(dag_id)
    assert run_id is not None
    run = api.wait(dag_id, run_id)

    assert run.state == "failed"
    # At once: no retry could help.
    assert run.tasks["mirror"] == run.tasks["publish"] == "failed"
    assert run.tasks["verify"] == "success"
    assert (
        f"{bad}: {source}.{bad} on the target has message.timestamp.type=LogAppendTime" in run.log
    )
    assert f"REFUSED {bad}" in api.log(dag_id, run.run_id, "plan")
    # The stack comes before it: what one sees at the end of a log is the reason, and it is in no folded group.
    *_, group, first, _, last, end = api.log(dag_id, run.run_id, "publish").strip().splitlines()
    assert (group, end) == ("::endgroup::", "::endgroup::")
    assert "1 refused by the plan" in first
    assert "What a plan refuses is refused for the whole run" in last
    assert_same(pair.primary, good, pair.backup, f"{source}.{good}")
    assert read_all(pair.backup.bootstrap, f"{source}.{bad}") == {0: []}
    # Without its connection, the operator that this one extends would look for YARN.
    assert "There is no connection 'spark_default'" in run.log
    assert "--master local[*]" in run.log

    # The stored plan refuses it for ever; another one does not, once that is mended.
    set_config(pair.backup, f"{source}.{bad}", "message.timestamp.type", "CreateTime")
    api.clear(dag_id, run_id, "plan")
    mended = api.wait(dag_id, run_id)
    assert mended.state == "success", mended.log
    assert_same(pair.primary, bad, pair.backup, f"{source}.{bad}")
