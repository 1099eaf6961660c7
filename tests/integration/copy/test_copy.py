"""What the source shows to a committed consumer is on the target, once and unchanged."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient

from kafka_ferry.control import read_positions
from kafka_ferry.copy import copy_for_flow
from kafka_ferry.runs import Run
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import (
    Record,
    create_topic,
    delete_before,
    produce,
    read_all,
    set_config,
)
from tests.support.runs.flows import copy_now, failures, ledger_rows, remote
from tests.support.runs.pair import Pair

ODD_RECORDS = [
    Record(key=b"k", value=b"v", headers=(("h", b"1"), ("h", b"2"), ("empty", None)), timestamp=1),
    Record(key=None, value=b"no key", timestamp=1_700_000_000_000),
    Record(key=b"tombstone", value=None, timestamp=1_600_000_000_000),
    Record(key=None, value=None, timestamp=1_650_000_000_000),
    Record(key=b"", value=b"", headers=(("", b""),), timestamp=2),
    Record(key=b"later than the next", value=b"x" * 5000, timestamp=1_750_000_000_000),
]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_and_odd_record_passes_unopened(compression: str, pair: Pair) -> None:
    topic = pair.unique("odd")
    # Records that old would go while they are compared.
    create_topic(pair.primary.bootstrap, topic, partitions=2, retention_ms="-1")
    for _ in range(3):
        pair.produce(topic, ODD_RECORDS * 20, compression=compression)
    flow = pair.flow([topic], join_batches_below=0)

    assert failures(copy_now(flow)) == []

    pair.assert_same(flow, topic)
    assert all(not row["rebuilt"] for row in ledger_rows(flow))


def test_aborted_transactions_are_left_out_and_counted(pair: Pair) -> None:
    topic = pair.topic("payments")
    for number in range(6):
        records = [Record(key=b"%d" % i, value=b"%d" % number) for i in range(10)]
        pair.produce(topic, records, transactional_id=topic, abort=number % 3 == 1)
    pair.produce(topic, [Record(value=b"plain")])
    flow = pair.flow([topic])

    assert failures(copy_now(flow)) == []

    pair.assert_same(flow, topic)
    (row,) = ledger_rows(flow)
    assert row["reasons"] == {"aborted": 20, "control": 6}
    assert row["records"] == 41
    assert row["end"] - row["start"] == 67


def test_a_compacted_log_keeps_its_records_and_counts_what_is_gone(pair: Pair) -> None:
    topic = pair.topic(
        "customers", cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01"
    )
    for number in range(4):
        records = [Record(key=b"%d" % (i % (7 + number)), value=b"%d" % i) for i in range(50)]
        pair.produce(topic, records, compression="lz4")
        time.sleep(0.2)
    wait_for_compaction(pair.primary, topic, fewer_than=200)
    # From here on the log stays as it is.
    set_config(pair.primary, topic, "min.compaction.lag.ms", "3600000")
    wait_for_compaction(pair.primary, topic, fewer_than=200)
    flow = pair.flow([topic])

    assert failures(copy_now(flow)) == []

    shown = read_all(pair.primary.bootstrap, topic)[0]
    pair.assert_same(flow, topic)
    rows = ledger_rows(flow)
    assert sum(row["records"] for row in rows) == len(shown)
    assert sum(row["reasons"].get("compacted", 0) for row in rows) == 200 - len(shown) > 0
    assert sum(row["rebuilt"].get("offset gaps", 0) for row in rows) > 0


def wait_for_compaction(broker: KafkaCluster, topic: str, *, fewer_than: int) -> None:
    deadline = time.monotonic() + 30
    count, still = -1, 0
    while still < 5:
        assert time.monotonic() < deadline
        found = len(read_all(broker.bootstrap, topic)[0])
        still = still + 1 if found == count and found < fewer_than else 0
        count = found
        time.sleep(0.2)


def test_the_time_of_the_sources_broker_is_kept_as_consumers_saw_it(pair: Pair) -> None:
    topic = pair.topic(
        "append-time",
        [Record(value=b"%d" % i, timestamp=5) for i in range(9)],
        message_timestamp_type="LogAppendTime",
    )
    flow = pair.flow([topic])

    assert failures(copy_now(flow)) == []

    pair.assert_same(flow, topic)
    copied = pair.copied(flow, topic)[0]
    assert {record.timestamp_type for record in copied} == {"CreateTime"}
    assert copied[0].timestamp > 1_600_000_000_000


def test_a_second_run_copies_nothing_and_a_third_only_what_is_new(pair: Pair) -> None:
    topic = pair.topic(
        "twice", [Record(key=b"%d" % i, value=b"a") for i in range(300)], partitions=3
    )
    flow = pair.flow([topic])

    first, second = copy_now(flow, "run-1"), copy_now(flow, "run-2")
    pair.produce(topic, [Record(key=b"%d" % i, value=b"b") for i in range(30)])
    third = copy_now(flow, "run-3")

    assert sum(len(outcome.range) for outcome in first) == 300
    assert second == []
    assert sum(len(outcome.range) for outcome in third) == 30
    pair.assert_same(flow, topic)


def test_a_plan_that_is_carried_out_twice_writes_nothing_twice(pair: Pair) -> None:

    topic = pair.topic("again", [Record(value=b"%d" % i) for i in range(100)])
    flow = pair.flow([topic])
    (outcome,) = copy_now(flow)

    (again,) = copy_for_flow(flow, "run-1", [outcome.range])

    assert again.failure is None
    assert again.position == 100
    pair.assert_same(flow, topic)


def test_an_earlier_range_is_done_although_the_source_has_deleted_what_follows_the_position(
    pair: Pair,
) -> None:
    """A micro-batch that is repeated has the range of its time."""
    topic = pair.topic("again", [Record(value=b"%d" % i) for i in range(100)])
    flow = pair.flow([topic], on_source_truncation="continue", on_source_divergence="continue")
    (outcome,) = copy_now(flow)
    pair.produce(topic, [Record(value=b"more")] * 50)
    delete_before(pair.primary, topic, 120)

    (again,) = copy_for_flow(flow, "run-1", [replace(outcome.range, end=60)])

    assert again.failure is None
    assert again.position == 100
    assert [(row["start"], row["end"]) for row in ledger_rows(flow)] == [(0, 100)]


def test_the_ledgers_segments_say_where_each_record_went(pair: Pair) -> None:
    topic = pair.topic("mapped")
    for number in range(8):
        records = [Record(value=b"%d-%d" % (number, i)) for i in range(25)]
        transactional_id = topic if number % 2 else None
        abort = number == 3
        pair.produce(topic, records, transactional_id=transactional_id, abort=abort)
    flow = pair.flow([topic], transaction_max_bytes=500, fetch_max_bytes=1000, join_batches_below=0)

    assert failures(copy_now(flow)) == []

    rows = ledger_rows(flow)
    segments = [segment for row in rows for segment in row["segments"]]
    mapped = {
        segment["source"] + i: segment["target"] + i
        for segment in segments
        for i in range(segment["records"])
    }
    source = read_all(pair.primary.bootstrap, topic)[0]
    target = {record.offset: record for record in pair.copied(flow, topic)[0]}
    assert len(rows) > 1, "the bound in bytes should have ended several transactions"
    assert mapped.keys() == {record.offset for record in source}
    assert all(target[mapped[record.offset]].value == record.value for record in source)
    assert [row["start"] for row in rows[1:]] == [row["end"] for row in rows[:-1]]
    markers = sum(bool(row["segments"]) for row in rows) - 1
    assert max(target) == len(target) - 1 + markers, "a transaction was aborted and written again"


def test_a_batch_that_the_target_refuses_stops_its_partition_and_no_other(pair: Pair) -> None:
    topic = pair.topic("large", partitions=3, max_message_bytes="2000000")
    flow = pair.flow([topic], writers=1)
    create_topic(
        pair.backup.bootstrap, remote(flow, topic), partitions=3, max_message_bytes="10000"
    )
    for number in range(5):
        pair.produce(topic, [Record(value=b"s%d" % number, partition=0)])
        pair.produce(topic, [Record(value=b"s%d" % number, partition=1)])
    pair.produce(topic, [Record(value=b"L" * 20_000, partition=at) for at in (0, 2)])
    for number in range(20):
        pair.produce(topic, [Record(value=b"t%d" % number, partition=0)])

    problems = failures(copy_now(flow))

    for partition, offset in ((0, 5), (2, 0)):
        stopped = (
            f"{topic}-{partition} -> {remote(flow, topic)}-{partition} stopped at offset {offset}"
        )
        assert sum(stopped in it and "MESSAGE_TOO_LARGE" in it for it in problems) == 1
    assert len(problems) == 2
    have = pair.copied(flow, topic)
    assert [record.value for record in have[0]] == [b"s%d" % number for number in range(5)]
    assert len(have[1]) == 5
    positions = read_positions(flow.target, flow.name)
    # What was refused is still to be copied: a later run names it as lost where the source has deleted it until then.
    offsets = {tp.partition: position.offset for tp, position in positions.items()}
    assert offsets == {0: 5, 1: 5, 2: 0}

    set_config(pair.backup, remote(flow, topic), "max.message.bytes", "2000000")
    assert failures(copy_now(flow, "run-2")) == []
    pair.assert_same(flow, topic)


def test_a_task_that_is_repeated_after_the_group_was_deleted_goes_by_the_ledger(pair: Pair) -> None:
    topic = pair.topic("repeated", [Record(value=b"%d" % i) for i in range(100)])
    flow = pair.flow([topic])
    (outcome,) = copy_now(flow)
    pair.produce(topic, [Record(value=b"%d" % i) for i in range(100, 150)])
    group = f"ferry.{flow.name}"
    client = AdminClient({"bootstrap.servers": pair.backup.bootstrap})
    client.delete_consumer_groups([group])[group].result()

    longer = replace(outcome.range, end=150)
    (again,) = copy_for_flow(flow, "run-1", [longer])

    assert again == replace(again, range=longer, position=150, failure=None)
    pair.assert_same(flow, topic)


def test_positions_that_the_broker_forgot_are_recovered_from_the_ledger(pair: Pair) -> None:
    topic = pair.topic(
        "forgotten", [Record(key=b"%d" % i, value=b"a") for i in range(40)], partitions=2
    )
    flow = pair.flow([topic])
    copy_now(flow)
    group = f"ferry.{flow.name}"
    client = AdminClient({"bootstrap.servers": pair.backup.bootstrap})
    client.delete_consumer_groups([group])[group].result()
    assert read_positions(flow.target, flow.name) == {}

    copy_now(flow, "run-2")
    pair.produce(topic, [Record(key=b"%d" % i, value=b"b") for i in range(40)])
    copy_now(flow, "run-3")

    assert len(read_positions(flow.target, flow.name)) == 2
    pair.assert_same(flow, topic)


def test_records_deleted_before_the_position_are_no_loss_and_after_it_are_named(pair: Pair) -> None:

    topic = pair.topic("truncated", [Record(value=b"%d" % i) for i in range(30)])
    flow = pair.flow([topic])
    copy_now(flow)
    pair.produce(topic, [Record(value=b"%d" % i) for i in range(30)])
    delete_before(pair.primary, topic, 20)
    assert Run(flow, "run-2").plan(save=False).remarks.refused == ()

    delete_before(pair.primary, topic, 45)

    (refusal,) = Run(flow, "run-2").plan(save=False).remarks.refused
    assert (refusal.topic, refusal.partition) == (topic, 0)
    assert "offsets [30, 45) were deleted on the source before they were copied" in refusal.reason


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_that_was_recreated_is_refused_by_name(side: str, pair: Pair) -> None:

    topic = pair.topic("recreated", [Record(value=b"%d" % i) for i in range(30)])
    flow = pair.flow([topic])
    copy_now(flow)
    broker, name = (pair.primary, topic) if side == "source" else (pair.backup, remote(flow, topic))
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.delete_topics([name])[name].result()
    recreate(broker, name)
    produce(broker.bootstrap, name, [Record(value=b"other %d" % i) for i in range(50)])

    plan = Run(flow, "run-2").plan(save=False)

    assert plan.ranges == ()
    (refusal,) = plan.remarks.refused
    assert refusal.topic == topic
    assert f"the {side}'s topic was deleted" in refusal.reason


def recreate(broker: KafkaCluster, topic: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            return create_topic(broker.bootstrap, topic)
        except Exception:
            assert time.monotonic() < deadline
            time.sleep(0.1)
