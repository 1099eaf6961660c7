"""What a verification finds of records that keep their offsets: everything that must not be, on real brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest

from kafka_ferry.batches import Batch, for_producer, split_batches
from kafka_ferry.config import Flow, kafka_python_config
from kafka_ferry.copy.target.preserved import log_starts
from kafka_ferry.errors import VerificationFailed
from kafka_ferry.model import ProducerState, TopicPartition
from kafka_ferry.report import RunReport
from kafka_ferry.runs import Run
from kafka_ferry.verify import PartitionRow, RangeRow
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.partitions.partition_log import leader_of
from kafka_ferry.wire.produce import produce_request
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.segments import read_batches, write_log
from tests.support.records.batches import a_batch
from tests.support.records.builders import (
    Record,
    begin_transaction,
    create_topic,
    delete_before,
    produce,
)
from tests.support.runs.flows import (
    copy_now,
    copy_planned,
    failures,
    ledger_rows,
    make_flow,
    remote,
)
from tests.support.runs.pair import Pair
from tests.support.runs.proof import NO_SPARK, prove, recount_here, report_of, verified

pytestmark = pytest.mark.usefixtures("without_spark")

Log = list[bytes]
THEIRS = 987_654

# Records at 0-4, 5-7, 12-15 and 16; markers at 8, 11 and 17; 9 and 10 were aborted.
END = 18


def write(broker: KafkaCluster, topic: str, *values: str, **more: object) -> None:
    produce(broker.bootstrap, topic, [Record(value=value.encode()) for value in values], **more)


def write_history(broker: KafkaCluster, topic: str) -> None:
    create_topic(broker.bootstrap, topic)
    write(broker, topic, "0", "1", "2", "3", "4")
    write(broker, topic, "5", "6", "7", transactional_id=f"{topic}-a")
    write(broker, topic, "9", "10", transactional_id=f"{topic}-b", abort=True)
    write(broker, topic, "12", "13", "14", "15")
    write(broker, topic, "16", transactional_id=f"{topic}-a")


def judged(flow: Flow, run: str) -> RunReport:
    """The report of a run that was verified, whatever came of it."""
    with suppress(VerificationFailed):
        Run(flow, run).verify(NO_SPARK)
    return report_of(flow, run)


# What another client has done to a log


def one(encoded: bytes) -> Batch:
    (batch,) = split_batches(encoded)
    return batch


def at(log: Log, offset: int) -> int:
    """The place of the batch that holds ``offset``."""
    for place, encoded in enumerate(log):
        header = one(encoded).header
        if header.base_offset <= offset < header.next_offset:
            return place
    raise AssertionError(f"nothing holds offset {offset}")


def as_ours(log: Log, offset: int, values: list[str]) -> bytes:
    """A batch at ``offset`` as the flow's producer would write it."""
    header = one(log[at(log, 0)]).header
    records = [Record(value=value.encode()) for value in values]
    return a_batch(
        [(1_700_000_000_000, record.key, record.value, ()) for record in records],
        at=offset,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=offset,
    )


def theirs(offset: int) -> bytes:
    return a_batch(1, at=offset, producer_id=THEIRS, producer_epoch=0, base_sequence=0)


def with_other_bytes(log: Log) -> None:
    place = at(log, 12)
    header = one(log[place]).header
    values = [f"not {n}" for n in range(header.records)]
    log[place] = as_ours(log, header.base_offset, values)


def with_another_producer(log: Log) -> None:
    place = at(log, 12)
    batch = one(log[place])
    log[place] = Batch(batch.header._replace(producer_id=THEIRS), batch.payload).with_crc().encode()


def without_a_batch(log: Log) -> None:
    del log[at(log, 12)]


def without_the_last_gap(log: Log) -> None:
    del log[at(log, 17) :]


def with_a_record_of_theirs_in_a_gap(log: Log) -> None:
    log[at(log, 9)] = theirs(9)


def with_a_record_of_ours_in_a_gap(log: Log) -> None:
    log[at(log, 9)] = as_ours(log, 9, ["9"])


def with_a_record_of_theirs_after(log: Log) -> None:
    log.append(theirs(END))


def with_records_of_ours_after(log: Log) -> None:
    log.append(as_ours(log, END, ["18", "19"]))


def with_a_record_before(log: Log) -> None:
    log[at(log, 2)] = theirs(2)


@dataclass(frozen=True)
class Found:
    """What a verification says of one topic."""

    said: list[str]
    range: RangeRow
    partition: PartitionRow


HOLDS = "the target holds as many records as were copied"
NO_OTHER_PRODUCER = "nothing lies between our records that the ledger does not have"
SAME_BYTES = "the target's bytes are those that were sent"
NOTHING_BEYOND = "nothing lies beyond what the ledger knows"
FAR_ENOUGH = "the target's log goes as far as the ledger"
NOTHING_BEFORE = "nothing lies before the mirror's start"

CASES: dict[str, tuple[Callable[[Log], None] | None, set[str]]] = {
    "untouched": (None, set()),
    "a batch is missing": (without_a_batch, {HOLDS, SAME_BYTES}),
    "other bytes at the same offsets": (with_other_bytes, {SAME_BYTES}),
    "another producer in our place": (
        with_another_producer,
        {HOLDS, NO_OTHER_PRODUCER, SAME_BYTES},
    ),
    "another client in a gap": (with_a_record_of_theirs_in_a_gap, {NO_OTHER_PRODUCER}),
    "ours in a gap": (with_a_record_of_ours_in_a_gap, {NO_OTHER_PRODUCER, SAME_BYTES}),
    "a gap is missing at the end": (without_the_last_gap, {FAR_ENOUGH}),
    "another client after the end": (with_a_record_of_theirs_after, {NOTHING_BEYOND}),
    "ours after the end": (with_records_of_ours_after, set()),
    "another client before the mirror": (with_a_record_before, {NOTHING_BEFORE}),
}


def topic_of(case: str) -> str:
    return "proof-" + case.replace(" ", "-").replace("'", "")


@pytest.fixture(scope="module")
def found(
    tmp_path_factory: pytest.TempPathFactory, primary: KafkaCluster
) -> Iterator[dict[str, Found]]:
    """What the verification of one run says of each case, after another client has changed the target's logs."""
    home = tmp_path_factory.mktemp("preserved-proof")
    target = Broker(home / "target")
    with target, pytest.MonkeyPatch.context() as monkeypatch:
        recount_here(monkeypatch)
        topics = {case: topic_of(case) for case in CASES}
        for topic in topics.values():
            write_history(primary, topic)
        before = topics["another client before the mirror"]
        delete_before(primary, before, 5)
        folder = home / home.name
        flow = make_flow(
            *(folder, primary, target, topics.values()),
            offsets="preserved",
            offsets_start={before: 0},
        )
        assert not failures(copy_now(flow))
        target.stop()
        for case, (change, _) in CASES.items():
            name = remote(flow, topics[case])
            log = read_batches(target, name)
            if change:
                change(log)
                write_log(target, name, log)
        target.start().wait_ready()
        report = judged(flow, "run-1")
        assert report.proof.verdict
        yield {
            case: Found(
                [said for said in report.proof.verdict.failures if said.startswith(f"{topic}-0 [")],
                next(row for row in report.proof.ranges if row.topic == topic),
                next(row for row in report.proof.partitions if row.topic == topic),
            )
            for case, topic in topics.items()
        }
    target.wipe()


@pytest.mark.parametrize("case", CASES)
def test_the_verification_names_what_another_client_has_done_to_a_log(
    case: str, found: dict[str, Found]
) -> None:
    this = found[case]
    said = {sentence[sentence.index("(expected: ") + 11 : -1] for sentence in this.said}
    assert said == CASES[case][1], this.said
    assert this.range.preserved and this.partition.preserved


def test_the_verification_counts_what_it_finds(found: dict[str, Found]) -> None:
    whole = found["untouched"]
    recount = whole.range.recount
    assert (whole.range.ledger.copied, recount.target_records, recount.foreign) == (13, 13, 0)
    assert whole.range.ledger.accounted == END
    assert recount.digest_comparable
    assert whole.partition.log.uncommitted == 0
    assert found["a batch is missing"].range.recount.target_records < 13
    assert found["another client in a gap"].range.recount.foreign == 1
    assert found["a gap is missing at the end"].partition.log.unreached == 1
    assert found["another client after the end"].partition.log.target_beyond == 1
    assert found["ours after the end"].partition.log.uncommitted == 2
    assert found["another client before the mirror"].partition.log.target_before == 1


# Through brokers that go on


@pytest.mark.long
def test_an_open_transaction_of_another_client_is_seen_although_committed_readers_do_not_see_it(
    pair: Pair,
) -> None:
    topic = pair.unique("hanging")
    write_history(pair.primary, topic)
    flow = pair.flow([topic], offsets="preserved")
    assert not failures(copy_now(flow))
    record = Record(value=b"not committed")
    stranger = begin_transaction(pair.backup.bootstrap, topic, remote(flow, topic), record)

    report = judged(flow, "run-1")
    stranger.abort_transaction()

    assert len(pair.copied(flow, topic)[0]) == 13
    assert report.proof.verdict
    (said,) = report.proof.verdict.failures
    assert "1 record on the target after the ledger's last one" in said
    again = judged(flow, "run-1").proof.verdict
    assert again and again.failures == (said,), "an aborted one, too"


def test_a_foreign_record_is_seen_where_the_source_has_nothing(pair: Pair) -> None:
    topic, empty = pair.unique("some"), pair.unique("empty")
    write_history(pair.primary, topic)
    create_topic(pair.primary.bootstrap, empty)
    flow = pair.flow([topic, empty], offsets="preserved")
    run = Run(flow, "run-1")
    run.plan()
    assert not failures(copy_planned(flow, run.sync_topics()))
    write(pair.backup, remote(flow, empty), "foreign")

    verdict = judged(flow, "run-1").proof.verdict
    assert verdict
    (said,) = verdict.failures
    assert said.startswith(f"{empty}-0 ") and "1 record on the target after" in said


def test_what_an_attempt_left_is_shown_then_adopted_and_proved(pair: Pair) -> None:
    topic = pair.unique("adopted")
    write_history(pair.primary, topic)
    flow = pair.flow([topic], offsets="preserved")
    assert not failures(copy_now(flow, "run-1"))
    write(pair.primary, topic, "18", "19", "20")
    write_uncommitted(flow, pair.backup, topic, one(read_batches(pair.primary, topic)[-1]))

    first = verified(flow, "run-1")
    second = prove(flow, "run-2")
    write(pair.primary, topic, "21")
    third = prove(flow, "run-3")

    (sentence,) = first.proof.uncommitted
    assert sentence == f"{topic}-0: 3 on {remote(flow, topic)}, from offset {END} on."
    assert (second.counts.adopted, second.proof.uncommitted) == (3, ())
    assert second.counts.adoptions == (f"{topic}-0 [{END}, {END + 3}): 3.",)
    (range_,) = second.proof.ranges
    assert range_.ledger.adopted == range_.recount.target_records == 3
    assert third.counts.adopted == 0
    assert range_.recount.digest_comparable and third.proof.ranges[0].recount.digest_comparable


def write_uncommitted(flow: Flow, target: KafkaCluster, topic: str, batch: Batch) -> None:
    """Write a batch of the source at the end of the copy as the flow would, and nothing to the ledger."""
    (row,) = ledger_rows(flow)
    producer = ProducerState(**row["producer"])
    partition = TopicPartition(remote(flow, topic), 0)
    encoded = for_producer(
        batch,
        producer_id=producer.producer_id,
        epoch=producer.epoch,
        sequence=producer.sequence,
        transactional=False,
    )
    settings = kafka_python_config(flow.target.client_properties("producer"))
    with WireCluster("backup", settings) as cluster:
        broker = cluster.connection(leader_of(cluster, partition))
        answer = broker.call(produce_request({partition: encoded}))
    (stored,) = answer.responses[0].partition_responses
    assert (stored.error_code, stored.base_offset) == (0, END)


@pytest.mark.parametrize("deletes", [True, False], ids=["deleted", "not deleted"])
def test_the_start_of_the_targets_log_is_looked_at(
    deletes: bool, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pair.unique("started")
    write_history(pair.primary, topic)
    delete_before(pair.primary, topic, 3)
    if not deletes:
        monkeypatch.setattr(log_starts, "delete_records", lambda *_: {})
    flow = pair.flow([topic], offsets="preserved")
    assert not failures(copy_now(flow, "run-1"))
    first = judged(flow, "run-1")
    delete_before(pair.primary, topic, 7)
    assert not failures(copy_now(flow, "run-2"))
    second = judged(flow, "run-2")

    assert [row.log.exposed for row in first.proof.partitions + second.proof.partitions] == (
        [0, 0] if deletes else [3, 7]
    )
    assert first.proof.partitions[0].log.target_before == (0 if deletes else 3)
    assert first.proof.verdict and second.proof.verdict
    assert (first.proof.verdict.success, second.proof.verdict.success) == (deletes, deletes)
