"""What should never happen to a topic with preserved offsets is noticed by offset and named; the others go on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from kafka.protocol.admin.transactions import DescribeProducersRequest

from kafka_ferry.batches import ConvertedBatch, for_producer, gap, single_record
from kafka_ferry.config import Flow, kafka_python_config
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.copy import fence_writers, restore_positions
from kafka_ferry.copy.target.preserved import control_records
from kafka_ferry.copy.target.transactional_writer import TransactionalWriter, preserved_writer
from kafka_ferry.copy.target.writer import StartOver
from kafka_ferry.copy.target.writer_settings import WriterSettings
from kafka_ferry.errors import Fenced
from kafka_ferry.ledger import append_entry
from kafka_ferry.model import Position, ProducerState, Range, TopicPartition
from kafka_ferry.runs.provenance import log_mismatches
from kafka_ferry.runs.provenance.log_mismatches import lost_ends
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.connections.connection import Connection
from kafka_ferry.wire.partitions.list_offsets import high_watermarks
from kafka_ferry.wire.produce import produce_request
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster, start_all
from tests.support.brokers.segments import broker_down, cut_log
from tests.support.records.builders import (
    Record,
    create_topic,
    delete_before,
    produce,
    read_all,
    recreate_topic,
)
from tests.support.records.histories import named
from tests.support.records.offsets import assert_same_offsets
from tests.support.runs.flows import (
    copy_now,
    copy_planned,
    failures,
    ledger_of,
    ledger_rows,
    make_flow,
    plan_now,
    remote,
)
from tests.support.runs.pair import Pair, Unique
from tests.unit.ledger.entries import a_copied_range, a_transaction

pytestmark = pytest.mark.usefixtures("short_waits")


@dataclass
class Copied:
    """Two topics of 20 records each, copied; the first is the one that something happens to."""

    flow: Flow
    topic: str
    other: str
    source: KafkaCluster
    target: KafkaCluster

    @property
    def remote(self) -> TopicPartition:
        return TopicPartition(remote(self.flow, self.topic), 0)

    def more(self) -> None:
        """Ten more records on the source of each."""
        for topic in (self.topic, self.other):
            produce(self.source.bootstrap, topic, named("more", 10))

    def position(self) -> Position:
        return read_positions(self.flow.target, self.flow.name)[self.remote]

    def next_range(self) -> Range:
        """What the next run has to do for the first topic."""
        (range_,) = (it for it in plan_now(self.flow, "run-2").ranges if it.topic == self.topic)
        return range_

    def assert_named(self, *words: str) -> None:
        """The next run names the first topic with ``words``, and copies the other one."""
        plan = plan_now(self.flow, "run-2")
        told = [*map(str, plan.remarks.refused), *failures(copy_planned(self.flow, plan))]
        assert len(told) == 1, told
        assert all(word in told[0] for word in (self.topic, *words)), told
        assert_same_offsets(self.source, self.other, self.target, remote(self.flow, self.other))


def copied(pair: Pair, **options: str) -> Copied:
    topics = [pair.topic(prefix, named("old", 20)) for prefix in ("damaged", "whole")]
    flow = pair.flow(topics, offsets="preserved", writers=1, **options)
    assert not failures(copy_now(flow))
    return Copied(flow, *topics, pair.primary, pair.backup)


@pytest.fixture
def copy(pair: Pair) -> Copied:
    return copied(pair)


def write_as(flow: Flow, tp: TopicPartition, producer: ProducerState) -> tuple[int, int]:
    """Write a record as the flow's own producer; error code and base offset of the answer."""
    settings = kafka_python_config(flow.target.client_properties("producer"))
    batch = for_producer(
        single_record(b"", b"zombie", 0),
        producer_id=producer.producer_id,
        epoch=producer.epoch,
        sequence=producer.sequence,
        transactional=False,
    )
    with WireCluster("target", settings) as cluster:
        node = cluster.leaders([tp])[tp].node
        answer = cluster.connection(node).call(produce_request({tp: batch}))
        entry = answer.responses[0].partition_responses[0]
        return entry.error_code, entry.base_offset


def test_a_foreign_record_between_runs_is_found_at_its_offset(copy: Copied) -> None:
    produce(copy.target.bootstrap, copy.remote.topic, [Record(value=b"foreign")])
    copy.more()
    copy.assert_named("offset 20", "another producer", "ferry repair")


def test_a_foreign_record_is_found_while_the_source_is_quiet(copy: Copied) -> None:
    assert not plan_now(copy.flow, "run-2").remarks.refused
    produce(copy.target.bootstrap, copy.remote.topic, [Record(value=b"foreign")])
    copy.assert_named("ends at 21, after the position 20", "something else has been written to it")


@pytest.mark.long
def test_a_foreign_transaction_between_runs_is_found_too(copy: Copied) -> None:
    produce(
        copy.target.bootstrap,
        copy.remote.topic,
        [Record(value=b"x")],
        transactional_id="f",
        abort=True,
    )
    copy.more()
    copy.assert_named("offset 20", "another producer")


@pytest.mark.parametrize(
    ("into", "fill"),
    [("records", "markers"), pytest.param("gap", "transactions", marks=pytest.mark.long)],
)
def test_a_foreign_record_while_a_run_writes_stops_that_partition_alone(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, into: str, fill: str
) -> None:
    copy = copied(pair, fill=fill)
    copy.more()
    if into == "gap":
        pair.produce(copy.topic, [Record(value=b"x")], transactional_id="g", abort=True)
    asked = {"records": "ProduceRequest", "gap": "EndTxnRequest"}[into]
    send = Connection.send
    written = False

    def intrude(self: Connection, request: object, **more: object) -> None:
        nonlocal written
        if type(request).__name__ == asked and not written:
            written = True
            produce(pair.backup.bootstrap, copy.remote.topic, [Record(value=b"foreign")])
        send(self, request, **more)  # type: ignore[arg-type]

    plan = plan_now(copy.flow, "run-2")
    monkeypatch.setattr(Connection, "send", intrude)
    (told,) = failures(copy_planned(copy.flow, plan))
    monkeypatch.undo()

    assert written
    assert copy.topic in told
    assert "something else has been written to it" in told
    assert_same_offsets(pair.primary, copy.other, pair.backup, remote(copy.flow, copy.other))
    # It is not forgotten, and not gone on from.
    copy.assert_named("offset")


@pytest.mark.long
def test_a_remote_topic_that_was_recreated_is_named_and_by_policy_filled_again(
    copy: Copied,
) -> None:
    recreate_topic(copy.target, copy.remote.topic)
    copy.more()
    copy.assert_named("deleted")

    again = copy.flow.model_copy(update={"on_target_topic_lost": "recopy"})
    plan = plan_now(again, "run-3")
    assert all(range_.preserved for range_ in plan.ranges)
    assert not failures(copy_planned(again, plan))
    assert_same_offsets(copy.source, copy.topic, copy.target, copy.remote.topic)


def test_sequences_make_a_writer_that_was_taken_for_dead_harmless(copy: Copied) -> None:
    producer = copy.position().producer
    assert producer is not None and producer.sequence == 20
    duplicate = replace(producer, sequence=0)
    assert write_as(copy.flow, copy.remote, duplicate)[0] in (45, 46)
    overlapping = replace(producer, sequence=22)
    assert write_as(copy.flow, copy.remote, overlapping)[0] == 45
    copy.more()
    assert not failures(copy_now(copy.flow, "run-2"))
    assert_same_offsets(copy.source, copy.topic, copy.target, copy.remote.topic)


def a_writer(flow: Flow, fill: str = "transactions") -> TransactionalWriter:
    return preserved_writer(WriterSettings.of(flow, "by hand", 0), fill=fill)


@pytest.mark.long
def test_a_writer_that_was_asleep_asks_who_writes_before_it_writes(
    copy: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy.more()
    range_ = copy.next_range()
    asleep, awake = a_writer(copy.flow), a_writer(copy.flow)
    asleep.take_over([range_])
    awake.take_over([range_])
    record = single_record(b"k", b"v", 0)
    asleep.write(range_, ConvertedBatch(20, 21, record, ((20, 1),)))
    long_ago = time.monotonic() - 3600
    monkeypatch.setattr(asleep._records, "_heard_at", long_ago)

    with pytest.raises(Fenced):
        asleep.send()

    assert end_of(copy) == 20
    asleep.close()
    awake.close()


@dataclass(frozen=True)
class Rivals:
    """Two that fill one partition, from offset 20 on, with control records."""

    copy: Copied
    range: Range
    old: TransactionalWriter
    new: TransactionalWriter


@pytest.fixture
def rivals(pair: Pair) -> Iterator[Rivals]:
    """The old one has filled one of four offsets, and the new one has just taken over."""
    copy = copied(pair, fill="markers")
    pair.produce(copy.topic, named("a", 3), transactional_id=copy.topic, abort=True)
    range_ = copy.next_range()
    old, new = a_writer(copy.flow, "markers"), a_writer(copy.flow, "markers")
    old.take_over([range_])
    old.write(range_, gap(20, 21))
    old.send()
    new.take_over([range_])
    yield Rivals(copy, range_, old, new)
    old.close()
    new.close()


@pytest.mark.long
def test_control_records_of_a_writer_that_was_taken_over_are_refused(
    rivals: Rivals, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One that was taken for dead and asks no broker, such as a request that was long on its way.
    monkeypatch.setattr(control_records, "_SURE_S", 3600)
    rivals.new.write(rivals.range, gap(20, 22))
    rivals.new.send()
    assert end_of(rivals.copy) == 22

    rivals.old.write(rivals.range, gap(21, 24))
    with pytest.raises(Fenced):
        rivals.old.send()

    assert end_of(rivals.copy) == 22


@pytest.mark.long
def test_control_records_between_a_take_over_and_the_first_ones_after_it_are_seen(
    rivals: Rivals, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = rivals.copy
    # For a moment after it has asked, it relies on being the one that writes.
    monkeypatch.setattr(control_records, "_SURE_S", 3600)
    rivals.old.write(rivals.range, gap(21, 24))
    rivals.old.send()
    assert end_of(copy) == 24
    rivals.new.write(rivals.range, gap(20, 24))

    with pytest.raises(StartOver, match="earlier writer"):
        rivals.new.send()

    assert end_of(copy) == 24
    with pytest.raises(Fenced):
        rivals.old.commit()
    assert not failures(copy_now(copy.flow, "run-3"))
    assert_same_offsets(copy.source, copy.topic, copy.target, copy.remote.topic)


def test_a_writer_that_was_taken_over_fills_no_more(rivals: Rivals) -> None:
    time.sleep(0.6)
    rivals.old.write(rivals.range, gap(21, 24))

    with pytest.raises(Fenced):
        rivals.old.send()

    assert end_of(rivals.copy) == 21


def end_of(copy: Copied) -> int:
    settings = kafka_python_config(copy.flow.target.client_properties("consumer"))
    with WireCluster("target", settings) as cluster:
        node = cluster.leaders([copy.remote])[copy.remote].node
        return high_watermarks(cluster, {copy.remote: node})[copy.remote]


@pytest.mark.long
def test_sequences_go_on_after_two_to_the_31(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    # The log's last record is not by the producer that the ledger is told of.
    monkeypatch.setattr(log_mismatches, "replaced_ends", lambda *_: frozenset())
    copy = copied(pair)
    producer = copy.position().producer
    assert producer is not None
    # Another producer of the flow's, as far as one would be after two thousand million records.
    far = replace(producer, producer_id=producer.producer_id + 500_000, sequence=2**31 - 4)
    fence_writers(copy.flow, 1)
    restore_positions(copy.flow, "run-1", {copy.remote: replace(copy.position(), producer=far)})
    tell_ledger(copy, far)
    copy.more()
    assert not failures(copy_now(copy.flow, "run-2"))
    position = copy.position()
    assert position.producer is not None
    assert (position.offset, position.producer.sequence) == (30, 6)
    copy.more()
    assert not failures(copy_now(copy.flow, "run-3"))
    assert_same_offsets(copy.source, copy.topic, copy.target, copy.remote.topic)


def tell_ledger(copy: Copied, producer: ProducerState) -> None:
    """Writes an empty range: the ledger has each position."""
    last = [it for it in ledger_rows(copy.flow) if it["remote_topic"] == copy.remote.topic][-1]
    offset = copy.position().offset
    entry = a_copied_range(
        offset,
        offset,
        topic=copy.topic,
        topic_id=last["topic_id"],
        remote_topic=copy.remote.topic,
        remote_topic_id=last["remote_topic_id"],
        segments=(),
        preserved=True,
        producer=producer,
    )
    append_entry(copy.flow, a_transaction(entry, flow=copy.flow.name))  # type: ignore[arg-type]


# A broker that forgets producers at once, and loses the end of logs


@pytest.fixture(scope="module")
def forgetful(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Two brokers; the second one forgets producers after a second, and may be stopped.

    Each is alone: what is cut off its log, no replica gives back.
    """
    home = tmp_path_factory.mktemp("forgetful")
    forgets = {
        "producer.id.expiration.ms": "1000",
        "producer.id.expiration.check.interval.ms": "500",
        "transactional.id.expiration.ms": "86400000",
    }
    brokers = Broker(home / "source"), Broker(home / "target", config=forgets)
    start_all(brokers)
    yield brokers
    for broker in brokers:
        broker.wipe()


@pytest.fixture
def forgotten(folder: Path, forgetful: tuple[KafkaCluster, KafkaCluster], unique: Unique) -> Copied:
    """The target's broker has forgotten the producers of both topics."""
    return when_forgotten(copied(Pair(folder, *forgetful, unique)))


def when_forgotten(copy: Copied) -> Copied:
    """A copy, as soon as the target's broker has forgotten its producer."""
    assert copy.position().producer is not None
    deadline = time.monotonic() + 30
    while active_producers(copy) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not active_producers(copy)
    return copy


def active_producers(copy: Copied) -> set[int]:
    topic = DescribeProducersRequest.TopicRequest(name=copy.remote.topic, partition_indexes=[0])
    settings = kafka_python_config(copy.flow.target.client_properties("producer"))
    with WireCluster("target", settings) as cluster:
        node = cluster.leaders([copy.remote])[copy.remote].node
        answer = cluster.connection(node).call(DescribeProducersRequest(topics=[topic]))
    return {state.producer_id for state in answer.topics[0].partitions[0].active_producers}


@pytest.mark.long
def test_a_producer_that_the_broker_has_forgotten_goes_on_where_it_was(forgotten: Copied) -> None:
    forgotten.more()
    assert not failures(copy_now(forgotten.flow, "run-2"))
    assert_same_offsets(forgotten.source, forgotten.topic, forgotten.target, forgotten.remote.topic)
    producer = forgotten.position().producer
    assert producer is not None and producer.sequence == 30


@pytest.mark.long
def test_a_producer_that_the_broker_has_forgotten_goes_on_after_a_gap(
    folder: Path, forgetful: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    """The control record is the first thing that the broker knows of the producer again."""
    copy = when_forgotten(copied(Pair(folder, *forgetful, unique), fill="markers"))
    produce(
        copy.source.bootstrap, copy.topic, named("x", 2), transactional_id=unique("x"), abort=True
    )
    copy.more()
    assert not failures(copy_now(copy.flow, "run-2"))
    assert_same_offsets(copy.source, copy.topic, copy.target, copy.remote.topic)


@pytest.mark.long
def test_a_writer_that_wakes_after_its_producer_was_forgotten_is_named(forgotten: Copied) -> None:
    producer = forgotten.position().producer
    assert producer is not None
    assert write_as(forgotten.flow, forgotten.remote, replace(producer, sequence=7)) == (0, 20)
    forgotten.more()
    forgotten.assert_named("offset 20", "sequence number 7", "treated as dead", "ferry repair")


@pytest.mark.parametrize("policy", ["follow", "keep"])
@pytest.mark.long
def test_a_log_start_that_the_targets_broker_forgot_is_moved_again(
    folder: Path, forgetful: tuple[KafkaCluster, KafkaCluster], unique: Unique, policy: str
) -> None:
    """Brokers write down where logs start once a minute: what was deleted may be there again."""
    source, target = forgetful
    topic = unique("start")
    create_topic(source.bootstrap, topic)
    produce(source.bootstrap, topic, named("x", 8))
    delete_before(source, topic, 5)
    options = {"offsets": "preserved", "on_source_start_moved": policy}
    flow = make_flow(folder, source, target, [topic], **options)
    assert not failures(copy_now(flow))
    assert_same_offsets(source, topic, target, remote(flow, topic))

    target.kill()
    target.start()
    assert len(read_all(target.bootstrap, remote(flow, topic))[0]) == 8

    assert not failures(copy_now(flow, "run-2"))
    assert_same_offsets(source, topic, target, remote(flow, topic))


@pytest.mark.long
def test_a_target_that_lost_the_end_of_its_log_is_named_though_it_has_grown_again_and_nothing_is_new(
    folder: Path, forgetful: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    """By another client, to the very position: where the log ends tells nothing then."""
    target = forgetful[1]
    copies = {}
    for by in ("nothing", "records", "aborted"):
        own = folder / unique(by)
        own.mkdir()
        copies[by] = copied(Pair(own, *forgetful, unique))
        copies[by].more()
        assert not failures(copy_now(copies[by].flow))
    with broker_down(target, orderly=True):
        for copy in copies.values():
            cut_log(target, copy.remote.topic, 20)
    topics = {by: copy.remote.topic for by, copy in copies.items()}
    produce(target.bootstrap, topics["records"], named("foreign", 10))
    # With the marker of its end, ten offsets.
    aborted = named("foreign", 9)
    produce(target.bootstrap, topics["aborted"], aborted, transactional_id="f", abort=True)

    copies.pop("nothing").assert_named("ends at 20", "position 30", "unclean")
    for copy in copies.values():
        copy.assert_named("another record where the ledger has the last one", "before offset 30")
        control = ClusterControl(copy.flow.target)
        both = control.topics([copy.remote.topic, remote(copy.flow, copy.other)]).values()
        assert lost_ends(copy.flow, control, ledger_of(copy.flow), both) == {copy.remote}
