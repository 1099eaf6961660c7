"""The target's logs are compared with the ledger in every run: what is gone, and what only the log has."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kafka_ferry.config import Flow
from kafka_ferry.errors import VerificationFailed
from kafka_ferry.ledger import LedgerError, ledger_topic
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.positions import transactional_id
from kafka_ferry.plan.schedule.sharding import writers_of
from kafka_ferry.runs import Run
from kafka_ferry.runs.failover.failover import failover
from kafka_ferry.runs.repair.append_missing import AppendMissing
from kafka_ferry.runs.repair.findings import Findings
from kafka_ferry.runs.sync_groups.translate import Translator
from kafka_ferry.runs.takeover.takeover import Takeover
from kafka_ferry.runs.verify.read_back import read_back
from kafka_ferry.runs.where import where
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.own_brokers import own_pair
from tests.support.brokers.segments import (
    base_offset,
    broker_down,
    cut_log,
    damage,
    read_batches,
    write_log,
)
from tests.support.records.batches import a_batch
from tests.support.records.builders import (
    Record,
    add_partitions,
    begin_transaction,
    create_topic,
    delete_before,
    delete_topic,
    produce,
    read_all,
)
from tests.support.records.groups import commit_alone
from tests.support.records.histories import named, told, values
from tests.support.records.mirror_topics import positions_of_mirrormaker_2
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
from tests.support.runs.proof import NO_SPARK, prove, verified

pytestmark = pytest.mark.usefixtures("without_spark", "short_waits")
OFFSETS = "__consumer_offsets"
NOTHING: Mapping[str, object] = {}
FEW_OFFSETS = {"offsets.topic.num.partitions": "1"}


@pytest.fixture(scope="module")
def _own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    with own_pair(tmp_path_factory.mktemp("cut"), FEW_OFFSETS) as pair:
        yield pair


@pytest.fixture
def own(folder: Path, _own: tuple[KafkaCluster, KafkaCluster], unique: Unique) -> Pair:
    """Brokers whose logs are cut."""
    return Pair(folder, *_own, unique)


def keyed(part: str, count: int) -> list[Record]:
    return [Record(b"%d-%b" % (i, part.encode()), b"%d" % i) for i in range(count)]


def new_flow(own: Pair, topic: str, **options: object) -> Flow:
    """A flow of a topic, with a source's alias of its own."""
    folder = own.folder / topic
    return make_flow(folder, own.primary, own.backup, [topic], **options)


def proved(
    own: Pair, name: str, options: Mapping[str, object] = NOTHING, more: int = 0, **configs: str
) -> Flow:
    """A flow of one topic whose first run, of 30 records, is proved; with so many more, its second run has copied."""
    topic = own.topic(name, keyed("first", 30), **configs)
    flow = new_flow(own, topic, groups=[topic], **options)
    prove(flow)
    if more:
        own.produce(topic, keyed("second", more))
        assert failures(copy_now(flow, "run-2")) == []
    return flow


def taken_over(own: Pair, name: str) -> Flow:
    """A flow that has taken over the 6 records, in two batches, of a topic that it has copied nothing of."""
    topic = own.unique(name)
    flow = new_flow(own, topic)
    there, now = remote(flow, topic), time.time_ns() // 1_000_000
    for broker, log in ((own.primary, topic), (own.backup, there)):
        create_topic(broker.bootstrap, log)
        for first in range(0, 6, 3):
            three = [Record(value=b"%d" % (first + i), timestamp=now) for i in range(3)]
            produce(broker.bootstrap, log, three)
    positions_of_mirrormaker_2(own.backup, flow, {topic: 6})
    (taken,) = Takeover(flow, settle_s=0).from_mirrormaker2()
    assert taken.state == "taken over", taken.reason
    return flow


def with_another_writer(flow: Flow) -> Flow:
    """``flow``, which has one writer, with so many that its topic belongs to another one."""
    target = TopicPartition(remote(flow, flow.topics[0]), 0)
    more = (flow.model_copy(update={"writers": number}) for number in count(2))
    return next(it for it in more if writers_of(it).of(target) > 0)


@pytest.mark.long
def test_what_was_taken_over_and_is_gone_is_missed_where_others_have_written_in_its_place(
    own: Pair,
) -> None:
    target, flow = own.backup, taken_over(own, "taken")
    (topic,) = flow.topics
    there = remote(flow, topic)
    assert isinstance(target, Broker)
    target.stop()
    target.start().wait_ready()
    # A new leader alone is none of the copy's faults.
    assert plan_now(flow).remarks.refused == ()
    verified(flow, "run-1")

    with broker_down(target, orderly=True):
        cut_log(target, there, 3)
    produce(target.bootstrap, there, [Record(value=b"another's")] * 3)

    (refused,) = plan_now(flow, "run-2").remarks.refused
    assert (
        "has another record where the ledger has the last one that was copied, before offset 6"
        in str(refused)
    )
    found = (where(flow, TopicPartition(topic, 0), at) for at in (2, 4))
    assert [it.state for (it,) in found] == ["there", "lost"]


@pytest.mark.parametrize("is_cut", [True, False])
@pytest.mark.short("True")
def test_what_was_taken_over_and_is_gone_is_missed_where_the_log_is_cut_after_the_plan_has_looked(
    is_cut: bool, own: Pair
) -> None:
    source, target = own.primary, own.backup
    flow = taken_over(own, "taken")
    there = remote(flow, flow.topics[0])
    produce(source.bootstrap, flow.topics[0], keyed("new", 1))
    plan = plan_now(flow)
    with broker_down(target, orderly=True):
        if is_cut:
            cut_log(target, there, 3)
    # An attempt that was given up has taken the offsets of what is gone.
    given_up = keyed("again", 3)
    produce(target.bootstrap, there, given_up, transactional_id=own.unique("given-up"), abort=True)

    assert failures(copy_planned(flow, plan)) == []
    if not is_cut:
        verified(flow, plan.run)
        return
    gone = f"the last record of {there}-0 before this range is gone, or hidden from consumers"
    with pytest.raises(VerificationFailed, match=gone):
        verified(flow, plan.run)


@pytest.mark.long
def test_a_last_record_that_another_client_has_replaced_after_the_plan_is_missed(own: Pair) -> None:
    """Its batch ends just where the flow's did; the next run looks at its own last record, and never there again."""
    flow = proved(own, "replaced")
    own.produce(flow.topics[0], keyed("second", 20))
    plan = plan_now(flow, "run-2")
    there = remote(flow, flow.topics[0])
    with broker_down(own.backup):
        write_log(own.backup, there, [a_batch(30)])

    assert failures(copy_planned(flow, plan)) == []
    gone = f"the last record of {there}-0 before this range is gone, or hidden from consumers"
    with pytest.raises(VerificationFailed, match=gone):
        verified(flow, "run-2")


def test_a_dead_letter_that_an_open_transaction_hides_is_not_proved_and_the_next_copy_shows_it(
    own: Pair,
) -> None:
    topic = own.topic("letters", keyed("first", 3))
    options = {"on_rejected_record": "dead-letter", "writers": 1, "admin_timeout_ms": 2_000}
    flow = new_flow(own, topic, **options)
    create_topic(own.backup.bootstrap, remote(flow, topic), max_message_bytes="10000")
    too_large = Record(value=random.Random(1).randbytes(20_000))
    own.produce(topic, [too_large])
    assert failures(copy_now(flow)) == []
    letters = flow.dead_letter_name
    with broker_down(own.backup, orderly=True):
        # The letter's marker alone is lost.
        cut_log(own.backup, letters, 1)

    with pytest.raises(VerificationFailed, match="open transaction hides"):
        verified(flow, "run-1")
    own.produce(topic, [too_large])
    prove(flow, "run-2")

    shown = read_all(own.backup.bootstrap, letters)[0]
    assert [dict(it.headers)["ferry.offset"] for it in shown] == [b"3", b"4"]


@pytest.mark.parametrize("is_aborted", [True, False])
@pytest.mark.short("True")
def test_a_transaction_that_a_cut_of_the_source_has_opened_again_and_that_ends_otherwise_is_noticed(
    is_aborted: bool, own: Pair
) -> None:
    """What was left out as aborted is committed by its producer's next transaction, or the other way round."""
    topic, producer = own.topic("split", keyed("first", 3)), own.unique("producer")
    flow = new_flow(own, topic, on_source_divergence="continue")
    ways = {"transactional_id": producer}
    own.produce(topic, keyed("second", 5), abort=is_aborted, **ways)
    own.produce(topic, keyed("lost", 2))
    prove(flow)
    first = 3
    if not is_aborted:
        # The log may begin within its batch.
        first = 5
        delete_before(own.primary, topic, first)
    with broker_down(own.primary, orderly=True):
        # Its records stay, and its marker is lost.
        cut_log(own.primary, topic, 8)
    assert plan_now(flow, "run-2").remarks.refused == ()

    own.produce(topic, keyed("third", 5), abort=not is_aborted, **ways)

    (refused,) = plan_now(flow, "run-3").remarks.refused
    where_cut = "truncated at 8, below the position 11, within a transaction that begins at"
    assert f"{where_cut} {first}. It has ended otherwise since" in str(refused)


@pytest.mark.parametrize("is_aborted", [True, False])
@pytest.mark.short("False")
def test_a_transaction_that_was_copied_in_part_and_has_ended_otherwise_since_is_not_proved(
    is_aborted: bool, own: Pair
) -> None:
    """The position is before the place where the source's log was cut: only the transaction tells."""
    topic, producer = own.topic("within", keyed("first", 3)), own.unique("producer")
    flow = new_flow(own, topic)
    ways = {"transactional_id": producer}
    own.produce(topic, keyed("second", 5), abort=is_aborted, **ways)
    plan = plan_now(flow)
    stopped = tuple(replace(it, end=5) for it in plan.ranges)
    assert failures(copy_planned(flow, replace(plan, ranges=stopped))) == []
    with broker_down(own.primary, orderly=True):
        # Its records stay, and its marker is lost.
        cut_log(own.primary, topic, 8)
    own.produce(topic, keyed("third", 5), abort=not is_aborted, **ways)

    assert failures(copy_now(flow, "run-2")) == []
    with pytest.raises(VerificationFailed, match="lost or replaced 11 offsets before 14"):
        verified(flow, "run-2")


@pytest.mark.parametrize("is_aborted", [True, False])
@pytest.mark.short("True")
def test_a_transaction_that_a_proved_range_ends_within_and_that_has_ended_otherwise_since_is_noticed(
    is_aborted: bool, own: Pair
) -> None:
    """Another producer's transaction was open behind its first records, so that the run ended there."""
    topic, split, behind = own.topic("between", keyed("first", 3)), *map(own.unique, ("a", "b"))
    flow = new_flow(own, topic)
    source = own.primary.bootstrap
    first, second = (begin_transaction(source, it) for it in (split, behind))
    for producer in (first, second, first):
        producer.produce(topic, b"1")
        producer.flush()
    end_transaction(own, split, first, commit=not is_aborted)
    prove(flow)
    assert [(row["start"], row["end"]) for row in ledger_rows(flow)] == [(0, 4)]
    with broker_down(own.primary, orderly=True):
        # All records stay, and the first transaction's marker is lost.
        cut_log(own.primary, topic, 6)
    own.produce(topic, keyed("again", 1), transactional_id=split, abort=not is_aborted)
    end_transaction(own, behind, second, commit=True)

    assert failures(copy_now(flow, "run-2")) == []
    with pytest.raises(VerificationFailed, match="lost or replaced 6 offsets before 9"):
        verified(flow, "run-2")


@pytest.mark.parametrize("is_aborted", [True, False])
@pytest.mark.short("False")
def test_a_transaction_that_ends_otherwise_behind_a_range_without_any_marker_is_noticed(
    is_aborted: bool, own: Pair
) -> None:
    """Other transactions were open, so that no range near the cut has a marker; copying began within the first one."""
    topic, damaged, name = own.topic("passed"), own.topic("damaged"), own.unique("a")
    folder = own.folder / topic
    flow = make_flow(
        *(folder, own.primary, own.backup, [damaged, topic]), topics_start={topic: "-1h"}
    )
    own.produce(damaged, keyed("first", 1), transactional_id=name)
    own.produce(damaged, keyed("second", 1))
    hours_ago = time.time_ns() // 1_000_000 - 2 * 60 * 60 * 1000
    split, behind, third = (
        begin_transaction(own.primary.bootstrap, it) for it in (name, own.unique("b"), topic)
    )
    split.produce(topic, b"before the beginning", timestamp=hours_ago)
    split.flush()
    for producer in (split, behind):
        producer.produce(topic, b"1")
        producer.flush()
    own.produce(topic, keyed("second", 1))
    third.produce(topic, b"1")
    third.flush()
    end_transaction(own, name, split, commit=not is_aborted)
    prove(flow)
    end_transaction(own, own.unique("c"), behind, commit=True)
    prove(flow, "run-2")
    rows = [row for row in ledger_rows(flow) if row["topic"] == topic]
    assert [(row["start"], row["end"]) for row in rows] == [(1, 2), (2, 4)]

    with broker_down(own.primary, orderly=True):
        # All records stay, and both markers are lost.
        cut_log(own.primary, topic, 5)
        damage(own.primary, damaged, number=0, at=-1)
    for it in (damaged, topic):
        own.produce(it, keyed("third", 1))
    begin_transaction(own.primary.bootstrap, own.unique("d"), topic, Record(value=b"1"))
    own.produce(topic, keyed("again", 1), transactional_id=name, abort=not is_aborted)
    behind.begin_transaction()
    behind.produce(topic, b"2")
    behind.flush()
    behind.commit_transaction()
    end_transaction(own, own.unique("e"), third, commit=True)

    assert failures(copy_now(flow, "run-3")) == []
    with pytest.raises(VerificationFailed, match="lost or replaced 6 offsets before 6"):
        verified(flow, "run-3")


def end_transaction(own: Pair, transactional_id: str, producer: Producer, *, commit: bool) -> None:
    """End it; returns when its marker is in the log."""
    (producer.commit_transaction if commit else producer.abort_transaction)()
    begin_transaction(own.primary.bootstrap, transactional_id)


@pytest.mark.long
def test_a_range_that_was_left_as_it_is_excuses_no_other_record_of_its_partition(own: Pair) -> None:
    target = own.backup
    flow = proved(own, "left", more=20)
    verified(flow, "run-2")
    (topic,) = flow.topics
    there = remote(flow, topic)
    batches = read_batches(target, there)
    with broker_down(target, orderly=True):
        write_log(target, there, [it for it in batches if base_offset(it) >= 30])
    with pytest.raises(VerificationFailed, match=r"30 records copied, 0 on the target"):
        Run(flow, "run-2").verify(NO_SPARK, everything=True)
    Findings(flow).leave([f"{topic}-0:0"], "the disk")

    own.produce(topic, keyed("third", 20))
    plan = plan_now(flow, "run-3")
    cut_all(target, {there: (31, 25)}, own.unique("other"))

    assert failures(copy_planned(flow, plan)) == []
    gone = f"the last record of {there}-0 before this range is gone, or hidden from consumers"
    with pytest.raises(VerificationFailed, match=gone):
        verified(flow, "run-3")
    # The operator who leaves that range too has looked at it.
    with pytest.raises(VerificationFailed, match=r"20 records copied, 0 on the target"):
        Run(flow, "run-3").verify(NO_SPARK, everything=True)
    Findings(flow).leave([f"{topic}-0:30"], "the disk")
    verified(flow, "run-3")


def test_what_the_end_of_a_log_has_lost_is_not_appended(own: Pair) -> None:
    """It would get its old offsets, of which the ledger would have two ranges for ever."""
    flow = proved(own, "tail", more=20)
    verified(flow, "run-2")
    (topic,) = flow.topics
    with broker_down(own.backup, orderly=True):
        cut_log(own.backup, remote(flow, topic), 31)

    proposal = AppendMissing(flow).proposal(TopicPartition(topic, 0), 35)

    assert "has lost the end of its log" in proposal.refusal


@pytest.mark.long
def test_no_cleaner_explains_records_in_whose_place_it_has_left_a_part_of_anothers(
    own: Pair,
) -> None:
    target = own.backup
    flow = proved(own, "part", cleanup_policy="compact", more=20)
    there = remote(flow, flow.topics[0])
    before = [it for it in read_batches(target, there) if base_offset(it) < 31]
    with broker_down(target):
        left = a_batch(10, at=31, deltas=range(0, 20, 2), last_offset_delta=20)
        write_log(target, there, [*before, left])

    with pytest.raises(VerificationFailed, match=r"20 records copied, 0 on the target"):
        verified(flow, "run-2")


def cut_all(
    target: KafkaCluster, logs: Mapping[str, tuple[int, int]], transactional_id: str
) -> None:
    """Leave of each topic's log what lies before an offset, and let it grow again by so many records that count not."""
    with broker_down(target):
        for topic, (last, _) in logs.items():
            cut_log(target, topic, last)
    for topic, (_, others) in logs.items():
        if others:
            given_up = keyed("given-up", others)
            produce(
                *(target.bootstrap, topic, given_up), transactional_id=transactional_id, abort=True
            )


@pytest.mark.long
def test_what_was_read_back_does_not_count_where_its_log_was_cut_since(own: Pair) -> None:
    """The step ``mirror`` had read all of it; where the log has grown again, its end tells nothing of that."""
    target = own.backup
    logs = []
    # Records, the last marker, and that one with others in its place.
    for cut in ((31, 60), (51, 0), (51, 60)):
        flow = proved(own, "since", more=20)
        read_back(NO_SPARK, Run(flow, "run-2")._context, None)
        logs.append((flow, cut))
    cut_all(target, {remote(it, it.topics[0]): cut for it, cut in logs}, own.unique("other"))

    for flow, _ in logs:
        with pytest.raises(VerificationFailed, match=r"20 records copied, 0 on the target"):
            verified(flow, "run-2")


@pytest.mark.long
def test_a_log_that_is_cut_after_the_plan_is_named_though_nothing_is_new(own: Pair) -> None:
    target, logs = own.backup, []
    for offsets, last, others, said in (
        ("translated", 30, 0, "the marker of its last transaction is gone"),
        ("translated", 30, 60, "the last record that the ledger has there is gone, or hidden"),
        ("translated", 0, 0, "ends at 0, before 30, up to which"),
        ("translated", 0, 60, "the last record that the ledger has there is gone, or hidden"),
        ("preserved", 0, 0, "ends at 0, before 30, up to which"),
    ):
        options = {"offsets": offsets}
        flow = proved(own, "idle", options)
        assert failures(copy_now(flow, "run-2")) == []
        logs.append((flow, (last, others), said))
    cut_all(target, {remote(it, it.topics[0]): cut for it, cut, _ in logs}, own.unique("other"))

    for flow, _, said in logs:
        with pytest.raises(VerificationFailed, match=said):
            verified(flow, "run-2")


@pytest.mark.long
def test_a_log_that_has_grown_and_does_not_show_its_end_is_not_proved(own: Pair) -> None:
    """What its broker gives nothing of may be another producer's; here the file of the log's end was emptied."""
    target = own.backup
    flow = proved(own, "end")
    there = remote(flow, flow.topics[0])
    batches = read_batches(target, there)
    with broker_down(target):
        write_log(target, there, [*batches, a_batch(4, at=31)])
        (target.log_folder(there, 0) / f"{40:020}.log").touch()
    assert failures(copy_now(flow, "run-2")) == []

    with pytest.raises(VerificationFailed, match="it was not read on the target"):
        verified(flow, "run-2")


@pytest.mark.long
def test_no_group_is_ready_for_a_log_whose_last_marker_is_lost(own: Pair) -> None:
    """Its consumers would wait for ever: with the source gone, no run ends the transaction again."""
    source, target = own.primary, own.backup
    flow = proved(own, "ready")
    topic = flow.topics[0]
    commit_alone(source, topic, {TopicPartition(topic, 0): 7})
    (group,) = failover(flow, dry_run=True).groups
    assert group.state == "ready", group.reason
    with broker_down(target):
        cut_log(target, remote(flow, topic), 30)

    (group,) = failover(flow).groups

    assert group.state == "stuck"
    assert f"an open transaction in {remote(flow, topic)}-0 on backup hides" in group.reason


@pytest.mark.long
def test_a_log_that_has_grown_back_to_its_former_end_is_missed_though_nothing_is_new(
    own: Pair,
) -> None:
    """By others, or by an attempt of the flow's own that was given up: where the log ends tells nothing then."""
    target = own.backup
    kinds = ("plain", "transaction", "given-up", "longer", "whole")
    topics = {own.topic(kind, keyed("first", 30)): kind for kind in kinds}
    flow = own.flow([*topics], writers=1)
    there = {kind: remote(flow, topic) for topic, kind in topics.items()}
    prove(flow)
    for topic in topics:
        own.produce(topic, keyed("second", 20))
    prove(flow, "run-2")
    ends = {kind: base_offset(read_batches(target, name)[-1]) for kind, name in there.items()}
    assert set(ends.values()) == {51}
    with broker_down(target):
        for kind in kinds[:-1]:
            cut_log(target, there[kind], 31)
    produce(target.bootstrap, there["plain"], keyed("foreign", 21))
    produce(
        target.bootstrap,
        there["transaction"],
        keyed("foreign", 20),
        transactional_id=own.unique("other"),
    )
    for kind, size in (("given-up", 20), ("longer", 25)):
        produce(
            target.bootstrap,
            there[kind],
            keyed("again", size),
            transactional_id=transactional_id(flow.name, 0),
            abort=True,
        )

    refused = plan_now(flow, "run-3").remarks.refused
    assert sorted(topics[it.topic] for it in refused) == sorted(kinds[:-1])
    for refusal in refused:
        assert "where the ledger has the last one that was copied, before offset 51" in str(refusal)
    whole = tuple(topic for topic, kind in topics.items() if kind == "whole")
    prove(flow.model_copy(update={"topics": whole}), "run-3")

    # What lies in the place of copied records is not the flow's to delete, once the source's topics are gone.
    for topic in topics:
        delete_topic(own.primary, topic)
    options = {"on_source_topic_deleted": "retire", "retire_after_ms": 0, "removals_max": 1.0}
    plan = plan_now(flow.model_copy(update=options), "run-4")
    assert [it.topic for it in plan.topics.retirements] == [*whole]
    stays = {topics[note.topic]: note.message for note in plan.remarks.notes}
    assert stays.keys() == {*kinds} - {"whole"}
    assert all("has lost records that were copied" in message for message in stays.values())


@pytest.mark.long
def test_what_a_target_has_lost_or_keeps_without_its_ledger_is_refused_by_name_and_never_doubled(
    own: Pair,
) -> None:
    """Truncated logs, one of them compacted; and a ledger and positions that have lost their newest records."""
    source, target = own.primary, own.backup
    flows = {
        name: proved(own, name, options, **configs)
        for name, options, configs in (
            ("cut", {}, {}),
            ("both-ways", {"on_returned_records": "leave-out"}, {}),
            ("compacted", {}, {"cleanup_policy": "compact"}),
            ("refilled", {"on_position_moved": "ledger"}, {}),
            ("refilled-quiet", {"on_position_moved": "ledger", "on_foreign_records": "adopt"}, {}),
            ("forgotten", {}, {}),
            ("fewer-writers", {"writers": 1}, {}),
        )
    }
    topics = {name: flow.topics[0] for name, flow in flows.items()}
    spared = ("forgotten", "fewer-writers")
    ledgers = [(ledger_topic(flows[it].source.alias), 0) for it in spared]
    logs = [(remote(flows[it], topics[it]), 0) for it in flows if it not in spared]
    logs += [*ledgers, (OFFSETS, 0)]
    kept = {log: read_batches(target, *log) for log in logs}
    for name, flow in flows.items():
        produce(source.bootstrap, topics[name], keyed("second", 20))
        # By then the ledger does not know either that there was a writer of that number.
        run_2 = with_another_writer(flow) if name == "fewer-writers" else flow
        assert failures(copy_now(run_2, "run-2")) == []
    for name in ("cut", "compacted", "refilled", "refilled-quiet"):
        commit_alone(source, topics[name], {TopicPartition(topics[name], 0): 45})
    before = {
        name: read_all(target.bootstrap, remote(flows[name], topics[name]))[0] for name in flows
    }

    with broker_down(target):
        for log, batches in kept.items():
            write_log(target, log[0], batches, log[1])
    # Another producer's batch lies where the ledger's last records were, and beyond.
    refilled = ("refilled", "refilled-quiet")
    for name in refilled:
        produce(target.bootstrap, remote(flows[name], topics[name]), keyed("foreign", 30))
    for name in flows.keys() - {"refilled-quiet"}:
        produce(source.bootstrap, topics[name], keyed("third", 40))

    for name, reason in (
        ("cut", r"ends at 31, before 51, up to which the ledger has records"),
        ("both-ways", r"ends at 31, before 51, up to which the ledger has records"),
        ("compacted", r"ends at 31, before 51, up to which the ledger has records"),
        *(
            (it, r"records of this flow's own writers from offset 31 on that the ledger does")
            for it in spared
        ),
        *(
            (it, r"where the ledger has the last one that was copied, before offset 51")
            for it in refilled
        ),
    ):
        flow, remote_topic = flows[name], remote(flows[name], topics[name])
        plan = plan_now(flow, "run-3")
        (refused,) = plan.remarks.refused
        assert reason.replace("\\", "") in str(refused), name
        assert f"ferry repair --topic {remote_topic}" in refused.advice
        assert failures(copy_planned(flow, plan)) == []
        have = read_all(target.bootstrap, remote_topic)[0]
        if name not in refilled:
            assert have == (before[name] if name in spared else before[name][:30]), name
    # As an earlier run has left it: a consumer finds the offset, and never gets what is lost after it.
    commit_alone(target, topics["cut"], {TopicPartition(remote(flows["cut"], topics["cut"]), 0): 5})
    for name in ("cut", "compacted", *refilled):
        (group,) = failover(flows[name], dry_run=True).groups
        assert (name, group.state) == (name, "stuck")
        assert "has lost records that were copied" in str(group)
        asked = TopicPartition(topics[name], 0)
        (translated,) = Translator(flows[name]).offsets([(asked, 45)])
        assert "has lost records that were copied" in translated.reason
        (sought,) = where(flows[name], asked, 45)
        assert sought.state == ("cleaned or lost" if name == "compacted" else "lost")
        assert where(flows[name], asked, 5)[0].state == "there"


@pytest.mark.long
def test_a_gap_in_the_log_of_a_source_that_does_not_compact_is_named(own: Pair) -> None:
    """As a lost segment leaves it: nothing tells its offsets from those of compacted records."""
    source = own.primary
    topics = {policy: own.unique(policy) for policy in ("delete", "compact")}
    for policy, topic in topics.items():
        create_topic(source.bootstrap, topic, cleanup_policy=policy)
        for part in ("first", "second", "third"):
            produce(source.bootstrap, topic, keyed(part, 10))
    kept = {topic: read_batches(source, topic) for topic in topics.values()}
    with broker_down(source):
        for topic, batches in kept.items():
            assert len(batches) == 3
            write_log(source, topic, [batches[0], batches[2]])

    flow = own.flow(topics.values())
    verdict = prove(flow, "run-1").proof.verdict
    assert verdict
    assert verdict.warnings == (
        f"{topics['delete']}-0 [0, 30): 10 offsets without a record between others of the source's log, and by "
        "the run's plan the source does not compact the topic (expected: compacted offsets lie where the source "
        "compacts)",
    )


def test_missing_records_after_the_end_of_a_compacted_log_are_not_taken_for_cleaned(
    own: Pair,
) -> None:
    target, flow = own.backup, proved(own, "compacted", cleanup_policy="compact")
    own.produce(flow.topics[0], keyed("second", 20))
    remote_topic = remote(flow, flow.topics[0])
    kept = read_batches(target, remote_topic)
    assert failures(copy_now(flow, "run-2")) == []
    with broker_down(target):
        write_log(target, remote_topic, kept)
    with pytest.raises(VerificationFailed, match=r"20 records copied, 0 on the target"):
        verified(flow, "run-2")


@pytest.mark.long
def test_records_missing_within_a_compacted_log_are_counted_in_the_headline(own: Pair) -> None:
    """A cleaner and a lost segment leave the same; here no key has a newer record."""
    target, flow = own.backup, proved(own, "holed", more=20, cleanup_policy="compact")
    remote_topic = remote(flow, flow.topics[0])
    batches = read_batches(target, remote_topic)
    with broker_down(target):
        write_log(target, remote_topic, [it for it in batches if base_offset(it) != 31])

    report = verified(flow, "run-2")

    assert report.found.startswith("0 records in 1 range (20 more are not there any more, which")


def test_a_foreign_record_between_two_runs_is_found_whether_or_not_there_is_anything_new(
    pair: Pair,
) -> None:
    topic = pair.topic("seam", named("first", 5))
    flow = pair.flow([topic])
    prove(flow)
    prove(flow, "run-2")

    produce(pair.backup.bootstrap, remote(flow, topic), named("foreign", 1))
    assert failures(copy_now(flow, "run-3")) == []
    with pytest.raises(VerificationFailed, match="1 record on the target after the ledger's last"):
        verified(flow, "run-3")
    pair.produce(topic, named("second", 5))
    assert failures(copy_now(flow, "run-4")) == []
    with pytest.raises(VerificationFailed, match="1 record of another producer"):
        verified(flow, "run-4")
    assert values(pair.backup, remote(flow, topic)) == [
        *told("first", 5),
        *told("foreign", 1),
        *told("second", 5),
    ]


def test_a_run_does_not_go_on_by_a_ledger_that_has_lost_what_it_has_read(own: Pair) -> None:
    """Its plan rests on what is gone; the next one compares the copies with what is left."""
    topic = own.topic("mid-run", named("first", 5))
    flow = own.flow([topic])
    prove(flow)
    own.produce(topic, named("second", 5))
    plan = plan_now(flow, "run-2")
    with broker_down(own.backup):
        cut_log(own.backup, ledger_topic(flow.source.alias), plan.ledger_end - 1)
    run = Run(flow, "run-2")
    for step in (lambda: run.verify(NO_SPARK), run.sync_groups, lambda: run.verify(NO_SPARK)):
        with pytest.raises(LedgerError, match="no longer has all that this run has read of it"):
            step()
    assert failures(copy_now(flow, "run-3")) == []
    assert verified(flow, "run-3").proof.verdict.success
    assert values(own.backup, remote(flow, topic)) == [*told("first", 5), *told("second", 5)]


@pytest.mark.parametrize("is_own", [True, False])
def test_what_the_flow_itself_has_written_and_its_ledger_lacks_is_not_blamed_on_another_producer(
    is_own: bool, pair: Pair
) -> None:
    topic = pair.unique("own")
    flow = pair.flow([topic])
    create_topic(pair.primary.bootstrap, topic)
    for run in ("run-1", "run-2"):
        pair.produce(topic, keyed(run, 3))
        plan = plan_now(flow, run)
        if run == "run-2":
            # As if its ledger had lost the range after the plan had looked, or a person had set it aside.
            target = TopicPartition(remote(flow, topic), 0)
            writer = transactional_id(flow.name, writers_of(flow).of(target))
            produce(
                *(pair.backup.bootstrap, target.topic, keyed("lost", 2)),
                transactional_id=writer if is_own else topic,
            )
        assert failures(copy_planned(flow, plan)) == []
        if run == "run-1":
            verified(flow, run)

    with pytest.raises(VerificationFailed) as failed:
        verified(flow, "run-2")

    whose = (
        "this flow's own writers that its ledger does not have" if is_own else "another producer"
    )
    assert f"2 records of {whose}" in str(failed.value)


@pytest.mark.parametrize(("by_hand", "offsets"), [(False, "translated"), (True, "preserved")])
def test_a_foreign_record_in_a_partition_that_the_source_does_not_have_is_found(
    by_hand: bool, offsets: str, pair: Pair
) -> None:
    topic = pair.topic("wider", named("first", 5))
    flow = pair.flow([topic], offsets=offsets)
    if by_hand:
        create_topic(pair.backup.bootstrap, remote(flow, topic), partitions=3)
    prove(flow)
    if not by_hand:
        add_partitions(pair.backup, remote(flow, topic), 3)
    prove(flow, "run-2")

    produce(pair.backup.bootstrap, remote(flow, topic), [Record(value=b"foreign", partition=2)])
    assert failures(copy_now(flow, "run-3")) == []
    with pytest.raises(VerificationFailed, match="1 record on the target after the ledger's last"):
        verified(flow, "run-3")


def test_a_foreign_record_before_the_first_one_copied_to_a_partition_is_found_in_a_topic_made_by_hand(
    pair: Pair,
) -> None:
    """The ledger has nothing of such a partition, except that the topic was empty when the flow marked it."""
    topic = pair.topic("late", named("first", 5))
    flow = pair.flow([topic])
    create_topic(pair.backup.bootstrap, remote(flow, topic), partitions=2)
    prove(flow)

    produce(pair.backup.bootstrap, remote(flow, topic), [Record(value=b"foreign", partition=1)])
    add_partitions(pair.primary, topic, 2)
    pair.produce(topic, [Record(value=b"late", partition=1)])
    assert failures(copy_now(flow, "run-2")) == []
    with pytest.raises(VerificationFailed, match="1 record of another producer"):
        verified(flow, "run-2")


def test_records_that_a_flow_may_go_on_after_are_none_of_its_faults(pair: Pair) -> None:
    """``on.foreign.records: adopt`` was set for one run: its mark does not say that the topic was empty."""
    topic = pair.topic("shared", named("first", 5))
    flow = pair.flow([topic], on_foreign_records="adopt")
    create_topic(pair.backup.bootstrap, remote(flow, topic), partitions=2)
    produce(pair.backup.bootstrap, remote(flow, topic), [Record(value=b"theirs", partition=1)])
    prove(flow)

    flow = pair.flow([topic])
    prove(flow, "run-2")
