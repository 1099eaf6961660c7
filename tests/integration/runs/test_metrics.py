"""A run's metrics: measured on real brokers, read by Prometheus' own parser, received by real receivers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from prometheus_client.parser import text_string_to_metric_families

from kafka_ferry.batches import NO_AGES
from kafka_ferry.config import Flow
from kafka_ferry.copy import Outcome, OutcomeFiles
from kafka_ferry.errors import FerryError
from kafka_ferry.model import RunOptions, TopicPartition
from kafka_ferry.report import RunReport
from kafka_ferry.runs import Run
from kafka_ferry.runs.publish.partition_lag import find_lag
from kafka_ferry.runs.publish.prometheus import export_to_prometheus
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.state import StateFolder
from kafka_sandbox.broker import free_port
from kafka_sandbox.cluster import KafkaCluster
from tests import PROJECT
from tests.support.records.builders import Record, create_topic, recreate_topic
from tests.support.runs.command_line import ferry
from tests.support.runs.flows import (
    copy_now,
    copy_planned,
    ledger_of,
    make_flow,
    plan_now,
    remote,
    write_flow,
)
from tests.support.runs.pair import Pair
from tests.support.servers.receivers import http_receiver, udp_receiver
from tests.unit.report.reports import REPORT

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]
HOUR_MS = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def parsed(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """All samples of an exposition, each once."""
    found = [
        ((sample.name, frozenset(sample.labels.items())), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]
    assert len(found) == len(dict(found))
    return dict(found)


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((f"kafka_ferry_{name}", frozenset(labels.items())))


def some(count: int, age_ms: int, partition: int = 0, size: int = 100) -> list[Record]:
    """Records that were written so long ago."""
    at = now_ms() - age_ms
    return [Record(value=os.urandom(size), timestamp=at, partition=partition)] * count


def commit(broker: KafkaCluster, group: str, topic: str, offset: int) -> None:
    """Commits an offset of partition 0 for a group without members."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.commit(offsets=[ConfluentPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def published(flow: Flow, run: str, outcomes: list[Outcome]) -> RunReport:
    """The report of a run that copied without Spark, and so is not verified."""
    this = Run(flow, run)
    runs = StateFolder(flow.state_path).folder(f"{flow.slug}/runs/{run}")
    OutcomeFiles(runs, "attempt").write(0, outcomes)
    # As the step mirror leaves it.
    ledger_of(flow)
    with suppress(FerryError):
        this.publish()
    report = this.report()
    assert report and report.measures
    return report


def test_a_run_leaves_its_metrics_in_a_file_and_pushes_the_same(pair: Pair) -> None:
    topic, group = pair.unique("measured"), pair.unique("readers")
    create_topic(pair.primary.bootstrap, topic, partitions=2)
    pair.produce(topic, [*some(30, HOUR_MS), *some(10, 0, partition=1)])
    pair.produce(topic, some(5, 0), transactional_id=topic, abort=True)
    commit(pair.primary, group, topic, 10)
    tags = {"source": pair.folder.name, "target": "backup"}
    began = time.time()
    with http_receiver() as gateway:
        options = {
            "metrics_prometheus_dir": str(pair.folder / "metrics"),
            "metrics_prometheus_push_url": f"{gateway.url}/some/path/",
            "groups": [group],
        }
        file = write_flow(pair.folder, pair.primary, pair.backup, [topic], **options)
        ran = ferry("run", "--config", file)
    assert ran.returncode == 0, ran.stderr
    ended = time.time()

    (pushed,) = gateway.requests
    assert pushed[:2] == (
        "PUT",
        f"/some/path/metrics/job/kafka-ferry/source/{pair.folder.name}/target/backup",
    )
    (written,) = (pair.folder / "metrics").iterdir()
    assert written.name == f"kafka-ferry-{pair.folder.name}_to_backup.prom"
    assert written.read_bytes() == pushed[3]

    found = parsed(written.read_text())
    first = tags | {"topic": f"{pair.folder.name}.{topic}", "partition": "0"}
    second = first | {"partition": "1"}
    assert value(found, "run_state", **tags, state="verified") == 1
    assert value(found, "run_state", **tags, state="failed") == 0
    assert value(found, "record_count_total", **first) == 30
    assert value(found, "record_count_total", **second) == 10
    assert (value(found, "byte_count_total", **first) or 0) > 3_000
    assert (value(found, "record_rate", **first) or 0) > 0
    assert value(found, "offsets_without_record_total", **first, reason="aborted") == 5
    assert value(found, "offsets_without_record_total", **first, reason="lost") == 0
    for name in ("record_age_ms", "replication_latency_ms"):
        for suffix in ("", "_min", "_max", "_avg"):
            # The run itself takes a while.
            old = value(found, name + suffix, **first) or 0
            assert HOUR_MS <= old <= HOUR_MS + (ended - began) * 1000 + 60_000
    for suffix in ("_min", "_avg", "_max"):
        read = value(found, f"record_age_ms{suffix}", **first) or 0
        assert (value(found, f"replication_latency_ms{suffix}", **first) or 0) >= read
        assert 0 <= (value(found, f"record_age_ms{suffix}", **second) or -1) < HOUR_MS
    assert value(found, "records_behind", **first) == 0
    assert value(found, "seconds_behind", **first) == 0
    proved = value(found, "verified_until_seconds", **tags) or 0
    assert began <= proved <= ended
    assert value(found, "partition_verified_until_seconds", **first) == proved
    assert value(found, "run_problems", **tags, kind="failed") == 0
    assert (value(found, "run_step_seconds", **tags, step="mirror") or 0) > 0
    # 30 records, 5 that were aborted and their marker.
    assert value(found, "group_records_behind", **first, group=group) == 26
    for suffix in ("", "_min", "_max", "_avg"):
        latency = value(found, f"checkpoint_latency_ms{suffix}", **first, group=group)
        assert latency is not None and 0 <= latency < (ended - began) * 1000
    assert value(found, "group_offsets", **tags, action="shown") == 1
    assert began <= (value(found, "run_finished_seconds", **tags) or 0) <= ended


def test_what_is_behind_is_counted_and_its_age_is_that_of_its_first_record(pair: Pair) -> None:
    topic = pair.topic("behind", partitions=4, max_message_bytes="2000000")
    flow = pair.flow([topic])
    pair.produce(topic, [*some(5, 0, 0), *some(5, 0, 1)])
    copy_now(flow)
    pair.produce(topic, some(3, HOUR_MS, 1))
    pair.produce(topic, some(4, 1000, 1))
    # So large that a broker leaves it out of an answer with others.
    pair.produce(topic, some(1, 2 * HOUR_MS, 2, size=500_000))

    both = {TopicPartition(remote(flow, topic), p): TopicPartition(topic, p) for p in range(4)}
    found = {
        target.partition: behind
        for target, behind in find_lag(RunContext.of(flow, ""), both).items()
    }

    assert {p: behind.records for p, behind in found.items()} == {0: 0, 1: 7, 2: 1, 3: 0}
    assert found[0].seconds == found[3].seconds == 0
    assert found[1].seconds == pytest.approx(3_600, abs=60)
    assert found[2].seconds == pytest.approx(7_200, abs=60)


def test_a_topic_that_was_recreated_is_behind_as_a_whole_and_one_that_is_gone_is_not_there(
    pair: Pair,
) -> None:
    topic = pair.topic("recreated")
    flow = pair.flow([topic])
    pair.produce(topic, some(9, 0))
    copy_now(flow)
    recreate_topic(pair.primary, topic)
    pair.produce(topic, some(2, HOUR_MS))

    both = {
        TopicPartition(remote(flow, topic), 0): TopicPartition(topic, 0),
        TopicPartition(remote(flow, "gone"), 0): TopicPartition(pair.unique("gone"), 0),
    }
    (found,) = find_lag(RunContext.of(flow, ""), both).values()
    assert found.records == 2
    assert found.seconds == pytest.approx(3_600, abs=60)


def test_a_failed_run_says_what_is_behind_and_that_it_failed(pair: Pair) -> None:
    good, bad = (pair.topic(it, some(6, HOUR_MS)) for it in ("good", "bad"))
    create_topic(
        pair.backup.bootstrap, f"{pair.folder.name}.{bad}", message_timestamp_type="LogAppendTime"
    )
    options = {"metrics_prometheus_dir": str(pair.folder / "metrics"), "metrics_detail": "topic"}
    flow = pair.flow([good, bad], **options)

    plan = plan_now(flow)
    assert [refusal.topic for refusal in plan.remarks.refused] == [bad]
    report = published(flow, "run-1", copy_planned(flow, plan))

    assert report.state == "failed"
    (written,) = (pair.folder / "metrics").iterdir()
    found = parsed(written.read_text())
    tags = {"source": pair.folder.name, "target": "backup"}
    assert value(found, "run_state", **tags, state="failed") == 1
    assert value(found, "run_problems", **tags, kind="refused") == 1
    assert value(found, "record_count_total", **tags, topic=remote(flow, good)) == 6
    assert value(found, "verified_until_seconds", **tags) is None

    Run(flow, "run-2").plan(RunOptions(topics=(good,)))
    assert published(flow, "run-2", []).state != "failed"
    assert value(parsed(written.read_text()), "run_state", **tags, state="failed") == 1


def test_counters_go_on_and_ages_are_those_of_the_last_run(pair: Pair) -> None:
    topic = pair.topic("goes-on")
    flow = pair.flow([topic])
    for run, (count, age_ms) in enumerate([(6, HOUR_MS), (4, 0), (0, 0)]):
        pair.produce(topic, some(count, age_ms))
        outcomes = copy_now(flow, f"run-{run}")
        report = published(flow, f"run-{run}", outcomes)
        (row,) = report.measures.partitions if report.measures else ()
        if run == 0:
            assert (row.total_records, row.records) == (6, 6)
            assert row.read_ages.count == row.stored_ages.count == 6
            assert row.read_ages.least >= HOUR_MS
        elif run == 1:
            assert (row.total_records, row.records) == (10, 4)
            assert 0 <= row.read_ages.least <= row.stored_ages.most < HOUR_MS
        else:
            assert (row.total_records, row.records) == (10, 0)
            assert row.read_ages == row.stored_ages == NO_AGES


def test_preserved_offsets_have_ages_too(pair: Pair) -> None:
    topic = pair.topic("kept", some(8, HOUR_MS))
    flow = pair.flow([topic], offsets="preserved")
    (outcome,) = copy_now(flow)
    assert outcome.read_ages.count == outcome.stored_ages.count == 8
    assert HOUR_MS <= outcome.read_ages.least <= outcome.stored_ages.most < HOUR_MS + 60_000


# --- receivers


@pytest.fixture
def flow_to(folder: Path) -> Callable[..., Flow]:
    """A flow that tells its metrics; no test connects to its clusters."""

    nowhere = [SimpleNamespace(bootstrap=f"127.0.0.1:{port}") for port in (1, 2)]
    return lambda **options: make_flow(folder, *nowhere, ["x"], **options)  # type: ignore[arg-type]


def test_who_may_write_beside_the_file_opens_no_other_one_to_every_user(
    folder: Path, flow_to: Callable[..., Flow], monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = flow_to(metrics_prometheus_dir=str(folder))
    key, file = folder / "key", folder / f"kafka-ferry-{flow.slug}.prom"
    key.write_text("private")
    key.chmod(0o600)

    def swapped(rename: Callable[..., None]) -> Callable[..., None]:
        def rename_and_link(source: str, target: str) -> None:
            rename(source, target)
            file.unlink()
            file.symlink_to(key)

        return rename_and_link

    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, swapped(getattr(os, name)))

    assert export_to_prometheus(flow, REPORT) == []

    assert file.is_symlink()
    assert (key.read_text(), key.stat().st_mode & 0o777) == ("private", 0o600)


def test_a_file_is_replaced_whole_and_every_user_may_read_it(
    folder: Path, flow_to: Callable[..., Flow]
) -> None:
    flow = flow_to(metrics_prometheus_dir=str(folder / "a" / "b"))
    file = folder / "a" / "b" / f"kafka-ferry-{flow.slug}.prom"
    file.parent.mkdir(parents=True)
    file.write_text("older")
    assert export_to_prometheus(flow, REPORT) == []
    assert [found.name for found in file.parent.iterdir()] == [file.name]
    assert file.stat().st_mode & 0o777 == 0o644
    found = parsed(file.read_text())
    assert (
        value(
            found, "record_count_total", source="eu", target="us", topic="eu.orders", partition="1"
        )
        == 200
    )
    assert "# TYPE kafka_ferry_record_count_total counter" in file.read_text()
    assert "# TYPE kafka_ferry_records_behind gauge" in file.read_text()


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ("username=anna\npassword=hidden-word\n", "Basic YW5uYTpoaWRkZW4td29yZA=="),
        ("token=hidden-word\n", "Bearer hidden-word"),
    ],
    ids=["name and password", "token"],
)
def test_a_push_logs_in_with_what_the_file_says(
    folder: Path, flow_to: Callable[..., Flow], content: str, sent: str
) -> None:
    credentials = folder / "push.properties"
    credentials.write_text(content)
    with http_receiver() as gateway:
        flow = flow_to(
            metrics_prometheus_push_url=gateway.url,
            metrics_prometheus_push_job="mirrors",
            metrics_prometheus_push_credentials_file=str(credentials),
        )
        assert export_to_prometheus(flow, REPORT) == []
    ((method, path, headers, _),) = gateway.requests
    assert (method, headers["Authorization"]) == ("PUT", sent)
    assert path == f"/metrics/job/mirrors/source/{folder.name}/target/backup"


def test_a_receiver_that_fails_is_named_and_no_secret_is(
    folder: Path, flow_to: Callable[..., Flow], caplog: pytest.LogCaptureFixture
) -> None:
    credentials = folder / "push.properties"
    credentials.write_text("token=hidden-word\n")
    (folder / "a file").write_text("")
    options: dict[str, Any] = {
        "metrics_prometheus_dir": str(folder / "a file"),
        "metrics_prometheus_push_credentials_file": str(credentials),
    }
    closed = f"http://127.0.0.1:{free_port()}"
    told = export_to_prometheus(flow_to(**options, metrics_prometheus_push_url=closed), REPORT)
    assert len(told) == 2
    assert told[0].startswith(
        f"The metrics could not be written to {folder / 'a file'}/kafka-ferry-"
    )
    assert told[1].startswith(f"The metrics could not be pushed to {closed}: ")
    assert "Connection refused" in told[1]
    for no_host in ("http://a..b", f"{closed}/\u00e9"):
        (_, told_of) = export_to_prometheus(
            flow_to(**options, metrics_prometheus_push_url=no_host), REPORT
        )
        assert told_of.startswith(f"The metrics could not be pushed to {no_host}: ")

    with http_receiver(status=500) as gateway:
        (_, pushed) = export_to_prometheus(
            flow_to(**options, metrics_prometheus_push_url=gateway.url), REPORT
        )
    assert pushed.startswith(f"The metrics could not be pushed to {gateway.url}: HTTP Error 500")

    credentials.write_text("token=hidden-word\npassword=hidden-word\n")
    (_, wrong) = export_to_prometheus(
        flow_to(**options, metrics_prometheus_push_url=closed), REPORT
    )
    assert "metrics.prometheus.push.credentials.file: must have username and password" in wrong
    assert "hidden-word" not in "".join([*told, pushed, wrong, caplog.text])


# --- Airflow's own metrics, each in a process that sets them up as a task's does

_TASK = """
from pathlib import Path
from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from kafka_ferry.config import load_flow
from kafka_ferry_airflow.monitoring.metrics import export_metrics
from tests.unit.report.reports import REPORT
stats.initialize(
    factory=stats_utils.get_stats_factory(),
    export_legacy_names=conf.getboolean("metrics", "legacy_names_on"),
)
export_metrics(load_flow(Path({file!r})), REPORT)
"""


def told_by_airflow(flow: Flow, home: Path, **settings: object) -> str:
    """Tells ``REPORT`` as a task does in an Airflow with these settings of its metrics; what it logs."""
    environment = {
        f"AIRFLOW__METRICS__{name.upper()}": str(setting) for name, setting in settings.items()
    }
    done = subprocess.run(
        [sys.executable, "-c", _TASK.format(file=flow.file)],
        env=os.environ | {"AIRFLOW_HOME": str(home)} | environment,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_statsd_hears_of_every_metric_by_a_name_of_its_own(
    folder: Path, flow_to: Callable[..., Flow]
) -> None:
    with udp_receiver() as statsd:
        told_by_airflow(
            *(flow_to(), folder), statsd_on=True, statsd_host="127.0.0.1", statsd_port=statsd.port
        )
    found = statsd.gauges("airflow.kafka_ferry.")
    assert found["eu.us.eu__orders.0.record-count"] == 1_000
    assert found["eu.us.eu__orders.1.record-count"] == 200
    assert found["eu.us.eu__orders.0.replication-latency-ms-max"] == 530
    assert found["eu.us.billing.eu__orders.0.checkpoint-latency-ms-max"] == 900
    assert found["eu.us.eu__orders.0.lost.offsets-without-record"] == 3
    assert found["eu.us.not_verified.run-state"] == 0
    assert found["eu.us.verified.run-state"] == 1
    assert found["eu.us.verified-until-seconds"] == 1_600_000_000


@pytest.mark.long
def test_statsd_with_tags_has_them_beside_mirrormaker_2s_name(
    folder: Path, flow_to: Callable[..., Flow]
) -> None:
    with udp_receiver() as statsd:
        told_by_airflow(
            *(flow_to(metrics_detail="topic"), folder),
            **{"statsd_on": True, "statsd_host": "127.0.0.1", "statsd_port": statsd.port},
            statsd_influxdb_enabled=True,
        )
    found = statsd.gauges("airflow.kafka_ferry.")
    assert found["record-count,source=eu,target=us,topic=eu.orders"] == 1_200
    assert found["run-state,source=eu,target=us,state=not_verified"] == 0


def test_open_telemetry_hears_of_them_with_their_tags(
    folder: Path, flow_to: Callable[..., Flow]
) -> None:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (  # noqa: PLC0415
        ExportMetricsServiceRequest,
    )

    with http_receiver() as collector:
        port = collector.url.rpartition(":")[2]
        told_by_airflow(*(flow_to(), folder), otel_on=True, otel_host="127.0.0.1", otel_port=port)
    exported = {}
    for _, path, _, body in collector.requests:
        assert path == "/v1/metrics"
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.gauge.data_points:
                        tags = {a.key: a.value.string_value for a in point.attributes}
                        number = point.as_double or point.as_int
                        exported[metric.name, frozenset(tags.items())] = number
    tags = {"source": "eu", "target": "us", "topic": "eu.orders", "partition": "0"}
    name = "airflow.kafka_ferry.record-age-ms-max"
    assert exported[name, frozenset(tags.items())] == 500
    assert exported[name, frozenset((tags | {"partition": "1"}).items())] == 900


@pytest.mark.long
def test_an_airflow_without_metrics_is_sent_none(
    folder: Path, flow_to: Callable[..., Flow]
) -> None:
    with udp_receiver() as statsd:
        told_by_airflow(*(flow_to(), folder), statsd_host="127.0.0.1", statsd_port=statsd.port)
    assert statsd.lines == []
