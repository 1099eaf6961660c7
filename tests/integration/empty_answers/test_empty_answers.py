"""An empty answer without an error says nothing: nothing is left out, doubled or taken for compacted because of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_ferry.batches import Reason, is_abort_marker
from kafka_ferry.model import TopicPartition
from kafka_ferry.retry import retry_for
from kafka_ferry.wire import WireCluster, borrow
from kafka_ferry.wire.partitions.absence import Unanswered
from kafka_ferry.wire.partitions.first_record import first_record
from kafka_ferry.wire.partitions.lookahead import fates_after
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import committed_values, ended_batches, stored_batches
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.empty_answers import empty_answers, failing_answers
from tests.support.brokers.segments import read_batches, write_log
from tests.support.records.builders import (
    Record,
    begin_transaction,
    create_topic,
    produce,
    read_all,
)
from tests.support.records.offsets import assert_same_offsets
from tests.support.runs.flows import (
    copy_now,
    copy_planned,
    failures,
    ledger_rows,
    make_flow,
    plan_now,
    remote,
)
from tests.support.runs.pair import Pair, Unique

UNKNOWN_SERVER_ERROR = -1


def some(count: int, at: int = 0) -> list[Record]:
    return [Record(b"%d" % number, b"x" * 200) for number in range(at, at + count)]


def seldom(number: int) -> bool:
    """Two answers of three are empty."""
    return number % 3 != 2


@pytest.mark.parametrize("offsets", ["translated", "preserved"])
def test_a_source_that_answers_nothing_for_a_while_is_copied_whole(
    pair: Pair, offsets: str
) -> None:
    topic = pair.topic("slow", some(500))
    pair.produce(topic, some(100), transactional_id=pair.unique("gone"), abort=True)
    pair.produce(topic, some(100))
    flow = pair.flow([topic], offsets=offsets)
    with empty_answers(topic, seldom):
        assert failures(copy_now(flow)) == []
    pair.assert_same(flow, topic)
    if offsets == "preserved":
        assert_same_offsets(pair.primary, topic, pair.backup, remote(flow, topic))


@pytest.mark.parametrize("offsets", ["translated", "preserved"])
def test_a_source_that_keeps_answering_nothing_fails_by_name_and_no_offset_is_booked(
    pair: Pair, offsets: str
) -> None:
    topic, other = pair.topic("silent", some(300)), pair.topic("heard", some(10))
    flow = pair.flow([topic, other], offsets=offsets, partition_wait_ms=500)
    plan = plan_now(flow)
    with empty_answers(topic):
        outcomes = copy_planned(flow, plan)
    (failure,) = [it.failure for it in outcomes if it.failure]
    assert failure.source.topic == topic
    assert failure.transient
    assert f"{topic}-0 ends at offset 300 by its broker's word" in failure.message
    assert "remote.fetch.max.wait.ms" in failure.message
    pair.assert_same(flow, other)
    assert failures(copy_now(flow, "run-2")) == []
    pair.assert_same(flow, topic)


def test_an_unknown_error_of_a_fetch_passes_by_itself(pair: Pair) -> None:
    topic = pair.topic("fails", some(20))
    flow = pair.flow([topic])
    with failing_answers(topic, UNKNOWN_SERVER_ERROR, 5):
        assert failures(copy_now(flow)) == []
    pair.assert_same(flow, topic)


Reader = Callable[[WireCluster, TopicPartition], object]


def values(cluster: WireCluster, partition: TopicPartition) -> object:
    return list(committed_values(cluster, partition, 0))


def stored(cluster: WireCluster, partition: TopicPartition) -> object:
    log = partition_log(cluster, partition)
    return [it.header for it in stored_batches(cluster, log, 0, log.end, max_bytes=10_000)]


def ended(cluster: WireCluster, partition: TopicPartition) -> object:
    log = partition_log(cluster, partition)
    return [
        (batch.header, is_aborted)
        for batch, is_aborted in ended_batches(cluster, log, 0, max_bytes=10_000)
    ]


def first(cluster: WireCluster, partition: TopicPartition) -> object:
    return first_record(cluster, partition, 40)


def fates(cluster: WireCluster, partition: TopicPartition) -> object:
    log = partition_log(cluster, partition)
    batches = list(stored_batches(cluster, log, 0, log.end))
    (aborted,) = {
        it.header.producer_id for it in batches if it.header.is_control and is_abort_marker(it)
    }
    begin = next(it.header for it in batches if it.header.producer_id == aborted)
    undecided = {aborted: begin.base_offset}
    return fates_after(cluster, log.leader, partition, begin.next_offset, undecided)


@pytest.mark.short("ended")
@pytest.mark.parametrize("read", [values, stored, ended, first, fates])
def test_every_reader_asks_again_and_concludes_nothing_from_silence(
    primary: KafkaCluster, unique: Unique, read: Reader
) -> None:
    topic = unique("read")
    create_topic(primary.bootstrap, topic)
    produce(primary.bootstrap, topic, some(50))
    produce(primary.bootstrap, topic, some(20), transactional_id=unique("gone"), abort=True)
    produce(primary.bootstrap, topic, some(50))
    partition = TopicPartition(topic, 0)
    with borrow("read", {"bootstrap_servers": primary.bootstrap.split(",")}) as cluster:
        plain = read(cluster, partition)
        assert plain
        with empty_answers(topic, seldom):
            assert read(cluster, partition) == plain
        with empty_answers(topic), retry_for(0.2), pytest.raises(Unanswered, match=topic):
            read(cluster, partition)


def test_a_compacted_tail_below_an_open_transaction_is_proved_by_the_batch_after_it(
    target: Broker, backup: KafkaCluster, folder: Path, unique: Unique
) -> None:
    topic = unique("tail")
    create_topic(target.bootstrap, topic, cleanup_policy="compact")
    produce(target.bootstrap, topic, some(10))
    produce(target.bootstrap, topic, some(10))
    begin_transaction(target.bootstrap, topic, topic, Record(b"k", b"open"))
    target.stop()
    batches = read_batches(target, topic)
    write_log(target, topic, [batches[0], *batches[2:]])
    target.start().wait_ready()
    flow = make_flow(folder, target, backup, [topic])
    assert failures(copy_now(flow)) == []
    assert [row["reasons"] for row in ledger_rows(flow)] == [{Reason.COMPACTED: 10}]
    assert len(read_all(backup.bootstrap, remote(flow, topic))[0]) == 10
