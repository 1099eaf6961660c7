"""What is shown of a flow after real runs between real brokers, without asking either of them."""

from __future__ import annotations

from contextlib import suppress

from kafka_ferry.config import load_flow
from kafka_ferry.errors import FerryError
from kafka_ferry.model import TopicPartition
from kafka_ferry.runs import Run
from kafka_ferry.runs.views import FlowViews
from kafka_ferry.runs.where import where_by_ledger
from tests.support.records.builders import Record, delete_before
from tests.support.runs.flows import copy_now, ledger_of, remote, write_flow
from tests.support.runs.pair import Pair


def test_what_real_runs_leave_is_shown_without_a_broker(pair: Pair) -> None:
    topic = pair.topic("orders", partitions=2)
    file = write_flow(pair.folder, pair.primary, pair.backup, [topic])
    flow = load_flow(file)
    for run, partition in (("run-1", 0), ("run-2", 1)):
        pair.produce(topic, [Record(value=b"v", partition=partition)] * 30)
        copy_now(flow, run)
        ledger_of(flow)
        # One record comes too late for this run, and is what the flow is behind by.
        pair.produce(topic, [Record(value=b"late", partition=0)])
        with suppress(FerryError):
            # Nothing was verified, which fails a run; its report is written all the same.
            Run(flow, run).publish()

    nowhere = (("127.0.0.1:1", pair.primary.bootstrap), ("127.0.0.1:2", pair.backup.bootstrap))
    text = file.read_text()
    for address, known in nowhere:
        text = text.replace(known, address)
    file.write_text(text)
    showing = FlowViews(load_flow(file))

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


def test_all_source_offsets_of_a_flow_are_shown_down_to_one_record(pair: Pair) -> None:
    topic = pair.topic("orders", partitions=2)
    file = write_flow(
        pair.folder, pair.primary, pair.backup, [topic], on_source_truncation="continue"
    )
    flow = load_flow(file)
    here, there = (TopicPartition(topic, n) for n in (0, 1))
    pair.produce(topic, [Record(value=b"v", partition=0)] * 20)
    pair.produce(topic, [Record(value=b"v", partition=1)] * 3)
    copy_now(flow, "run-1")
    never = [Record(value=b"never", partition=1)] * 2
    pair.produce(topic, never, transactional_id=topic, abort=True)
    pair.produce(topic, [Record(value=b"v", partition=0)] * 20)
    delete_before(pair.primary, topic, 25)
    copy_now(flow, "run-2")
    ledger_of(flow)
    with suppress(FerryError):
        Run(flow, "run-2").publish()

    showing = FlowViews(flow)
    first, second = showing.offsets()
    assert (first.run, first.offsets, first.copied, first.reasons) == ("run-1", 23, 23, {})
    assert (second.run, second.offsets, second.copied, second.lost) == ("run-2", 23, 15, 5)
    assert second.reasons == {"lost": 5, "aborted": 2, "control": 1}
    (row,) = showing.offsets_rows()
    assert (row.name, row.offsets, row.copied, row.lost, row.left_out) == (topic, 46, 38, 5, 8)
    assert [(one.partition, one.offsets, one.lost) for one in showing.offsets_rows(topic)] == [
        (0, 40, 5),
        (1, 6, 0),
    ]
    assert [bar.offsets for bar in showing.offsets(topic, 1)] == [3, 3]
    ranges = showing.ranges_of(topic, 0)
    assert [(one.run, one.start, one.end) for one in ranges] == [
        ("run-2", 20, 40),
        ("run-1", 0, 20),
    ]
    (lost,) = where_by_ledger(flow, here, 22)
    assert (lost.target_offset, lost.reason, lost.run) == (None, "lost", "run-2")
    (kept,) = where_by_ledger(flow, here, 25)
    assert (kept.state, kept.reason, kept.proof) == ("", "", None)
    assert kept.target_offset is not None
    (none,) = where_by_ledger(flow, there, 4)
    assert none.reason == "aborted or control"
    assert where_by_ledger(flow, there, 6) == []
    page = (showing.report_page("run-2") or b"").decode()
    assert "run run-2: 5 lost" in page
