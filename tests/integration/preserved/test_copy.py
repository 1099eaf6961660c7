"""Topics whose records keep their offsets: every kind of log, every start, on two real brokers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.copy.target.preserved.control_records import later_epoch
from kafka_ferry.model import LogBounds, TopicPartition
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import Record, create_topic, delete_before, read_all, set_config
from tests.support.records.histories import named
from tests.support.records.offsets import assert_same_offsets
from tests.support.runs.flows import (
    copy_now,
    copy_planned,
    failures,
    ledger_of,
    ledger_rows,
    plan_now,
    remote,
)
from tests.support.runs.pair import Pair

FILLS = pytest.mark.parametrize("fill", ["transactions", "markers"])


@pytest.fixture
def preserved(pair: Pair) -> Callable[..., Flow]:
    """Makes a flow that preserves offsets."""

    def make(*topics: str, **options: object) -> Flow:
        return pair.flow(topics, offsets="preserved", **options)

    return make


def assert_copied(flow: Flow, topic: str, pair: Pair, run: str) -> None:
    assert not failures(copy_now(flow, run))
    assert_same_offsets(pair.primary, topic, pair.backup, remote(flow, topic))


@pytest.mark.short("markers")
@FILLS
def test_transactions_of_several_producers_leave_gaps_that_are_filled(
    preserved: Callable[..., Flow], pair: Pair, fill: str
) -> None:
    topic = pair.topic("transactional", partitions=3)
    flow = preserved(topic, fill=fill)
    for run in range(3):
        for number in range(12):
            records = [
                Record(b"%d" % i, b"%d-%d-%d" % (run, number, i), partition=i % 3) for i in range(9)
            ]
            pair.produce(
                topic,
                records,
                transactional_id=f"{topic}-{number % 4}" if number % 6 else None,
                abort=number % 3 == 2,
            )
        assert_copied(flow, topic, pair, f"run-{run}")
    rows = ledger_rows(flow)
    assert all(row["preserved"] for row in rows)
    assert sum(row["reasons"].get("aborted", 0) for row in rows) == 3 * 4 * 9
    segments = [segment for row in rows for segment in row["segments"]]
    assert all(segment["source"] == segment["target"] for segment in segments)


@pytest.mark.short("0-none", "32768-gzip", "32768-zstd")
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("join", [0, 32768])
def test_batches_pass_and_small_ones_are_joined(
    preserved: Callable[..., Flow], pair: Pair, compression: str, join: int
) -> None:
    topic = pair.topic("batches")
    for number in range(8):
        pair.produce(topic, named(f"small {number}", 5), compression=compression)
    pair.produce(
        topic,
        [Record(value=random.Random(i).randbytes(900)) for i in range(2_000)],
        compression=compression,
    )
    assert_copied(preserved(topic, join_batches_below=join), topic, pair, "run-1")


def test_the_times_of_the_sources_broker_are_kept(
    preserved: Callable[..., Flow], pair: Pair
) -> None:
    topic = pair.topic("append-time", message_timestamp_type="LogAppendTime")
    pair.produce(topic, named("stamped", 30), compression="lz4")
    assert_copied(preserved(topic), topic, pair, "run-1")


@pytest.mark.short("markers")
@FILLS
def test_a_compacted_log_keeps_its_offsets(
    preserved: Callable[..., Flow], pair: Pair, fill: str
) -> None:
    topic = pair.unique("compacted")
    compaction = {
        "cleanup_policy": "compact",
        "min_cleanable_dirty_ratio": "0.0",
        "segment_ms": "50",
        "max_compaction_lag_ms": "50",
    }
    create_topic(pair.primary.bootstrap, topic, **compaction)
    for number in range(6):
        pair.produce(topic, [Record(b"%d" % (i % 5), b"%d %d" % (number, i)) for i in range(20)])
        time.sleep(0.1)
    deadline = time.monotonic() + 60
    while len(read_all(pair.primary.bootstrap, topic)[0]) > 60 and time.monotonic() < deadline:
        pair.produce(topic, [Record(b"roll", b"roll")])
        time.sleep(0.2)
    flow = preserved(topic, fill=fill)
    assert not failures(copy_now(flow))
    # Either cleaner may have gone further since: what both hold must agree.
    want = {record.offset: record for record in read_all(pair.primary.bootstrap, topic)[0]}
    have = {record.offset: record for record in pair.copied(flow, topic)[0]}
    assert have
    assert all(have[offset] == want[offset] for offset in want.keys() & have.keys())
    assert {record.key: record for record in have.values()} == {
        record.key: record for record in want.values()
    }


@FILLS
@pytest.mark.parametrize("start", ["log-start", 0, 3, 12])
def test_a_mirror_starts_where_it_is_told_to(
    preserved: Callable[..., Flow], pair: Pair, start: str | int, fill: str
) -> None:
    topic = pair.topic("start", named("old", 20))
    delete_before(pair.primary, topic, 5)
    flow = preserved(topic, fill=fill, offsets_start=start)
    assert not failures(copy_now(flow))

    wanted = [
        r
        for r in read_all(pair.primary.bootstrap, topic)[0]
        if start == "log-start" or r.offset >= start
    ]
    for isolation in ("read_committed", "read_uncommitted"):
        assert pair.copied(flow, topic, isolation=isolation)[0] == wanted
    begins = 5 if start == "log-start" else start
    assert bounds(pair.backup, remote(flow, topic)) == (begins, 20)


def bounds(broker: KafkaCluster, topic: str) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "bounds"})
    try:
        low, high = consumer.get_watermark_offsets(Partition(topic, 0), timeout=10)
        return low, high
    finally:
        consumer.close()


def test_a_log_that_begins_far_up_is_filled_and_cut_off(
    preserved: Callable[..., Flow], pair: Pair
) -> None:
    """The source's own offsets are brought there by an earlier mirror of ours."""
    topic = pair.topic("far", named("far", 3))
    flow = preserved(topic)
    plan = plan_now(flow)
    (range_,) = plan.ranges
    copy_planned(flow, replace(plan, ranges=(replace(range_, start=3, end=3, log_start=3),)))
    assert bounds(pair.backup, remote(flow, topic)) == (3, 3)


@pytest.mark.long
@FILLS
def test_an_empty_partition_that_begins_far_up_ends_there_too(
    preserved: Callable[..., Flow], pair: Pair, fill: str
) -> None:
    topic = pair.topic("emptied", named("gone", 7))
    delete_before(pair.primary, topic, 7)
    flow = preserved(topic, fill=fill)
    assert_copied(flow, topic, pair, "run-1")
    assert bounds(pair.backup, remote(flow, topic)) == (7, 7)
    pair.produce(topic, named("new", 4))
    assert_copied(flow, topic, pair, "run-2")


@pytest.mark.parametrize("policy", ["follow", "keep"])
def test_the_sources_log_start_is_followed_by_policy(
    preserved: Callable[..., Flow], pair: Pair, policy: str
) -> None:
    topic = pair.topic("moved", named("old", 20))
    flow = preserved(topic, on_source_start_moved=policy)
    assert_copied(flow, topic, pair, "run-1")
    delete_before(pair.primary, topic, 8)
    # Nothing is new but the start.
    assert not failures(copy_now(flow, "run-2"))
    assert bounds(pair.backup, remote(flow, topic)) == (8 if policy == "follow" else 0, 20)


def test_a_log_start_that_the_source_only_claims_deletes_nothing(
    preserved: Callable[..., Flow], pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One answer is a claim: the broker gives what it says not to have any more."""
    topic = pair.topic("claimed", named("old", 20))
    flow = preserved(topic)
    assert_copied(flow, topic, pair, "run-1")
    look = ClusterControl.log_bounds

    def lie(control: ClusterControl, *args: Any, **options: Any) -> dict[TopicPartition, LogBounds]:
        start = 8 if control.alias == flow.source.alias else 0
        return {tp: LogBounds(start, it.end) for tp, it in look(control, *args, **options).items()}

    monkeypatch.setattr(ClusterControl, "log_bounds", lie)
    plan = plan_now(flow, "run-2")
    (doubt,) = (str(note) for note in plan.remarks.notes if "start later" in str(note))
    assert f"{topic}-0 start later than their copies, and does not refuse" in doubt
    assert not failures(copy_planned(flow, plan))
    assert bounds(pair.backup, remote(flow, topic)) == (0, 20)


def test_a_table_that_lacks_the_first_copied_range_deletes_nothing(
    preserved: Callable[..., Flow], pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """The same bounds as where the target's broker forgot the log's start, but the records are not empty."""
    topic = pair.topic("forged")
    flow = preserved(topic)
    for run in ("run-1", "run-2"):
        pair.produce(topic, named(run, 10))
        assert_copied(flow, topic, pair, run)
    forget_first_ranges(flow)
    pair.produce(topic, named("run-3", 10))
    assert_copied(flow, topic, pair, "run-3")
    assert bounds(pair.backup, remote(flow, topic)) == (0, 30)
    assert "starts at 0, before the first copied offset 10, and holds other records" in caplog.text


def forget_first_ranges(flow: Flow) -> None:
    """Take the ranges that begin at 0 out of the ledger's table, whose files claim to be complete."""
    ledger_of(flow)
    found = 0
    for file in Path(flow.state_path, flow.slug, "ledger").glob("*.parquet"):
        rows = pq.read_table(file)
        left = rows.filter(pc.field("start").is_null() | (pc.field("start") != 0))
        found += rows.num_rows - left.num_rows
        pq.write_table(left, file, use_dictionary=False)
    assert found


@FILLS
def test_a_compacted_topic_begins_at_0_since_brokers_do_not_let_its_start_be_moved(
    preserved: Callable[..., Flow], pair: Pair, fill: str
) -> None:
    topic = pair.topic("compacted-start", named("old", 20), cleanup_policy="delete")
    delete_before(pair.primary, topic, 5)
    set_config(pair.primary, topic, "cleanup.policy", "compact")
    flow = preserved(topic, fill=fill)
    assert not failures(copy_now(flow))
    copy = remote(flow, topic)
    assert bounds(pair.backup, copy) == (0, 20)
    for isolation in ("read_committed", "read_uncommitted"):
        assert (
            read_all(pair.backup.bootstrap, copy, isolation=isolation)[0]
            == read_all(pair.primary.bootstrap, topic)[0]
        )
    assert not failures(copy_now(flow, "run-2"))


@FILLS
def test_lost_records_are_a_gap_after_which_copying_goes_on(
    preserved: Callable[..., Flow], pair: Pair, fill: str
) -> None:
    topic = pair.topic("lost", named("old", 10))
    flow = preserved(topic, fill=fill, on_source_truncation="continue")
    assert_copied(flow, topic, pair, "run-1")
    pair.produce(topic, named("lost", 6))
    pair.produce(topic, named("new", 5))
    delete_before(pair.primary, topic, 16)
    assert_copied(flow, topic, pair, "run-2")
    assert ledger_rows(flow)[-1]["lost"] == [{"start": 10, "end": 16}]


@FILLS
def test_a_record_that_the_target_does_not_take_becomes_a_gap_by_policy(
    preserved: Callable[..., Flow], pair: Pair, fill: str
) -> None:
    topic = pair.topic("large")
    large = Record(b"large", random.Random(1).randbytes(20_000))
    records = [*named("before", 5), large, *named("between", 3), large, *named("after", 4)]
    pair.produce(topic, records)
    flow = preserved(topic, fill=fill)
    create_topic(pair.backup.bootstrap, remote(flow, topic), max_message_bytes="10000")
    (told,) = failures(copy_now(flow))
    assert "stopped at offset 5" in told
    assert "MESSAGE_TOO_LARGE" in told

    letters = flow.model_copy(update={"on_rejected_record": "dead-letter"})
    assert not failures(copy_now(letters, "run-2"))
    want = [r for r in read_all(pair.primary.bootstrap, topic)[0] if r.key != b"large"]
    for isolation in ("read_committed", "read_uncommitted"):
        assert pair.copied(flow, topic, isolation=isolation)[0] == want
    dead = read_all(pair.backup.bootstrap, flow.dead_letter_name)[0]
    assert [dict(letter.headers)["ferry.offset"] for letter in dead] == [b"5", b"9"]
    assert bounds(pair.backup, remote(flow, topic)) == (0, 14)


def test_a_batch_larger_than_the_target_takes_is_split(
    preserved: Callable[..., Flow], pair: Pair
) -> None:
    topic = pair.topic("split")
    pair.produce(
        topic,
        [Record(value=random.Random(i).randbytes(500)) for i in range(400)],
        compression="lz4",
    )
    flow = preserved(topic)
    create_topic(pair.backup.bootstrap, remote(flow, topic), max_message_bytes="20000")
    assert_copied(flow, topic, pair, "run-1")


def test_positions_that_the_group_lost_come_back_from_the_ledger(
    preserved: Callable[..., Flow], pair: Pair
) -> None:
    topic = pair.topic("forgotten", named("old", 10))
    flow = preserved(topic)
    assert_copied(flow, topic, pair, "run-1")
    before = read_positions(flow.target, flow.name)[TopicPartition(remote(flow, topic), 0)]
    group = f"ferry.{flow.name}"
    client = AdminClient({"bootstrap.servers": pair.backup.bootstrap})
    client.delete_consumer_groups([group])[group].result()
    pair.produce(topic, named("new", 10))
    assert_copied(flow, topic, pair, "run-2")
    after = read_positions(flow.target, flow.name)[TopicPartition(remote(flow, topic), 0)]
    assert before.producer and after.producer
    assert after.producer.producer_id == before.producer.producer_id
    assert after.producer.sequence == 20


def test_both_kinds_of_topics_share_a_flow(pair: Pair) -> None:
    kept, translated = (pair.topic(it, partitions=2) for it in ("kept", "translated"))
    for topic in (kept, translated):
        pair.produce(topic, named("x", 30), transactional_id=f"{topic}-t")
    flow = pair.flow([kept, translated], offsets={kept: "preserved", ".*": "translated"})
    assert not failures(copy_now(flow))
    assert_same_offsets(pair.primary, kept, pair.backup, remote(flow, kept))
    assert {row["preserved"] for row in ledger_rows(flow) if row["topic"] == translated} == {False}


@FILLS
@pytest.mark.short("markers")
def test_a_writer_that_has_to_ask_who_writes_goes_on(
    preserved: Callable[..., Flow], pair: Pair, monkeypatch: pytest.MonkeyPatch, fill: str
) -> None:
    """Each answer is a new epoch of its producer, and the ledger's sequence numbers begin again."""
    monkeypatch.setattr("kafka_ferry.copy.target.preserved.records._STALE_S", 0.0)
    topic = pair.topic("asked", partitions=2)
    flow = preserved(topic, fill=fill, transaction_max_bytes=1_000, fetch_max_bytes=2_000)
    for number in range(6):
        records = [Record(b"%d" % i, b"%d" % number * 200, partition=i % 2) for i in range(20)]
        pair.produce(topic, records, transactional_id=topic, abort=number == 2)
    assert_copied(flow, topic, pair, "run-1")
    assert len(ledger_rows(flow)) > 2


@FILLS
def test_control_records_that_come_late_are_waited_for(
    preserved: Callable[..., Flow], pair: Pair, monkeypatch: pytest.MonkeyPatch, fill: str
) -> None:
    """A broker that was away may have been left out: what is still missing is filled again."""
    monkeypatch.setattr("kafka_ferry.copy.target.preserved.gap_filler._GRACE_S", 0.0)
    topic = pair.topic("late")
    for number in range(4):
        pair.produce(topic, named(f"{number}", 3), transactional_id=topic)
    assert_copied(preserved(topic, fill=fill), topic, pair, "run-1")


@FILLS
@pytest.mark.long
def test_the_filling_may_change_between_runs(
    preserved: Callable[..., Flow], pair: Pair, fill: str
) -> None:
    topic = pair.topic("refilled")
    flow = preserved(topic)
    for run, filling in enumerate(["transactions", "markers", "transactions", fill]):
        for abort in (False, True):
            pair.produce(topic, named(f"{run}", 4), transactional_id=topic, abort=abort)
        changed = flow.model_copy(update={"fill": filling})
        assert_copied(changed, topic, pair, f"run-{run}")


@pytest.mark.long
def test_gaps_are_filled_on_after_a_writer_with_a_far_higher_coordinator_epoch(
    preserved: Callable[..., Flow], pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers refuse a lower one for ever: no clock may decide about it, since one may be ahead."""
    topic = pair.topic("ahead")
    flow = preserved(topic, fill="markers")
    epochs = "kafka_ferry.copy.target.preserved.control_records.later_epoch"
    for run, epoch in enumerate([lambda last, own: last + 2**30, later_epoch, later_epoch]):
        monkeypatch.setattr(epochs, epoch)
        pair.produce(topic, named(f"{run}", 4), transactional_id=topic)
        assert_copied(flow, topic, pair, f"run-{run}")


@pytest.mark.long
def test_fewer_writers_take_over_what_more_have_begun(
    preserved: Callable[..., Flow], pair: Pair
) -> None:
    topic = pair.topic("writers", partitions=12)
    flow = preserved(topic, writers=5)
    for run, writers in enumerate([5, 2, 7]):
        records = [Record(b"%d" % i, b"%d" % run, partition=i % 12) for i in range(60)]
        pair.produce(topic, records, transactional_id=topic)
        changed = flow.model_copy(update={"writers": writers})
        assert_copied(changed, topic, pair, f"run-{run}")
