"""What reads answers takes silence, or an answer to something else, for neither yes nor no."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.errors import (
    AccessDenied,
    BrokerError,
    ClusterUnreachable,
    CorruptBatch,
    FerryError,
)
from kafka_ferry.model.groups import Committed
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import GROUP, Expected, WireCluster, log_start, send_fetch
from kafka_ferry.wire.partition_leader import topic_id_text
from kafka_ferry.wire.partitions.absence import next_batch
from kafka_ferry.wire.partitions.at_offset import batch_at, markers_at, with_batches
from kafka_ferry.wire.partitions.ends import delete_records
from kafka_ferry.wire.partitions.epochs import epoch_ends, epochs_before
from kafka_ferry.wire.partitions.first_record import first_record
from kafka_ferry.wire.partitions.list_offsets import high_watermarks
from kafka_ferry.wire.partitions.partition_log import PartitionLog
from kafka_ferry.wire.partitions.scan import committed_batches
from kafka_ferry.wire.produce import produce
from kafka_ferry.wire.transactions.committed_offsets import committed_offsets
from kafka_ferry.wire.transactions.endings import learn_ending, open_parts_questions
from kafka_ferry.wire.transactions.markers import Markers, new_producer_id, write_markers
from kafka_ferry.wire.transactions.producer import TransactionalProducer
from tests.support.records.batches import a_batch, a_marker, an_empty_batch, with_header

from .scripted import HOST, KINDS, Kind, ScriptedBroker, mutated, mutations, reach_only, sample

# The samples of ``scripted`` are of this one.
ASKED = TopicPartition("orders", 1)
OTHER = TopicPartition("orders", 2)
TOPIC_ID = "TTb4ol0PSw6aU4xLHLsKEQ"

SPOKEN = [*KINDS[1:14], *KINDS[-4:]]
METADATA, FETCH_12, FETCH_13, PRODUCE, COORDINATOR, INIT, ADD = SPOKEN[:7]
ADD_GROUP, COMMIT, OFFSETS, END, LISTED, EPOCHS = SPOKEN[7:13]
TRANSACTIONS, PRODUCERS, DELETED, MARKERS = SPOKEN[13:]
OF_PARTITIONS = [PRODUCE, ADD, COMMIT, OFFSETS, LISTED, EPOCHS, PRODUCERS, DELETED, MARKERS]
BATCH = bytes(100)
SOME_MARKERS = Markers(2, producer_id=7, epoch=0, coordinator_epoch=3)
Call = Callable[[WireCluster, TransactionalProducer], object]


def fetch_all(cluster: WireCluster, *partitions: TopicPartition, topic_id: str = TOPIC_ID) -> Any:
    pending = send_fetch(
        cluster,
        1,
        dict.fromkeys(partitions, 0),
        max_bytes=1,
        partition_max_bytes=1,
        expected=dict.fromkeys(partitions, Expected(topic_id)),
    )
    return list(pending.answers())


def commit(producer: TransactionalProducer, *partitions: TopicPartition) -> dict[Any, int]:
    return producer.commit_offsets("g", dict.fromkeys(partitions, Committed(1)))


CALLS: list[tuple[Kind, Call]] = [
    (METADATA, lambda cluster, _: cluster.leaders([ASKED])),
    (FETCH_13, lambda cluster, _: fetch_all(cluster, ASKED)),
    (FETCH_12, lambda cluster, _: fetch_all(cluster, ASKED, topic_id="")),
    (LISTED, lambda cluster, _: log_start(cluster, 1, ASKED)),
    (COORDINATOR, lambda cluster, _: cluster.coordinator("g", GROUP)),
    (OFFSETS, lambda cluster, _: committed_offsets(cluster, "g", [ASKED])),
    (OFFSETS, lambda cluster, _: committed_offsets(cluster, "g")),
    (INIT, lambda _, producer: producer.start()),
    (ADD, lambda _, producer: producer.add_partitions([ASKED])),
    (ADD_GROUP, lambda _, producer: producer.add_group("g")),
    (COMMIT, lambda _, producer: commit(producer, ASKED)),
    (END, lambda _, producer: producer.end(commit=True)),
    (LISTED, lambda cluster, _: high_watermarks(cluster, {ASKED: 1})),
    (DELETED, lambda cluster, _: delete_records(cluster, {ASKED: 1}, {ASKED: 5})),
    (MARKERS, lambda cluster, _: write_markers(cluster, 1, {ASKED: SOME_MARKERS})),
    (INIT, lambda cluster, _: new_producer_id(cluster)),
    (EPOCHS, lambda cluster, _: epoch_ends(cluster, {ASKED: 1})),
    (EPOCHS, lambda cluster, _: epochs_before(cluster, {ASKED: 5})),
    (PRODUCE, lambda cluster, _: produce(cluster, 1, ASKED, BATCH)),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker, pytest.MonkeyPatch.context() as patch:
        reach_only({(HOST, broker.port)}, patch)
        patch.setattr("kafka_ferry.retry.RETRY_S", 0)
        yield broker


def truth(broker: ScriptedBroker, kind: Kind, **of_partition: int) -> bytes:
    """An answer that says: this broker, number 1, has ``ASKED`` and nothing else.

    Args:
        of_partition: fields of the partition's entry that say something else.
    """
    response, given = kind.response[None], dict[str, Any]()
    here = {"node_id": 1, "host": HOST, "port": broker.port}
    if kind == METADATA:
        given = {"brokers": [sample(response.MetadataResponseBroker, kind.version, **here)]}
    elif kind == COORDINATOR:
        given = here
    message = halved(kind, **given)
    for name, value in of_partition.items():
        setattr(message.topics[0].partitions[0], name, value)
    body: bytes = message.encode(version=kind.version)
    return body


def encoded(kind: Kind, **given: Any) -> bytes:
    """The bytes of ``halved``."""
    body: bytes = halved(kind, **given).encode(version=kind.version)
    return body


def halved(kind: Kind, **given: Any) -> Any:
    """The sample with one entry in each array."""
    message = sample(kind.response[None], kind.version, **given)
    _halve(message)
    return message


def _halve(message: Any) -> None:
    for field in message.fields.values():
        value = getattr(message, field.name)
        if isinstance(value, list):
            setattr(message, field.name, value[:1])
        for entry in getattr(message, field.name) if field.is_struct_array() and value else ():
            _halve(entry)


def with_another(kind: Kind) -> bytes:
    """``halved``, and the same of a topic that was not asked for."""
    message = halved(kind)
    _say_of(message, "payments")
    body: bytes = message.encode(version=kind.version)
    return body


def _say_of(message: Any, topic: str) -> None:
    for field in message.fields.values():
        entries = getattr(message, field.name) if field.is_struct_array() else ()
        for entry in [*entries]:
            names = {it.name for it in entry.fields.values()} & {"name", "topic"}
            for name in names:
                entries.append(copy(entry))
                setattr(entries[-1], name, topic)
            if not names:
                _say_of(entry, topic)


def open_parts(cluster: WireCluster, partition: TopicPartition) -> object:
    """Where a transaction is open, by the brokers that lead a partition."""
    questions, _ = open_parts_questions(cluster, cluster.leaders([partition]), 1)
    return [question.ask() for question in questions.values()]


def with_records(records: bytes) -> bytes:
    """An answer to a fetch by name with these batches."""
    message = halved(FETCH_12)
    message.responses[0].partitions[0].records = records
    body: bytes = message.encode(version=FETCH_12.version)
    return body


def calling(broker: ScriptedBroker, call: Call, said: dict[Kind, bytes]) -> object:
    """What ``call`` gives while the broker says the truth but for ``said``."""
    broker.drop()
    answers = {kind: truth(broker, kind) for kind in SPOKEN}
    broker.speak(answers | said)
    settings = {"bootstrap_servers": [f"{HOST}:{broker.port}"], "request_timeout_ms": 2000}
    with WireCluster("primary", settings) as cluster:
        cluster.leaders([])  # from here on, broker 1 is known
        return call(cluster, TransactionalProducer(cluster, "t", timeout_ms=1000))


@pytest.mark.parametrize(("kind", "call"), CALLS)
def test_the_truth_is_understood(broker: ScriptedBroker, kind: Kind, call: Call) -> None:
    assert calling(broker, call, {}) != []


@given(st.sampled_from(CALLS), mutations())
def test_no_answer_is_another_error_or_a_hang(
    broker: ScriptedBroker, asked: tuple[Kind, Call], changes: list[tuple[str, float, bytes]]
) -> None:
    kind, call = asked
    began = time.monotonic()
    try:
        calling(broker, call, {kind: mutated(truth(broker, kind), changes)})
    except FerryError as error:
        assert error.message
    assert time.monotonic() - began < 5


SILENCE: list[tuple[Kind, str, Call]] = [
    (FETCH_13, "responses", CALLS[1][1]),
    (LISTED, "topics", CALLS[3][1]),
    (OFFSETS, "topics", CALLS[5][1]),
    (ADD, "results_by_topic_v3_and_below", CALLS[8][1]),
    (COMMIT, "topics", CALLS[10][1]),
    (LISTED, "topics", CALLS[12][1]),
    (DELETED, "topics", CALLS[13][1]),
    (MARKERS, "markers", CALLS[14][1]),
    (PRODUCE, "responses", CALLS[18][1]),
]


@pytest.mark.parametrize(
    ("kind", "field", "call"), SILENCE, ids=[f"{k} {n}" for n, (k, *_) in enumerate(SILENCE)]
)
def test_silence_is_no_answer(broker: ScriptedBroker, kind: Kind, field: str, call: Call) -> None:
    with pytest.raises(ClusterUnreachable, match="did not answer for orders-1"):
        calling(broker, call, {kind: encoded(kind, **{field: []})})


@pytest.mark.parametrize(
    "call",
    [
        lambda cluster, _: epoch_ends(cluster, {ASKED: 0}),
        lambda cluster, _: epochs_before(cluster, {ASKED: 1}),
    ],
)
def test_no_epoch_is_newer_than_the_one_that_was_asked_for(
    broker: ScriptedBroker, call: Call
) -> None:
    """Whoever looks for an older one would ask for ever."""
    with pytest.raises(ClusterUnreachable, match="answered for the leader epoch 1 of orders-1"):
        calling(broker, call, {})


@pytest.mark.parametrize(
    ("marker", "writer"),
    [
        (a_marker(at=5, producer_id=7, commit=True), 7),
        (a_marker(at=5, producer_id=7, commit=False), -1),
        (a_marker(at=4, producer_id=7, commit=True), -1),
        # As the cleaner leaves one of a producer that has written nothing since.
        (an_empty_batch(at=5, last_offset_delta=0, producer_id=7, attributes=0x30), -1),
        (b"", -1),
    ],
    ids=["commit", "abort", "another offset", "emptied", "nothing"],
)
def test_whose_marker_lies_at_an_offset_is_told_only_by_one_that_says_what_it_is(
    broker: ScriptedBroker, marker: bytes, writer: int
) -> None:
    said = {FETCH_12: with_records(marker)}
    found = calling(broker, lambda cluster, _: markers_at(cluster, {ASKED: 5}), said)
    assert found == {ASKED: writer}


@pytest.mark.parametrize(
    ("records", "is_read"),
    [
        (a_batch(3, at=3), True),
        (a_batch(2, at=3), False),
        (a_batch(3, at=3)[:-1] + b"?", False),
        (b"\xff" * 100, False),
        (b"", False),
    ],
    ids=["that holds it", "before it", "a wrong CRC", "no batch", "left out"],
)
def test_of_many_logs_the_batches_that_come_together_are_read_no_second_time(
    broker: ScriptedBroker, records: bytes, is_read: bool
) -> None:
    """What did not come is asked for by itself, as an absence there needs more than such an answer."""
    log = PartitionLog(ASKED, 1, 0, 9)
    said = {FETCH_12: with_records(records)}
    read = calling(broker, lambda cluster, _: with_batches(cluster, {ASKED: log}, {ASKED: 5}), said)
    assert (read[ASKED].batch is not None) is is_read
    assert read[ASKED]._replace(batch=None) == log
    if is_read:
        assert batch_at(None, read[ASKED], 5) is read[ASKED].batch  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "read",
    [
        lambda cluster: next_batch(cluster, 1, ASKED, 5),
        lambda cluster: first_record(cluster, ASKED, 0),
    ],
    ids=["next_batch", "first_record"],
)
@pytest.mark.parametrize(
    "batch",
    [b"\xff" * 100, with_header(a_batch(1, at=5), count=-1)],
    ids=["no length", "a negative count"],
)
def test_bytes_that_are_no_batch_are_named_with_their_partition(
    broker: ScriptedBroker, read: Callable[[WireCluster], object], batch: bytes
) -> None:
    said = {FETCH_12: with_records(batch)}
    with pytest.raises(CorruptBatch, match="orders-1 on primary holds a"):
        calling(broker, lambda cluster, _: read(cluster), said)


def test_a_marker_that_is_none_is_named_with_its_partition(broker: ScriptedBroker) -> None:
    """It decides which of the batches before it were aborted."""
    marker = with_header(a_marker(at=5, producer_id=1, commit=False), count=2**31 - 1)
    log = PartitionLog(ASKED, 1, 0, 9)
    with pytest.raises(CorruptBatch, match="orders-1 on primary holds a batch at offset 5"):
        calling(
            broker,
            lambda cluster, _: list(committed_batches(cluster, log, 5)),
            {FETCH_12: with_records(marker)},
        )


@pytest.mark.parametrize("end", [-1, -2, -(2**63)])
def test_an_end_below_zero_is_none(broker: ScriptedBroker, end: int) -> None:
    said = {EPOCHS: truth(broker, EPOCHS, end_offset=end)}
    assert calling(broker, CALLS[16][1], said) == {}


@pytest.mark.parametrize("epoch", [-2, -(2**31)])
def test_a_leader_epoch_below_zero_is_one_that_is_not_known(
    broker: ScriptedBroker, epoch: int
) -> None:
    """As Java's clients take it: an end of an epoch that is not named is that of the one asked for."""
    in_metadata = {METADATA: truth(broker, METADATA, leader_epoch=epoch)}
    in_offsets = {OFFSETS: truth(broker, OFFSETS, committed_leader_epoch=epoch)}
    in_ends = {EPOCHS: truth(broker, EPOCHS, leader_epoch=epoch)}

    leaders: Any = calling(broker, CALLS[0][1], in_metadata)
    offsets: Any = calling(broker, CALLS[5][1], in_offsets)
    ends: Any = calling(broker, lambda cluster, _: epoch_ends(cluster, {ASKED: 0}), in_ends)
    before = calling(broker, lambda cluster, _: epochs_before(cluster, {ASKED: 1}), in_ends)

    assert leaders[ASKED].epoch == offsets[ASKED].leader_epoch == -1
    assert ends[ASKED].epoch == 0
    # It looks for an older one as long as the broker has one, and there is none before 0.
    assert before == {ASKED: 0}


@pytest.mark.parametrize(
    "call",
    [
        lambda cluster, _: fetch_all(cluster, ASKED, OTHER),
        lambda cluster, _: log_start(cluster, 1, OTHER),
        lambda cluster, _: committed_offsets(cluster, "g", [ASKED, OTHER]),
        lambda _, producer: producer.add_partitions([ASKED, OTHER]),
        lambda _, producer: commit(producer, ASKED, OTHER),
        lambda cluster, _: high_watermarks(cluster, {ASKED: 1, OTHER: 1}),
        lambda cluster, _: delete_records(cluster, {ASKED: 1, OTHER: 1}, {ASKED: 5, OTHER: 5}),
        lambda cluster, _: write_markers(cluster, 1, dict.fromkeys((ASKED, OTHER), SOME_MARKERS)),
        lambda cluster, _: produce(cluster, 1, OTHER, BATCH),
    ],
)
def test_an_answer_for_one_partition_is_none_for_another(
    broker: ScriptedBroker, call: Call
) -> None:
    with pytest.raises(ClusterUnreachable, match="did not answer for orders-2"):
        calling(broker, call, {})


def test_control_records_without_the_right_are_refused_with_advice(broker: ScriptedBroker) -> None:
    denied = sample(MARKERS.response[None], MARKERS.version)
    _halve(denied)
    denied.markers[0].topics[0].partitions[0].error_code = 31
    with pytest.raises(AccessDenied, match="CLUSTER_AUTHORIZATION_FAILED") as caught:
        calling(broker, CALLS[14][1], {MARKERS: denied.encode(version=MARKERS.version)})
    assert "CLUSTER_ACTION" in caught.value.advice
    assert "fill: transactions" in caught.value.advice


def test_a_partition_that_was_not_asked_for_is_refused(broker: ScriptedBroker) -> None:
    with pytest.raises(ClusterUnreachable, match="answered for orders-1, unasked"):
        calling(broker, lambda cluster, _: fetch_all(cluster, OTHER), {})


@pytest.mark.parametrize(
    "call",
    [
        lambda cluster, _: log_start(cluster, 1, ASKED),
        lambda cluster, _: epoch_ends(cluster, {ASKED: 1}),
        lambda cluster, _: committed_offsets(cluster, "g", [ASKED]),
        lambda _, producer: producer.add_partitions([ASKED]),
        lambda _, producer: commit(producer, ASKED),
        lambda cluster, _: delete_records(cluster, {ASKED: 1}, {ASKED: 5}),
        lambda cluster, _: write_markers(cluster, 1, {ASKED: SOME_MARKERS}),
        lambda cluster, _: produce(cluster, 1, ASKED, BATCH),
        lambda cluster, _: open_parts(cluster, ASKED),
    ],
)
def test_a_broker_has_no_say_about_a_partition_that_it_was_not_asked_for(
    broker: ScriptedBroker, call: Call
) -> None:
    """A transaction of ours that is said to be open there would be ended there, where another broker leads."""
    with pytest.raises(ClusterUnreachable, match="answered for payments-1, unasked"):
        calling(broker, call, {kind: with_another(kind) for kind in OF_PARTITIONS})


def test_a_transaction_of_another_producer_is_none_of_the_one_that_was_asked_for(
    broker: ScriptedBroker,
) -> None:
    """A mend that goes on is committed in its producer's name."""
    with pytest.raises(ClusterUnreachable, match="did not answer for t"):
        calling(broker, lambda cluster, _: learn_ending(cluster, "t"), {})


def test_a_partition_is_answered_for_once(broker: ScriptedBroker) -> None:
    """Its range may have ended with the first answer."""
    with pytest.raises(ClusterUnreachable, match="answered for orders-1, unasked"):
        calling(broker, CALLS[1][1], {FETCH_13: FETCH_13.answer()})


def test_a_topic_id_that_was_not_asked_for_is_refused(broker: ScriptedBroker) -> None:
    other = topic_id_text(type("Id", (), {"bytes": bytes(16)})())
    with pytest.raises(ClusterUnreachable, match="unasked"):
        calling(broker, lambda cluster, _: fetch_all(cluster, ASKED, topic_id=other), {})


def test_a_refusal_of_a_whole_fetch_request_is_told(broker: ScriptedBroker) -> None:
    """Nothing is said of any partition then: copying would go on asking for ever."""
    refused = encoded(FETCH_13, error_code=71, responses=[])
    with pytest.raises(BrokerError, match=r"Fetching from broker 1 of primary: .*\(71\)"):
        calling(broker, CALLS[1][1], {FETCH_13: refused})


def test_over_its_quota_a_client_is_told_nothing(broker: ScriptedBroker) -> None:
    """KIP-219; brokers say nothing of any partition then, and it is no error."""
    throttled = encoded(FETCH_13, throttle_time_ms=5, responses=[])
    assert calling(broker, CALLS[1][1], {FETCH_13: throttled}) == []
