"""Kafka may leave a transaction's marker out on a partition: it is ended there as it was decided.

Kafka does so where a partition has no leader when the markers are sent. Here the partition is
written to without the coordinator's knowledge, which leaves it in the same state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from kafka_ferry.batches import Batch, for_producer, single_record
from kafka_ferry.config import Flow
from kafka_ferry.copy import copy_for_flow
from kafka_ferry.copy.target.all_writers import end_hidden_transactions
from kafka_ferry.copy.target.transaction import Transaction
from kafka_ferry.errors import BrokerError
from kafka_ferry.ledger import encode, ledger_topic
from kafka_ferry.model import Range, TopicPartition
from kafka_ferry.model.groups import Committed
from kafka_ferry.model.positions import position_group, transactional_id
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
from kafka_ferry.wire.transactions.exclusive_writer import ExclusiveWriter
from kafka_ferry.wire.transactions.producer import TransactionalProducer
from kafka_ferry.wire.transactions.settlement import Settlement, Unsettled
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import Record, create_topic, read_all
from tests.support.records.groups import commit_alone
from tests.support.runs.flows import ledger_rows, plan_now
from tests.support.runs.pair import Pair, Unique
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


@dataclass(frozen=True)
class Wire:
    """A writer's connections to the broker: those for data, and those to coordinators."""

    broker: KafkaCluster
    cluster: WireCluster
    coordination: WireCluster

    def producer(self, transactional_id: str) -> TransactionalProducer:
        """One that has not started."""
        return TransactionalProducer(self.coordination, transactional_id, timeout_ms=60_000)

    def settle(
        self,
        producer: TransactionalProducer,
        ending: Ending,
        partitions: Collection[TopicPartition],
        pending: Collection[TopicPartition] = (),
    ) -> None:
        """End the transaction on these partitions, and offsets that are pending, as it was decided."""
        settlement = Settlement(self.cluster, self.coordination, producer, GROUP)
        settlement.settle(ending, partitions, pending)

    def send(self, producer: TransactionalProducer, tp: TopicPartition, record: Batch) -> None:
        """Write a record in the producer's transaction, whatever the coordinator knows."""
        batch = for_producer(
            record, producer_id=producer.producer_id, epoch=producer.epoch, sequence=0
        )
        connection = self.cluster.connection(self.cluster.leaders([tp])[tp].node)

        def is_written() -> bool:
            answer = connection.call(produce_request({tp: batch}, producer.transactional_id))
            code = answer.responses[0].partition_responses[0].error_code
            # A broker names itself as a new partition's leader a moment before it takes the lead.
            assert code == 0 or is_transient(code)
            return code == 0

        wait_until(is_written)

    def forget_epochs(self, producer: TransactionalProducer, tp: TopicPartition) -> None:
        """Have a partition know a newer epoch of a producer than its coordinator, as after one has lost records."""
        batch = for_producer(
            single_record(b"key", b"newer", 1_700_000_000_000),
            producer_id=producer.producer_id,
            epoch=producer.epoch + 9,
            sequence=0,
            transactional=False,
        )
        connection = self.cluster.connection(self.cluster.leaders([tp])[tp].node)
        answer = connection.call(produce_request({tp: batch}, None))
        assert answer.responses[0].partition_responses[0].error_code == 0

    def leave_open(self, topic: str) -> tuple[TransactionalProducer, TopicPartition]:
        """Write a record to partition 1 in a transaction that the coordinator knows on partition 0 only."""
        create_topic(self.broker.bootstrap, topic, partitions=2)
        known, unknown = TopicPartition(topic, 0), TopicPartition(topic, 1)
        producer = self.producer(topic)
        producer.start()
        assert producer.add_partitions([known]) == {}
        for tp in (known, unknown):
            self.send(producer, tp, single_record(b"key", b"value", 1_700_000_000_000))
        return producer, unknown

    def open_on(
        self, partitions: list[TopicPartition], producer_id: int
    ) -> dict[TopicPartition, int]:
        """Where the producer's transaction is open."""
        questions, _ = open_parts_questions(
            self.cluster, self.cluster.leaders(partitions), producer_id
        )
        return {
            tp: start
            for question in questions.values()
            for tp, start in question.ask().starts.items()
        }


@pytest.fixture
def wire(broker: KafkaCluster) -> Iterator[Wire]:
    settings = {"bootstrap_servers": broker.bootstrap.split(",")}
    with WireCluster("target", settings) as data, WireCluster("target", settings) as coordination:
        yield Wire(broker, data, coordination)


@pytest.fixture
def pair(folder: Path, primary: KafkaCluster, broker: KafkaCluster, unique: Unique) -> Pair:
    return Pair(folder, primary, broker, unique)


@pytest.mark.parametrize(("commit", "shown"), [(True, 1), (False, 0)])
def test_a_transaction_ends_everywhere_as_it_was_decided(
    commit: bool, shown: int, wire: Wire, unique: Unique
) -> None:
    topic = unique("open")
    producer, left_open = wire.leave_open(topic)
    producer.end(commit=commit)
    assert wire.open_on([left_open], producer.producer_id) == {left_open: 0}
    assert read_all(wire.broker.bootstrap, topic)[1] == []

    # As by the next process: the holder of the transactional id is fenced first.
    ending = learn_ending(wire.coordination, topic)
    producer.start()
    wire.settle(producer, ending, [left_open])

    assert ending.outcome == (
        TransactionOutcome.COMMITTED if commit else TransactionOutcome.ABORTED
    )
    assert wire.open_on([left_open], producer.producer_id) == {}
    have = read_all(wire.broker.bootstrap, topic)
    assert (len(have[0]), len(have[1])) == (shown, shown)


def test_offsets_that_were_left_pending_end_as_they_were_decided(
    wire: Wire, unique: Unique
) -> None:
    topic = unique("pending")
    create_topic(wire.broker.bootstrap, topic)
    tp = TopicPartition(topic, 0)
    producer = wire.producer(topic)
    producer.start()
    producer.add_partitions([tp])
    # The group is not added: the coordinator does not know that offsets are in the transaction.
    assert producer.commit_offsets(GROUP, {tp: Committed(7)}) == {}
    producer.end(commit=True)
    assert has_pending_offsets(wire.coordination, GROUP, [tp])

    wire.settle(producer, Ending(TransactionOutcome.COMMITTED), [tp], [tp])

    assert committed_offsets(wire.coordination, GROUP, [tp])[tp].offset == 7


class Killed(BaseException):
    """The task dies."""


@pytest.mark.parametrize("step", ["add_partitions", "end"])
def test_what_a_task_has_not_finished_to_end_ends_as_it_was_decided(
    step: str, wire: Wire, unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task dies before ``step`` of the transaction that is to write the skipped markers."""
    topic = unique("killed")
    producer, left_open = wire.leave_open(topic)
    # The group is not added: the coordinator does not know that offsets are in the transaction.
    assert producer.commit_offsets(GROUP, {left_open: Committed(7)}) == {}
    producer.end(commit=True)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(producer, step, Mock(side_effect=Killed))
        wire.settle(producer, Ending(TransactionOutcome.COMMITTED), [left_open], [left_open])

    ending = learn_ending(wire.coordination, topic)
    successor = wire.producer(topic)
    successor.start()
    wire.settle(successor, ending, [left_open], [left_open])

    assert len(read_all(wire.broker.bootstrap, topic)[1]) == 1
    assert committed_offsets(wire.coordination, GROUP, [left_open])[left_open].offset == 7


@pytest.mark.parametrize("part_bytes", [400_000, 10_000_000], ids=["split", "halved"])
def test_offsets_that_fit_into_no_batch_of_a_broker_are_committed_in_one_transaction(
    part_bytes: int, wire: Wire, unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_ferry.wire.offset_parts.PART_BYTES", part_bytes)
    topic = unique("wide")
    create_topic(wire.broker.bootstrap, topic, partitions=300)
    # 1.2 MB: brokers take batches of 1 MB.
    offsets = {TopicPartition(topic, n): Committed(n, metadata="x" * 4_000) for n in range(300)}
    producer = wire.producer(topic)
    producer.start()
    producer.add_group(GROUP)

    assert producer.commit_offsets(GROUP, offsets) == {}

    assert committed_offsets(wire.coordination, GROUP, offsets, stable=False) == {}
    producer.end(commit=True)
    wire.settle(producer, Ending(TransactionOutcome.COMMITTED), [], offsets)
    assert committed_offsets(wire.coordination, GROUP, offsets) == offsets


def test_a_coordinator_that_goes_on_from_an_older_epoch_stops_no_writer(
    wire: Wire, pair: Pair
) -> None:
    """A partition would refuse the transaction's records, and the marker that ends it, for ever."""
    topic = pair.topic("older", [Record(b"key", b"value")])
    flow, range_, producer = only_writer(wire, pair, topic)
    wire.forget_epochs(producer, range_.target)
    other = TopicPartition(f"{topic}-other", 0)
    create_topic(wire.broker.bootstrap, other.topic)
    alone = wire.producer(other.topic)
    alone.start()
    wire.forget_epochs(alone, other)

    assert [it.failure for it in copy_for_flow(flow, "run-1", [range_])] == [None]
    ExclusiveWriter(wire.cluster, other, other.topic).commit(single_record(b"key", b"value", 1))

    assert [it.value for it in pair.copied(flow, topic)[0]] == [b"newer", b"value"]
    assert [it.value for it in read_all(wire.broker.bootstrap, other.topic)[0]] == [
        *(b"newer", b"value")
    ]


def test_a_coordinator_that_has_lost_the_writers_epoch_is_not_taken_for_another_run(
    wire: Wire, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pair.topic("lost", [Record(b"key", b"value")])
    flow, range_, _ = only_writer(wire, pair, topic)
    take_over, lost = Transaction.take_over, list[Transaction]()

    def take_over_in_newer_epoch(transaction: Transaction, *args: Any) -> Any:
        positions = take_over(transaction, *args)
        if not lost:
            lost.append(transaction)
            transaction.producer.epoch += 3
        return positions

    monkeypatch.setattr(Transaction, "take_over", take_over_in_newer_epoch)

    assert [it.failure for it in copy_for_flow(flow, "run-1", [range_])] == [None]

    assert [it.value for it in pair.copied(flow, topic)[0]] == [b"value"]


def test_where_its_outcome_is_unknown_it_is_named(wire: Wire, unique: Unique) -> None:
    topic = unique("unknown")
    producer, left_open = wire.leave_open(topic)
    producer.end(commit=True)
    producer.start()

    with pytest.raises(Unsettled, match=f"{topic}-1"):
        wire.settle(producer, learn_ending(wire.coordination, topic), [left_open])


def test_a_producer_that_needs_a_longer_transaction_than_brokers_allow_is_told_what_to_change(
    wire: Wire, unique: Unique
) -> None:
    long = TransactionalProducer(
        wire.coordination, unique("long"), timeout_ms=120_000, least_ms=25_000
    )
    with pytest.raises(BrokerError, match="INVALID_TRANSACTION_TIMEOUT") as error:
        long.start()
    assert "transaction.max.timeout.ms" in error.value.advice
    assert "transaction.max.ms" in error.value.advice


def test_a_producer_that_has_sent_nothing_has_nothing_to_end(wire: Wire, unique: Unique) -> None:
    assert learn_ending(wire.coordination, unique("never")) == Ending(TransactionOutcome.UNKNOWN)


def only_writer(wire: Wire, pair: Pair, topic: str) -> tuple[Flow, Range, TransactionalProducer]:
    """A flow of a topic, its one range, and the producer of its only writer, which has started."""
    flow = pair.flow([topic], writers=1)
    (range_,) = plan_now(flow).ranges
    producer = wire.producer(transactional_id(flow.name, range_.writer))
    producer.start()
    return flow, range_, producer


@pytest.mark.parametrize(("in_ledger", "shown"), [(True, 1), (False, 0)])
def test_a_writer_goes_by_the_ledger_where_the_coordinator_has_forgotten(
    in_ledger: bool, shown: int, wire: Wire, pair: Pair
) -> None:
    topic = pair.topic("forgotten", [Record(b"key", b"value")])
    flow, range_, producer = only_writer(wire, pair, topic)
    ledger = TopicPartition(ledger_topic(flow.source.alias), 0)
    producer.add_partitions([ledger])
    wire.send(producer, range_.target, single_record(b"key", b"value", 1))
    if in_ledger:
        entry = a_transaction(
            a_copied_range(
                0, 1, topic=topic, remote_topic=range_.remote_topic, segments=[(0, 0, 1)]
            ),
            flow=flow.name,
        )
        wire.send(producer, ledger, single_record(*encode(entry), entry.at))
    producer.end(commit=True)
    producer.start()
    ending = learn_ending(wire.coordination, producer.transactional_id)
    assert ending.outcome == TransactionOutcome.UNKNOWN

    copy_for_flow(flow, "run-1", [replace(range_, end=0)])

    assert wire.open_on([range_.target], producer.producer_id) == {}
    # Consumers see it once the replicas have the marker.
    wait_until(lambda: len(pair.copied(flow, topic)[0]) == shown, 30)


@pytest.mark.parametrize("is_committed", [True, False])
def test_what_hides_the_ledger_ends_as_the_copied_records_did_where_the_coordinator_has_forgotten(
    is_committed: bool, wire: Wire, pair: Pair
) -> None:
    topic = pair.topic("hidden", [Record(b"key", b"value")])
    flow, range_, producer = only_writer(wire, pair, topic)
    producer.add_partitions([range_.target])
    wire.send(producer, range_.target, single_record(b"key", b"value", 1))
    copied = a_copied_range(
        0,
        1,
        topic=topic,
        remote_topic=range_.remote_topic,
        remote_topic_id=wire.cluster.leaders([range_.target])[range_.target].topic_id,
        segments=[(0, 0, 1)],
    )
    entry = a_transaction(copied, flow=flow.name)
    ledger = TopicPartition(ledger_topic(flow.source.alias), 0)
    wire.send(producer, ledger, single_record(*encode(entry), entry.at))
    producer.end(commit=is_committed)
    producer.start()

    assert end_hidden_transactions(flow)

    assert [row["records"] for row in ledger_rows(flow)] == [1] * is_committed


def test_positions_that_the_coordinator_has_dropped_are_taken_from_the_ledger(
    wire: Wire, pair: Pair
) -> None:
    """No writer came in time to commit them once more, and the transaction that was to do so has timed out."""
    topic = pair.topic("dropped", [Record(b"key", b"value")])
    flow = pair.flow([topic], writers=1)
    (range_,) = plan_now(flow).ranges
    assert [it.failure for it in copy_for_flow(flow, "run-1", [range_])] == [None]
    group = position_group(flow.name)
    commit_alone(pair.backup, group, {range_.target: 0})
    producer = wire.producer(transactional_id(flow.name, range_.writer))
    producer.start()
    producer.start_mend()
    producer.add_group(group)
    producer.end(commit=False)

    assert [it.failure for it in copy_for_flow(flow, "run-1", [range_])] == [None]

    assert len(pair.copied(flow, topic)[0]) == 1
    assert committed_offsets(wire.coordination, group, [range_.target])[range_.target].offset == 1
