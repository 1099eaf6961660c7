"""Kafka may leave a transaction's marker out on a partition: it is ended there as it was decided.

Kafka does so where a partition has no leader when the markers are sent. Here the partition is
written to without the coordinator's knowledge, which leaves it in the same state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from kafka_ferry.batches import Batch, for_producer, single_record
from kafka_ferry.copy import copy_for_flow
from kafka_ferry.copy.target.fencing import transactional_id
from kafka_ferry.errors import BrokerError
from kafka_ferry.ledger import encode, ledger_topic
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.groups import Committed
from kafka_ferry.model.positions import position_group
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.error_codes import is_transient
from kafka_ferry.wire.produce import produce_request
from kafka_ferry.wire.transactions.committed_offsets import (
    committed_offsets,
    has_pending_offsets,
)
from kafka_ferry.wire.transactions.endings import (
    Ending,
    TransactionOutcome,
    learn_ending,
    open_parts_questions,
)
from kafka_ferry.wire.transactions.producer import TransactionalProducer
from kafka_ferry.wire.transactions.settlement import Settlement, Unsettled
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import Record, create_topic, produce, read_all
from tests.support.records.groups import commit_alone
from tests.support.runs.flows import make_flow, plan_now
from tests.support.runs.pair import Unique
from tests.support.waiting import wait_until
from tests.unit.ledger.entries import a_copied_range, a_transaction

GROUP = "positions"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A broker that does not ask the coordinator whether a partition is in a transaction.

    It allows short ones only: the producers of this file ask for a minute.
    """
    config = {
        "transaction.partition.verification.enable": "false",
        "transaction.max.timeout.ms": "20000",
    }
    with Broker(tmp_path_factory.mktemp("unverified"), config=config) as broker:
        yield broker


@pytest.fixture
def cluster(broker: KafkaCluster) -> Iterator[WireCluster]:
    with WireCluster("target", {"bootstrap_servers": broker.bootstrap.split(",")}) as cluster:
        yield cluster


@pytest.fixture
def coordination(broker: KafkaCluster) -> Iterator[WireCluster]:
    with WireCluster("target", {"bootstrap_servers": broker.bootstrap.split(",")}) as cluster:
        yield cluster


def leave_open(
    broker: KafkaCluster, cluster: WireCluster, producer: TransactionalProducer, topic: str
) -> TopicPartition:
    """Write a record to partition 1 in a transaction that the coordinator knows on partition 0 only."""
    create_topic(broker.bootstrap, topic, partitions=2)
    known, unknown = TopicPartition(topic, 0), TopicPartition(topic, 1)
    producer.start()
    assert producer.add_partitions([known]) == {}
    for tp in (known, unknown):
        send(cluster, producer, tp, single_record(b"key", b"value", 1_700_000_000_000))
    return unknown


def settlement_of(
    cluster: WireCluster, coordination: WireCluster, producer: TransactionalProducer
) -> Settlement:
    return Settlement(cluster, coordination, producer, GROUP)


@pytest.mark.parametrize(("commit", "shown"), [(True, 1), (False, 0)])
def test_a_transaction_ends_everywhere_as_it_was_decided(
    commit: bool,
    shown: int,
    broker: KafkaCluster,
    cluster: WireCluster,
    coordination: WireCluster,
    unique: Unique,
) -> None:
    topic = unique("open")
    producer = TransactionalProducer(coordination, topic, timeout_ms=60_000)
    left_open = leave_open(broker, cluster, producer, topic)
    producer.end(commit=commit)
    assert open_on(cluster, [left_open], producer.producer_id) == {left_open: 0}
    assert read_all(broker.bootstrap, topic)[1] == []

    # As by the next process: the holder of the transactional id is fenced first.
    ending = learn_ending(coordination, topic)
    producer.start()
    settlement_of(cluster, coordination, producer).settle(ending, [left_open], [])

    assert ending.outcome == (
        TransactionOutcome.COMMITTED if commit else TransactionOutcome.ABORTED
    )
    assert open_on(cluster, [left_open], producer.producer_id) == {}
    have = read_all(broker.bootstrap, topic)
    assert (len(have[0]), len(have[1])) == (shown, shown)


def test_offsets_that_were_left_pending_end_as_they_were_decided(
    broker: KafkaCluster, cluster: WireCluster, coordination: WireCluster, unique: Unique
) -> None:
    topic = unique("pending")
    create_topic(broker.bootstrap, topic)
    tp = TopicPartition(topic, 0)
    producer = TransactionalProducer(coordination, topic, timeout_ms=60_000)
    producer.start()
    producer.add_partitions([tp])
    # The group is not added: the coordinator does not know that offsets are in the transaction.
    assert producer.commit_offsets(GROUP, {tp: Committed(7)}) == {}
    producer.end(commit=True)
    assert has_pending_offsets(coordination, GROUP, [tp])

    settlement_of(cluster, coordination, producer).settle(
        Ending(TransactionOutcome.COMMITTED), [tp], [tp]
    )

    assert committed_offsets(coordination, GROUP, [tp])[tp].offset == 7


class Killed(BaseException):
    """The task dies."""


@pytest.mark.parametrize("step", ["add_partitions", "end"])
def test_what_a_task_has_not_finished_to_end_ends_as_it_was_decided(
    step: str,
    broker: KafkaCluster,
    cluster: WireCluster,
    coordination: WireCluster,
    unique: Unique,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The task dies before ``step`` of the transaction that is to write the skipped markers."""
    topic = unique("killed")
    producer = TransactionalProducer(coordination, topic, timeout_ms=60_000)
    left_open = leave_open(broker, cluster, producer, topic)
    # The group is not added: the coordinator does not know that offsets are in the transaction.
    assert producer.commit_offsets(GROUP, {left_open: Committed(7)}) == {}
    producer.end(commit=True)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(producer, step, Mock(side_effect=Killed))
        settlement_of(cluster, coordination, producer).settle(
            Ending(TransactionOutcome.COMMITTED), [left_open], [left_open]
        )

    ending = learn_ending(coordination, topic)
    successor = TransactionalProducer(coordination, topic, timeout_ms=60_000)
    successor.start()
    settlement_of(cluster, coordination, successor).settle(ending, [left_open], [left_open])

    assert len(read_all(broker.bootstrap, topic)[1]) == 1
    assert committed_offsets(coordination, GROUP, [left_open])[left_open].offset == 7


@pytest.mark.parametrize("part_bytes", [400_000, 10_000_000], ids=["split", "halved"])
def test_offsets_that_fit_into_no_batch_of_a_broker_are_committed_in_one_transaction(
    part_bytes: int,
    broker: KafkaCluster,
    cluster: WireCluster,
    coordination: WireCluster,
    unique: Unique,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kafka_ferry.wire.offset_parts.PART_BYTES", part_bytes)
    topic = unique("wide")
    create_topic(broker.bootstrap, topic, partitions=300)
    # 1.2 MB: brokers take batches of 1 MB.
    offsets = {TopicPartition(topic, n): Committed(n, metadata="x" * 4_000) for n in range(300)}
    producer = TransactionalProducer(coordination, topic, timeout_ms=60_000)
    producer.start()
    producer.add_group(GROUP)

    assert producer.commit_offsets(GROUP, offsets) == {}

    assert committed_offsets(coordination, GROUP, offsets, stable=False) == {}
    producer.end(commit=True)
    settlement_of(cluster, coordination, producer).settle(
        Ending(TransactionOutcome.COMMITTED), [], offsets
    )
    assert committed_offsets(coordination, GROUP, offsets) == offsets


def test_where_its_outcome_is_unknown_it_is_named(
    broker: KafkaCluster, cluster: WireCluster, coordination: WireCluster, unique: Unique
) -> None:
    topic = unique("unknown")
    producer = TransactionalProducer(coordination, topic, timeout_ms=60_000)
    left_open = leave_open(broker, cluster, producer, topic)
    producer.end(commit=True)
    producer.start()

    with pytest.raises(Unsettled, match=f"{topic}-1"):
        settlement_of(cluster, coordination, producer).settle(
            learn_ending(coordination, topic), [left_open], []
        )


def test_a_producer_that_needs_a_longer_transaction_than_brokers_allow_is_told_what_to_change(
    coordination: WireCluster, unique: Unique
) -> None:
    long = TransactionalProducer(coordination, unique("long"), timeout_ms=120_000, least_ms=25_000)
    with pytest.raises(BrokerError, match="INVALID_TRANSACTION_TIMEOUT") as error:
        long.start()
    assert "transaction.max.timeout.ms" in error.value.advice
    assert "transaction.max.ms" in error.value.advice


def test_a_producer_that_has_sent_nothing_has_nothing_to_end(
    coordination: WireCluster, unique: Unique
) -> None:
    assert learn_ending(coordination, unique("never")) == Ending(TransactionOutcome.UNKNOWN)


@pytest.mark.parametrize(("in_ledger", "shown"), [(True, 1), (False, 0)])
def test_a_writer_goes_by_the_ledger_where_the_coordinator_has_forgotten(
    in_ledger: bool,
    shown: int,
    broker: KafkaCluster,
    primary: KafkaCluster,
    cluster: WireCluster,
    coordination: WireCluster,
    folder: Path,
    unique: Unique,
) -> None:
    topic = unique("forgotten")
    create_topic(primary.bootstrap, topic)
    produce(primary.bootstrap, topic, [Record(b"key", b"value")])
    flow = make_flow(folder, primary, broker, [topic], writers=1)
    (range_,) = plan_now(flow).ranges
    producer = TransactionalProducer(
        coordination, transactional_id(flow.name, range_.writer), timeout_ms=60_000
    )
    producer.start()
    ledger = TopicPartition(ledger_topic(flow.source.alias), 0)
    producer.add_partitions([ledger])
    send(cluster, producer, range_.target, single_record(b"key", b"value", 1))
    if in_ledger:
        entry = a_transaction(
            a_copied_range(
                0, 1, topic=topic, remote_topic=range_.remote_topic, segments=[(0, 0, 1)]
            ),
            flow=flow.name,
        )
        send(cluster, producer, ledger, single_record(*encode(entry), entry.at))
    producer.end(commit=True)
    producer.start()
    assert (
        learn_ending(coordination, producer.transactional_id).outcome == TransactionOutcome.UNKNOWN
    )

    copy_for_flow(flow, "run-1", [replace(range_, end=0)])

    assert open_on(cluster, [range_.target], producer.producer_id) == {}
    assert len(read_all(broker.bootstrap, range_.remote_topic)[0]) == shown


def test_positions_that_the_coordinator_has_dropped_are_taken_from_the_ledger(
    broker: KafkaCluster,
    primary: KafkaCluster,
    coordination: WireCluster,
    folder: Path,
    unique: Unique,
) -> None:
    """No writer came in time to commit them once more, and the transaction that was to do so has timed out."""
    topic = unique("dropped")
    create_topic(primary.bootstrap, topic)
    produce(primary.bootstrap, topic, [Record(b"key", b"value")])
    flow = make_flow(folder, primary, broker, [topic], writers=1)
    (range_,) = plan_now(flow).ranges
    assert [it.failure for it in copy_for_flow(flow, "run-1", [range_])] == [None]
    group = position_group(flow.name)
    commit_alone(broker, group, {range_.target: 0})
    producer = TransactionalProducer(
        coordination, transactional_id(flow.name, range_.writer), timeout_ms=60_000
    )
    producer.start()
    producer.start_mend()
    producer.add_group(group)
    producer.end(commit=False)

    assert [it.failure for it in copy_for_flow(flow, "run-1", [range_])] == [None]

    assert len(read_all(broker.bootstrap, range_.remote_topic)[0]) == 1
    assert committed_offsets(coordination, group, [range_.target])[range_.target].offset == 1


def open_on(
    cluster: WireCluster, partitions: list[TopicPartition], producer_id: int
) -> dict[TopicPartition, int]:
    """Where the producer's transaction is open."""
    questions, _ = open_parts_questions(cluster, cluster.leaders(partitions), producer_id)
    return {tp: start for question in questions.values() for tp, start in question.ask().items()}


def send(
    cluster: WireCluster, producer: TransactionalProducer, tp: TopicPartition, record: Batch
) -> None:
    batch = for_producer(record, producer_id=producer.producer_id, epoch=producer.epoch, sequence=0)
    connection = cluster.connection(cluster.leaders([tp])[tp].node)

    def is_written() -> bool:
        answer = connection.call(produce_request({tp: batch}, producer.transactional_id))
        code = answer.responses[0].partition_responses[0].error_code
        # A broker names itself as a new partition's leader a moment before it takes the lead.
        assert code == 0 or is_transient(code)
        return code == 0

    wait_until(is_written)
