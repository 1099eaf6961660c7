"""Preserved offsets as others see them: librdkafka's consumer, and Kafka's own tools.

The sources are written by Kafka Streams and by Java's and librdkafka's producers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Set

import pytest

from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.kafka_tools import EARLIEST, LATEST, DumpedBatch, dump_logs, get_offsets
from tests.support.java.programs import run_java
from tests.support.records.builders import Record, create_topic, delete_before, produce, read_all
from tests.support.records.offsets import assert_same_offsets, assert_same_records, read_offsets
from tests.support.runs.flows import copy_now, failures, make_flow, remote
from tests.support.runs.pair import Pair, Unique
from tests.support.waiting import wait_until

PARTITIONS = 2


def records(count: int, keys: int = 1_000, later_ms: int = 0) -> list[Record]:
    now = time.time_ns() // 1_000_000 + later_ms
    return [
        Record(b"%d" % (i % keys), b"value %d" % i, (("h", None),), now + i, i % PARTITIONS)
        for i in range(count)
    ]


def plain(broker: KafkaCluster, topic: str) -> None:
    create_topic(broker.bootstrap, topic, PARTITIONS)
    for codec in ("none", "gzip", "zstd"):
        produce(broker.bootstrap, topic, records(100), compression=codec)


def truncated(broker: KafkaCluster, topic: str) -> None:
    plain(broker, topic)
    delete_before(broker, topic, 70)


def with_the_brokers_time(broker: KafkaCluster, topic: str) -> None:
    create_topic(broker.bootstrap, topic, PARTITIONS, message_timestamp_type="LogAppendTime")
    for codec in ("none", "lz4"):
        produce(broker.bootstrap, topic, records(50), compression=codec)


def compacted(broker: KafkaCluster, topic: str) -> None:
    create_topic(
        *(broker.bootstrap, topic, PARTITIONS),
        cleanup_policy="compact",
        segment_ms="1",
        min_cleanable_dirty_ratio="0.01",
    )
    for codec in ("none", "lz4", "none"):
        produce(broker.bootstrap, topic, records(100, keys=7), compression=codec)
    produce(broker.bootstrap, topic, records(10), transactional_id=topic, abort=True)
    # The last segment is never cleaned, and a new one begins by the records' own times.
    produce(broker.bootstrap, topic, records(2, keys=1, later_ms=1_000))
    wait_until(
        lambda: all(len(left) < 30 for left in read_all(broker.bootstrap, topic).values()),
        seconds=60,
    )


def of_kafka_streams(broker: KafkaCluster, topic: str) -> None:
    for name in (f"{topic}-input", topic):
        create_topic(broker.bootstrap, name, PARTITIONS)
    produce(broker.bootstrap, f"{topic}-input", records(500))
    run_java("ExactlyOnceStreams", broker.bootstrap, f"{topic}-input", topic, 500)


def of_interleaved_transactions(broker: KafkaCluster, topic: str) -> None:
    create_topic(broker.bootstrap, topic, PARTITIONS)
    run_java("InterleavedTransactions", broker.bootstrap, topic, PARTITIONS, 4, 6)


SOURCES = [
    (plain, "transactions"),
    (truncated, "markers"),
    (with_the_brokers_time, "markers"),
    (compacted, "markers"),
    pytest.param(of_kafka_streams, "transactions", marks=pytest.mark.long),
    pytest.param(of_interleaved_transactions, "markers", marks=pytest.mark.long),
]


@pytest.mark.short("plain-transactions")
@pytest.mark.parametrize(("write", "fill"), SOURCES)
def test_a_consumer_and_kafkas_tools_see_the_sources_offsets(
    write: Callable[[KafkaCluster, str], None], fill: str, pair: Pair
) -> None:
    topic = pair.unique("independent")
    write(pair.primary, topic)
    flow = make_flow(
        *(pair.folder, pair.primary, pair.backup, [topic]),
        offsets="preserved",
        fill=fill,
        join_batches_below=0,
    )

    assert failures(copy_now(flow)) == []

    copied = remote(flow, topic)
    cleaned = write is compacted
    assert_same_offsets(pair.primary, topic, pair.backup, copied, compacted=cleaned)
    starts, ends = (get_offsets(pair.backup, copied, bound) for bound in (EARLIEST, LATEST))
    assert [get_offsets(pair.primary, topic, bound) for bound in (EARLIEST, LATEST)] == [
        starts,
        ends,
    ]
    shown = read_offsets(pair.primary, topic)
    sent, written = (
        dump_logs(pair.primary, topic, PARTITIONS),
        dump_logs(pair.backup, copied, PARTITIONS),
    )
    for number in range(PARTITIONS):
        offsets = range(starts[number], ends[number])
        log = Logs(offsets, shown[number].keys(), sent[number], written[number])
        log.assert_one_producers_plain_batches()
        log.assert_markers_only_in_gaps()
        if not cleaned:
            # The target has a cleaner too.
            log.assert_same_batches()
            log.assert_sequences_without_a_gap()
            log.assert_markers_in_all_gaps()


class Logs:
    """A partition's batches on both sides, as kafka-dump-log shows them, from the log's start on."""

    def __init__(
        self,
        offsets: range,
        shown: Set[int],
        sent: Sequence[DumpedBatch],
        written: Sequence[DumpedBatch],
    ) -> None:
        self.start = offsets.start
        self.gaps = set(offsets) - shown
        self.committed = [
            batch for batch in sent if not batch.control and not shown.isdisjoint(span(batch))
        ]
        have = [batch for batch in written if batch.last_offset >= self.start]
        self.data = [batch for batch in have if not batch.control]
        self.markers = [batch.base_offset for batch in have if batch.control]

    def assert_one_producers_plain_batches(self) -> None:
        assert all(batch.valid and not batch.transactional for batch in self.data)
        assert len({batch.producer_id for batch in self.data}) == 1

    def assert_same_batches(self) -> None:
        whole = [placed(batch) for batch in self.committed if batch.base_offset >= self.start]
        have = [placed(batch) for batch in self.data]
        assert have[len(have) - len(whole) :] == whole
        # What else there is is the rest of one that begins before the log's start.
        assert len(have) - len(whole) <= 1
        assert sum(count for _, count, _ in have) == sum(
            len(span(batch)) - max(0, self.start - batch.base_offset) for batch in self.committed
        )

    def assert_sequences_without_a_gap(self) -> None:
        first = self.data[0].base_sequence
        counts = [batch.count for batch in self.data]
        assert [batch.base_sequence - first for batch in self.data] == [
            sum(counts[:at]) for at in range(len(counts))
        ]

    def assert_markers_only_in_gaps(self) -> None:
        assert self.gaps.issuperset(self.markers)

    def assert_markers_in_all_gaps(self) -> None:
        assert sorted(self.gaps) == self.markers


def span(batch: DumpedBatch) -> range:
    return range(batch.base_offset, batch.last_offset + 1)


def placed(batch: DumpedBatch) -> tuple[int, int, str]:
    return batch.base_offset, batch.count, batch.compression


def test_the_comparison_shows_the_first_offset_that_differs(pair: Pair) -> None:
    topic = pair.unique("compared")
    for broker, last in [(pair.primary, b"right"), (pair.backup, b"wrong")]:
        create_topic(broker.bootstrap, topic)
        produce(broker.bootstrap, topic, [Record(b"k", b"same", timestamp=1_700_000_000_000)])
        produce(broker.bootstrap, topic, [Record(b"k", last, timestamp=1_700_000_000_000)])

    with pytest.raises(AssertionError, match=r"1 of 2 offsets differ, the first is 1") as raised:
        assert_same_offsets(pair.primary, topic, pair.backup, topic)

    assert "source  key b'k', value b'right'" in str(raised.value)
    assert "target  key b'k', value b'wrong'" in str(raised.value)


def test_the_comparison_sees_what_only_uncommitted_readers_see(pair: Pair) -> None:
    topic = pair.unique("compared")
    for broker in (pair.primary, pair.backup):
        create_topic(broker.bootstrap, topic)
        produce(broker.bootstrap, topic, [Record(b"k")], transactional_id=topic, abort=True)

    with pytest.raises(AssertionError, match="read_uncommitted on the target: 1 of 1 offsets"):
        assert_same_offsets(pair.primary, topic, pair.backup, topic)


def test_the_comparison_takes_only_what_a_cleaner_takes_for_compacted(
    primary: KafkaCluster, unique: Unique
) -> None:
    topic = unique("compared")
    create_topic(primary.bootstrap, topic)
    written = [Record(b"a", b"1"), Record(b"a", b"2"), Record(b"b", b"1"), Record(b"b", None)]
    produce(primary.bootstrap, topic, written)
    shown = read_offsets(primary, topic)[0]
    cleaned = {1: shown[1]}

    assert_same_records("cleaned", shown, cleaned, compacted=True)
    assert_same_records("cleaned", cleaned, shown, compacted=True)
    for lost in ({}, {0: shown[0]}, {3: shown[3]}):
        with pytest.raises(AssertionError):
            assert_same_records("lost", shown, lost, compacted=True)
