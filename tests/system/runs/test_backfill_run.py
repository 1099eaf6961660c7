"""In a real Airflow a backfill copies what its intervals lack, and topics that are proved are assets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kafka_sandbox.airflow_api import AirflowApi
from kafka_sandbox.cluster import KafkaCluster
from tests.support.airflow.dags import AddDag, add_flow
from tests.support.records.builders import Record, create_topic, read_all
from tests.support.runs.pair import Pair
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.alone, pytest.mark.timeout(900)]

STEPS = ("plan", "sync_topics", "mirror", "verify", "sync_groups", "publish", "update_assets")
# Of hours, one would often end while the test runs.
DAY = timedelta(days=1)
EACH = 10


def records_of(day: datetime) -> list[Record]:
    """Records of an hour of that day, the last ones out of order."""
    first = int(day.timestamp() * 1000)
    minutes = [*range(0, 6 * EACH - 12, 6), 59, 1]
    return [
        Record(key=b"%d" % minute, value=str(day).encode(), timestamp=first + minute * 60_000)
        for minute in minutes
    ]


def values(broker: KafkaCluster, topic: str) -> list[bytes | None]:
    return [record.value for part in read_all(broker.bootstrap, topic).values() for record in part]


@pytest.mark.long
def test_a_backfill_copies_its_intervals_once_beside_the_scheduled_runs_and_tells_whom_it_concerns(
    pair: Pair, configs: Path, add_dag: AddDag, api: AirflowApi
) -> None:
    source, topic = pair.folder.name, pair.unique("orders")
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [today - number * DAY for number in (6, 5, 4, 3)]
    create_topic(pair.primary.bootstrap, topic)
    for day in days:
        pair.produce(topic, records_of(day))
    remote = f"{source}.{topic}"
    pool = f"kafka_ferry_{source}"
    dag_id = add_dag(topic, auto_offset_reset="latest", pool=pool)
    waiting = add_flow(
        pair.folder / f"{source}-next",
        configs,
        pair.primary,
        pair.backup,
        topic,
        schedule_assets=[f"backup/{remote}"],
        # It is about who begins it: what it copies would only take time.
        approval="always",
    )
    api.wait_for_dag(waiting)

    # A dry run says what would be done, and does nothing of it.
    api.unpause_and_find_run(waiting)
    scheduled = api.unpause_and_find_run(dag_id)
    assert scheduled is not None
    dry = api.trigger(dag_id, {"dry_run": True, "topics": [topic]})

    # Two intervals, beside the scheduled run; each run owns one of them.
    wanted = days[1:3]
    api.wait_for_backfill(api.backfill(dag_id, wanted[0], wanted[1]))

    backfills = list(api.runs(dag_id, "backfill"))
    assert len(backfills) == 2
    for run_id in (scheduled, *backfills):
        run = api.wait(dag_id, run_id)
        assert (run.state, set(run.tasks.values())) == ("success", {"success"}), run.log
        assert set(run.tasks) == set(STEPS)
    copied = [str(day).encode() for day in wanted for _ in range(EACH)]
    assert sorted(map(str, values(pair.backup, remote))) == sorted(map(str, copied))

    ended = api.wait(dag_id, dry)
    assert ended.state == "success"
    assert ended.tasks == {**dict.fromkeys(STEPS, "skipped"), "plan": "success"}

    # A pool that no user has made was created by the run.
    assert api.pool(pool)["slots"] == 2

    # An event for each run that has proved something, with what it has proved.
    told = {event["source_run_id"]: event for event in api.asset_events(dag_id)}
    assert told.keys() == {scheduled, *backfills}
    assert {event["name"] for event in told.values()} == {f"backup/{remote}"}
    assert told[scheduled]["extra"]["records"] == 0
    assert datetime.fromisoformat(told[scheduled]["extra"]["complete_until"]) > today
    for run_id, day in zip(backfills, wanted, strict=True):
        extra = told[run_id]["extra"]
        assert extra["records"] == EACH
        assert "complete_until" not in extra
        assert datetime.fromisoformat(extra["backfill"]["since"]) == day
        assert datetime.fromisoformat(extra["backfill"]["until"]) == day + DAY

    # Who waits for the topic runs.
    wait_until(lambda: bool(api.runs(waiting, "asset_triggered")), seconds=60)
    for run_id in api.runs(waiting, "asset_triggered"):
        api.end_run(waiting, run_id)

    # Runs that exist are left alone, unless a backfill is to run those that are completed again: the
    # same run, which copies nothing then, and says so.
    api.wait_for_backfill(api.backfill(dag_id, wanted[0], wanted[1]))
    assert list(api.runs(dag_id, "backfill")) == backfills
    api.wait_for_backfill(api.backfill(dag_id, wanted[1], wanted[1], "completed"))

    again = api.wait(dag_id, backfills[1])
    assert again.state == "success", again.log
    assert "nothing" in api.log(dag_id, backfills[1], "plan")
    assert sorted(map(str, values(pair.backup, remote))) == sorted(map(str, copied))
    assert len(api.asset_events(dag_id)) == 3, "what was proved before is no news"
