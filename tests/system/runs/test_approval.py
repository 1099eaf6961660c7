"""A flow that asks for it waits in a real Airflow until a person approves its plan."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka.admin import AdminClient

from kafka_ferry.config import load_flow
from kafka_ferry.runs.certificates import find_certificates
from kafka_ferry_airflow.dags.approval import APPROVED, PLANNED
from kafka_sandbox.airflow import Airflow
from kafka_sandbox.airflow_api import AirflowApi
from kafka_sandbox.cluster import KafkaCluster
from tests.support.airflow.dags import AddDag
from tests.support.airflow.page import client, got
from tests.support.records.builders import Record, create_topic
from tests.support.runs.flows import assert_same
from tests.support.runs.pair import Pair
from tests.support.waiting import wait_until

FLOWS = "/kafka-ferry/api/flows"
pytestmark = [pytest.mark.alone, pytest.mark.timeout(900)]


def topics_of(broker: KafkaCluster) -> set[str]:
    """All but Kafka's own: a broker that is asked for a group's offsets makes its topic for them."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    return {name for name in client.list_topics(timeout=10).topics if not name.startswith("__")}


@pytest.mark.long
def test_a_plan_is_carried_out_only_after_a_person_has_approved_it(
    pair: Pair, configs: Path, add_dag: AddDag, airflow: Airflow, api: AirflowApi
) -> None:
    source, topic = pair.folder.name, pair.unique("orders")
    create_topic(pair.primary.bootstrap, topic, partitions=2)
    pair.produce(topic, [Record(key=b"%d" % number) for number in range(100)])
    dag_id = add_dag(topic, schedule="", approval="changes", certificates_enabled=True)
    before = topics_of(pair.backup)

    # Rejected: the run fails by name, at once, and the target is as it was.
    run_id = api.trigger(dag_id)
    shown = api.question(dag_id, run_id, "approve")
    assert f"create {source}.{topic}: 2 partitions" in shown
    assert "about 100 records" in shown
    with client(airflow, "admin") as admin:
        (flow,) = (it for it in got(admin, FLOWS)["flows"] if it["dag_id"] == dag_id)
    asked = flow["dag"]["question"]
    assert (asked["run"], asked["task"]) == (run_id, "approve")
    assert asked["since"] > 0
    api.answer(dag_id, run_id, "approve", "Reject")
    rejected = api.wait(dag_id, run_id)

    assert rejected.state == "failed"
    assert rejected.tasks["approve"] == "failed"
    others = [
        rejected.tasks[task]
        for task in ("sync_topics", "mirror", "verify", "sync_groups", "publish")
    ]
    assert set(others) == {"upstream_failed"}
    assert f"rejected the plan of {source}->backup: nothing was changed or copied" in rejected.log
    assert topics_of(pair.backup) == before

    # Planned again, in the same run, and approved: it does what it has shown.
    api.clear(dag_id, run_id, "plan")
    assert f"create {source}.{topic}: 2 partitions" in api.question(dag_id, run_id, "approve")
    api.answer(dag_id, run_id, "approve", "Approve")
    approved = api.wait(dag_id, run_id)

    assert approved.state == "success", approved.log
    assert_same(pair.primary, topic, pair.backup, f"{source}.{topic}")
    (certificate,) = find_certificates(load_flow(configs / f"{source}.yaml")).all
    assert certificate.header.approved_by == "admin"

    # Only records: no user is asked.
    pair.produce(topic, [Record(key=b"%d" % number) for number in range(50)])
    unasked = api.trigger(dag_id)
    wait_until(lambda: api.task(dag_id, unasked, "mirror")["state"] in ("success", "failed"), 300)

    assert "No approval is needed" in api.log(dag_id, unasked, "approve")
    assert_same(pair.primary, topic, pair.backup, f"{source}.{topic}")
    api.end_run(dag_id, unasked)


@pytest.mark.long
def test_an_edited_xcom_neither_approves_a_plan_nor_says_what_a_shard_executes(
    pair: Pair, tmp_path: Path, add_dag: AddDag, airflow: Airflow, api: AirflowApi
) -> None:
    source, topic = pair.folder.name, pair.unique("orders")
    create_topic(pair.primary.bootstrap, topic, partitions=2)
    pair.produce(topic, [Record(key=b"%d" % number) for number in range(100)])
    options = {"schedule": "", "approval": "always", "shards": 2}
    dag_id = add_dag(topic, **options)
    before = topics_of(pair.backup)
    trace, program = tmp_path / "trace", tmp_path / "program"
    program.write_text(f'#!/bin/sh\ntouch {trace}\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    run_id = api.trigger(dag_id)
    api.question(dag_id, run_id, "approve")
    of_run = f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances"

    with client(airflow, "admin") as admin:
        digest = got(admin, f"{of_run}/plan/xcomEntries/{PLANNED}")["value"]
        api.mark(dag_id, run_id, "approve", "success")
        forged = {"key": APPROVED, "value": digest.strip('"'), "map_index": -1}
        admin.post(f"{of_run}/approve/xcomEntries", json=forged).raise_for_status()
        unapproved = api.wait(dag_id, run_id)

        assert unapproved.tasks["sync_topics"] == "failed"
        assert "the stored plan is not approved" in unapproved.log
        assert topics_of(pair.backup) == before

        api.clear(dag_id, run_id, "plan")
        api.question(dag_id, run_id, "approve")
        # Planned again while a person looks at what was planned before.
        pair.produce(topic, [Record(key=b"later")])
        api.clear(dag_id, run_id, "plan", downstream=False)
        wait_until(lambda: api.task(dag_id, run_id, "plan")["state"] == "success", 120)
        now = got(admin, f"{of_run}/plan/xcomEntries/{PLANNED}")["value"].strip('"')
        assert now != digest.strip('"')
        for key in got(admin, f"{of_run}/approve/xcomEntries")["xcom_entries"]:
            admin.patch(
                f"{of_run}/approve/xcomEntries/{key['key']}", json={"value": now, "map_index": -1}
            ).raise_for_status()
        # Asked again, a person would see what is planned now.
        api.answer(dag_id, run_id, "approve", "Approve", again=False)
        state = api.task(dag_id, run_id, "approve")["state"]
        assert state in ("failed", "awaiting_input")
        if state == "failed":
            api.wait(dag_id, run_id)
        assert topics_of(pair.backup) == before

        api.clear(dag_id, run_id, "plan")
        api.question(dag_id, run_id, "approve")
        conf = {f"spark.pyspark{driver}.python": str(program) for driver in ("", ".driver")}
        shards = [{"shard": it, "shard_name": f"shard {it}", "conf": conf} for it in range(2)]
        entry = f"{of_run}/plan/xcomEntries/return_value"
        admin.patch(entry, json={"value": shards, "map_index": -1}).raise_for_status()
        api.answer(dag_id, run_id, "approve", "Approve")
        approved = api.wait(dag_id, run_id)

    assert approved.state == "success", approved.log
    assert_same(pair.primary, topic, pair.backup, f"{source}.{topic}")
    assert not trace.exists()
