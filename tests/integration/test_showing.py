"""What is shown of a flow after real runs between real brokers, without asking either of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kafka_ferry.config import load_flow
from kafka_ferry.errors import FerryError
from kafka_ferry.runs import Run
from kafka_ferry.runs.views import Showing
from kafka_sandbox.cluster import KafkaCluster
from tests.support.builders import Record, create_topic, produce
from tests.support.flows import copy_now, ledger_of, remote, write_flow


def test_what_real_runs_leave_is_shown_without_a_broker(
    primary: KafkaCluster, backup: KafkaCluster, folder: Path, unique: Callable[[str], str]
) -> None:
    topic = unique("orders")
    create_topic(primary.bootstrap, topic, partitions=2)
    file = write_flow(folder, primary, backup, [topic])
    flow = load_flow(file)
    for run, partition in (("run-1", 0), ("run-2", 1)):
        produce(primary.bootstrap, topic, [Record(value=b"v", partition=partition)] * 30)
        copy_now(flow, run)
        ledger_of(flow)
        # One record comes too late for this run, and is what the flow is behind by.
        produce(primary.bootstrap, topic, [Record(value=b"late", partition=0)])
        with suppress(FerryError):
            # Nothing was verified, which fails a run; its report is written all the same.
            Run(flow, run).publish()

    nowhere = (("127.0.0.1:1", primary.bootstrap), ("127.0.0.1:2", backup.bootstrap))
    text = file.read_text()
    for address, known in nowhere:
        text = text.replace(known, address)
    file.write_text(text)
    showing = Showing(load_flow(file))

    assert [(one.run, one.copied.records, one.state) for one in showing.history()] == [
        ("run-1", 30, "not verified"),
        ("run-2", 31, "not verified"),
    ]
    assert showing.history()[-1].lag.records_behind == 1
    (shown,) = showing.topics()
    assert (shown.topic, shown.remote_topic) == (topic, remote(flow, topic))
    assert (shown.partitions, shown.records, shown.records_behind) == (2, 61, 1)
    assert shown.health == "not verified"
    ranges = showing.ranges("run-2")
    assert [(one.partition, one.start, one.end, one.records) for one in ranges] == [
        (0, 30, 31, 1),
        (1, 0, 30, 30),
    ]
    assert not any(one.verified for one in ranges)
    view = showing.run("run-2")
    assert view is not None and view.report is not None
    assert [step.name for step in view.steps if step.record][:2] == ["plan", "sync_topics"]
    assert b"Copied, not verified" in (showing.report_page("run-2") or b"")
