"""The target's logs are compared with the ledger in every run: what is gone, and what only the log has."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.copy.target.fencing import transactional_id
from kafka_ferry.errors import FerryError, VerificationFailed
from kafka_ferry.ledger import ledger_topic
from kafka_ferry.model import RunOptions, TopicPartition
from kafka_ferry.plan.schedule.sharding import writers_of
from kafka_ferry.runs import Run
from kafka_ferry.runs.failover.failover import failover
from kafka_ferry.runs.sync_groups.translate import Translator
from kafka_ferry.runs.takeover.takeover import Takeover
from kafka_ferry.runs.verify.verify import read_back
from kafka_ferry.runs.where import where
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.own_brokers import own_pair
from tests.support.brokers.segments import (
    base_offset,
    broker_down,
    cut_log,
    read_batches,
    write_log,
)
from tests.support.records.batches import a_batch
from tests.support.records.builders import Record, add_partitions, create_topic, produce, read_all
from tests.support.records.groups import commit_alone
from tests.support.records.histories import named, told, values
from tests.support.records.mirror_topics import positions_of_mirrormaker_2
from tests.support.runs.flows import copy_now, copy_planned, failures, make_flow, plan_now, remote
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.proof import NO_SPARK, verified

pytestmark = pytest.mark.usefixtures("without_spark")
OFFSETS = "__consumer_offsets"
NOTHING: Mapping[str, object] = {}
FEW_OFFSETS = {"offsets.topic.num.partitions": "1"}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Brokers whose logs are cut."""
    with own_pair(tmp_path_factory.mktemp("cut"), FEW_OFFSETS) as pair:
        yield pair


def keyed(part: str, count: int) -> list[Record]:
    return [Record(b"%d-%b" % (i, part.encode()), b"%d" % i) for i in range(count)]


def flow_with_run(
    folder: Path,
    own: tuple[KafkaCluster, KafkaCluster],
    topic: str,
    options: Mapping[str, object] = NOTHING,
    **configs: str,
) -> Flow:
    """A flow of one topic whose first run is proved."""
    folder.mkdir()
    source, target = own
    create_topic(source.bootstrap, topic, **configs)
    produce(source.bootstrap, topic, keyed("first", 30))
    flow = make_flow(folder, source, target, [topic], groups=[topic], **options)
    assert failures(copy_now(flow)) == []
    verified(flow, "run-1")
    return flow


def taken_over(folder: Path, own: tuple[KafkaCluster, KafkaCluster], topic: str) -> Flow:
    """A flow that has taken over the 6 records, in two batches, of a topic that it has copied nothing of."""
    source, target = own
    folder.mkdir()
    flow = make_flow(folder, source, target, [topic])
    there, now = remote(flow, topic), time.time_ns() // 1_000_000
    for broker, name in ((source, topic), (target, there)):
        create_topic(broker.bootstrap, name)
        for first in range(0, 6, 3):
            three = [Record(value=b"%d" % (first + i), timestamp=now) for i in range(3)]
            produce(broker.bootstrap, name, three)
    positions_of_mirrormaker_2(target, flow, {topic: 6})
    (taken,) = Takeover(flow, settle_s=0).from_mirrormaker2()
    assert taken.state == "taken over", taken.reason
    return flow


def with_another_writer(flow: Flow) -> Flow:
    """``flow``, which has one writer, with so many that its topic belongs to another one."""
    target = TopicPartition(remote(flow, flow.topics[0]), 0)
    more = (flow.model_copy(update={"writers": number}) for number in count(2))
    return next(it for it in more if writers_of(it).of(target) > 0)


@pytest.mark.long
def test_a_proved_transaction_whose_marker_was_lost_is_ended_again_though_nothing_is_new(
    tmp_path: Path, own: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    """Until then, consumers of the target see none of its records, although its log has all of them."""
    target = own[1]
    flow = flow_with_run(tmp_path / unique("marker"), own, unique("marker"))
    there = remote(flow, flow.topics[0])
    *records, _ = read_batches(target, there)
    with broker_down(target):
        write_log(target, there, records)

    assert failures(copy_now(flow, "run-2")) == []
    verified(flow, "run-2")

    assert len(read_all(target.bootstrap, there)[0]) == 30


@pytest.mark.long
def test_a_transaction_that_is_over_and_open_in_the_ledger_alone_is_ended_by_the_next_plan(
    tmp_path: Path, own: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    """No plan could read the ledger otherwise, and no writer would be started that ends it."""
    source, target = own
    flow = flow_with_run(tmp_path / unique("hidden"), own, unique("hidden"))
    produce(source.bootstrap, flow.topics[0], keyed("second", 5))
    assert failures(copy_now(flow, "run-2")) == []
    ledger = ledger_topic(flow.source.alias)
    *records, _ = read_batches(target, ledger)
    with broker_down(target):
        write_log(target, ledger, records)

    with pytest.raises(FerryError, match="hides the newest records"):
        Run(flow, "looking").plan(RunOptions(dry_run=True))
    assert failures(copy_now(flow, "run-3")) == []
    verified(flow, "run-3")

    assert len(read_all(target.bootstrap, remote(flow, flow.topics[0]))[0]) == 35


def test_what_was_taken_over_and_is_gone_is_missed_where_others_have_written_in_its_place(
    tmp_path: Path, own: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    target, topic = own[1], unique("taken")
    flow = taken_over(tmp_path / topic, own, topic)
    there = remote(flow, topic)
    assert isinstance(target, Broker)
    target.stop()
    target.start().wait_ready()
    # A new leader alone is none of the copy's faults.
    assert plan_now(flow).remarks.refused == ()
    verified(flow, "run-1")

    with broker_down(target, kill=False):
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
    is_cut: bool, tmp_path: Path, own: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    source, target = own
    flow = taken_over(tmp_path / unique("taken"), own, unique("taken"))
    there = remote(flow, flow.topics[0])
    produce(source.bootstrap, flow.topics[0], keyed("new", 1))
    plan = plan_now(flow)
    with broker_down(target, kill=False):
        if is_cut:
            cut_log(target, there, 3)
    # An attempt that was given up has taken the offsets of what is gone.
    given_up = keyed("again", 3)
    produce(target.bootstrap, there, given_up, transactional_id=unique("given-up"), abort=True)

    assert failures(copy_planned(flow, plan)) == []
    if not is_cut:
        verified(flow, plan.run)
        return
    gone = f"the last record of {there}-0 before this range is gone, or hidden from consumers"
    with pytest.raises(VerificationFailed, match=gone):
        verified(flow, plan.run)


@pytest.mark.long
def test_a_proved_record_in_whose_place_a_marker_lies_is_missed_by_the_next_run_with_something_new(
    tmp_path: Path, own: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    """Where the log ends tells nothing: it is cut back, and markers take the offsets, while the run begins."""
    source, target = own
    flow = flow_with_run(tmp_path / unique("marker"), own, unique("marker"))
    produce(source.bootstrap, flow.topics[0], keyed("second", 1))
    assert failures(copy_now(flow, "run-2")) == []
    verified(flow, "run-2")
    produce(source.bootstrap, flow.topics[0], keyed("third", 40))
    plan = plan_now(flow, "run-3")
    there = remote(flow, flow.topics[0])
    *before, record, marker = read_batches(target, there)
    with broker_down(target):
        write_log(target, there, [*before, record[:8] + marker[8:], marker])

    assert failures(copy_planned(flow, plan)) == []
    gone = f"the last record of {there}-0 before this range is gone, or hidden from consumers"
    with pytest.raises(VerificationFailed, match=gone):
        verified(flow, "run-3")


@pytest.mark.long
def test_a_last_record_that_another_client_has_replaced_after_the_plan_is_missed(
    tmp_path: Path, own: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    """Its batch ends just where the flow's did; the next run looks at its own last record, and never there again."""
    source, target = own
    flow = flow_with_run(tmp_path / unique("replaced"), own, unique("replaced"))
    produce(source.bootstrap, flow.topics[0], keyed("second", 20))
    plan = plan_now(flow, "run-2")
    there = remote(flow, flow.topics[0])
    with broker_down(target):
        write_log(target, there, [a_batch(30)])

    assert failures(copy_planned(flow, plan)) == []
    gone = f"the last record of {there}-0 before this range is gone, or hidden from consumers"
    with pytest.raises(VerificationFailed, match=gone):
        verified(flow, "run-2")


@pytest.mark.long
def test_no_cleaner_explains_records_in_whose_place_an_aborted_batch_lies_that_begins_before_them(
    tmp_path: Path, own: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    """An attempt that was given up lay before the copy; the log was cut below both, and has grown past them again."""
    source, target = own
    flow = flow_with_run(tmp_path / unique("long"), own, unique("long"), cleanup_policy="compact")
    topic, there = flow.topics[0], remote(flow, flow.topics[0])

    def give_up(records: int) -> None:
        given_up = keyed("given-up", records)
        produce(target.bootstrap, there, given_up, transactional_id=unique("other"), abort=True)

    give_up(10)
    produce(source.bootstrap, topic, keyed("second", 20))
    assert failures(copy_now(flow, "run-2")) == []
    with broker_down(target):
        cut_log(target, there, 31)
    give_up(60)

    with pytest.raises(VerificationFailed, match=r"20 records copied, 0 on the target"):
        verified(flow, "run-2")


@pytest.mark.long
def test_no_cleaner_explains_records_in_whose_place_it_has_left_a_part_of_anothers(
    tmp_path: Path, own: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    source, target = own
    flow = flow_with_run(tmp_path / unique("part"), own, unique("part"), cleanup_policy="compact")
    produce(source.bootstrap, flow.topics[0], keyed("second", 20))
    assert failures(copy_now(flow, "run-2")) == []
    there = remote(flow, flow.topics[0])
    before = [it for it in read_batches(target, there) if base_offset(it) < 31]
    with broker_down(target):
        left = a_batch(10, at=31, deltas=range(0, 20, 2), last_offset_delta=20)
        write_log(target, there, [*before, left])

    with pytest.raises(VerificationFailed, match=r"20 records copied, 0 on the target"):
        verified(flow, "run-2")


@pytest.mark.long
@pytest.mark.parametrize(
    ("last", "others"), [(31, 60), (51, 0), (51, 60)], ids=["records", "marker", "marker-regrown"]
)
def test_what_was_read_back_does_not_count_where_its_log_was_cut_since(
    tmp_path: Path,
    own: tuple[KafkaCluster, KafkaCluster],
    unique: Unique,
    last: int,
    others: int,
) -> None:
    """The step ``mirror`` had read all of it; where the log has grown again, its end tells nothing of that."""
    source, target = own
    flow = flow_with_run(tmp_path / unique("since"), own, unique("since"))
    produce(source.bootstrap, flow.topics[0], keyed("second", 20))
    assert failures(copy_now(flow, "run-2")) == []
    read_back(NO_SPARK, Run(flow, "run-2")._context, None)
    there = remote(flow, flow.topics[0])
    with broker_down(target):
        cut_log(target, there, last)
    if others:
        given_up = keyed("given-up", others)
        produce(target.bootstrap, there, given_up, transactional_id=unique("other"), abort=True)

    with pytest.raises(VerificationFailed, match=r"20 records copied, 0 on the target"):
        verified(flow, "run-2")


@pytest.mark.long
@pytest.mark.parametrize(
    ("offsets", "last", "others", "said"),
    [
        ("translated", 30, 0, "the marker of its last transaction is gone"),
        ("translated", 30, 60, "the last record that the ledger has there is gone, or hidden"),
        ("translated", 0, 0, "ends at 0, before 30, up to which"),
        ("translated", 0, 60, "the last record that the ledger has there is gone, or hidden"),
        ("preserved", 0, 0, "ends at 0, before 30, up to which"),
    ],
)
def test_a_log_that_is_cut_after_the_plan_is_named_though_nothing_is_new(
    tmp_path: Path,
    own: tuple[KafkaCluster, KafkaCluster],
    unique: Unique,
    offsets: str,
    last: int,
    others: int,
    said: str,
) -> None:
    target = own[1]
    options = {"offsets": offsets}
    flow = flow_with_run(tmp_path / unique("idle"), own, unique("idle"), options)
    assert failures(copy_now(flow, "run-2")) == []
    with broker_down(target):
        there = remote(flow, flow.topics[0])
        cut_log(target, there, last)
    if others:
        given_up = keyed("given-up", others)
        produce(target.bootstrap, there, given_up, transactional_id=unique("other"), abort=True)

    with pytest.raises(VerificationFailed, match=said):
        verified(flow, "run-2")


@pytest.mark.long
def test_a_log_that_has_grown_and_does_not_show_its_end_is_not_proved(
    tmp_path: Path, own: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    """What its broker gives nothing of may be another producer's; here the file of the log's end was emptied."""
    target = own[1]
    flow = flow_with_run(tmp_path / unique("end"), own, unique("end"))
    there = remote(flow, flow.topics[0])
    batches = read_batches(target, there)
    with broker_down(target):
        write_log(target, there, [*batches, a_batch(4, at=31)])
        (target.log_folder(there, 0) / f"{40:020}.log").touch()
    assert failures(copy_now(flow, "run-2")) == []

    with pytest.raises(VerificationFailed, match="it was not read on the target"):
        verified(flow, "run-2")


@pytest.mark.long
def test_no_group_is_ready_for_a_log_whose_last_marker_is_lost(
    tmp_path: Path, own: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    """Its consumers would wait for ever: with the source gone, no run ends the transaction again."""
    source, target = own
    flow = flow_with_run(tmp_path / unique("ready"), own, unique("ready"))
    topic = flow.topics[0]
    commit_alone(source, topic, {TopicPartition(topic, 0): 7})
    (group,) = failover(flow, dry_run=True).groups
    assert group.state == "ready", group.reason
    with broker_down(target):
        cut_log(target, remote(flow, topic), 30)

    (group,) = failover(flow).groups

    assert group.state == "stuck"
    assert f"an open transaction in {remote(flow, topic)}-0 on backup hides" in group.reason


def test_a_log_that_has_grown_back_to_its_former_end_is_missed_though_nothing_is_new(
    tmp_path: Path, own: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    """By others, or by an attempt of the flow's own that was given up: where the log ends tells nothing then."""
    source, target = own
    kinds = ("plain", "transaction", "given-up", "longer", "whole")
    flows = {it: flow_with_run(tmp_path / unique(it), own, unique(it)) for it in kinds}
    there = {kind: remote(flow, flow.topics[0]) for kind, flow in flows.items()}
    for flow in flows.values():
        produce(source.bootstrap, flow.topics[0], keyed("second", 20))
        assert failures(copy_now(flow, "run-2")) == []
        verified(flow, "run-2")
    kept = {kind: read_batches(target, name) for kind, name in there.items()}
    with broker_down(target):
        for kind in kinds[:-1]:
            cut_log(target, there[kind], 31)
    produce(target.bootstrap, there["plain"], keyed("foreign", 21))
    produce(
        target.bootstrap,
        there["transaction"],
        keyed("foreign", 20),
        transactional_id=unique("other"),
    )
    for kind, size in (("given-up", 20), ("longer", 25)):
        produce(
            target.bootstrap,
            there[kind],
            keyed("again", size),
            transactional_id=transactional_id(flows[kind].name, 0),
            abort=True,
        )
    ends = {kind: base_offset(batches[-1]) for kind, batches in kept.items()}
    assert set(ends.values()) == {51}

    for kind in kinds[:-1]:
        (refused,) = plan_now(flows[kind], "run-3").remarks.refused
        assert "where the ledger has the last one that was copied, before offset 51" in str(refused)
    assert failures(copy_now(flows["whole"], "run-3")) == []
    verified(flows["whole"], "run-3")


@pytest.mark.long
def test_what_a_target_has_lost_or_keeps_without_its_ledger_is_refused_by_name_and_never_doubled(
    tmp_path: Path, own: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    """Truncated logs, one of them compacted; and a ledger and positions that have lost their newest records."""
    source, target = own
    flows = {
        name: flow_with_run(tmp_path / unique(name), own, unique(name), options, **configs)
        for name, options, configs in (
            ("cut", {}, {}),
            ("both-ways", {"on_returned_records": "leave-out"}, {}),
            ("compacted", {}, {"cleanup_policy": "compact"}),
            ("refilled", {"on_position_moved": "ledger"}, {}),
            (
                "refilled-quiet",
                {"on_position_moved": "ledger", "on_foreign_records": "adopt"},
                {},
            ),
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
def test_a_gap_in_the_log_of_a_source_that_does_not_compact_is_named(
    tmp_path: Path, own: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    """As a lost segment leaves it: nothing tells its offsets from those of compacted records."""
    source, target = own
    topics = {policy: unique(policy) for policy in ("delete", "compact")}
    for policy, topic in topics.items():
        create_topic(source.bootstrap, topic, cleanup_policy=policy)
        for part in ("first", "second", "third"):
            produce(source.bootstrap, topic, keyed(part, 10))
    kept = {topic: read_batches(source, topic) for topic in topics.values()}
    with broker_down(source):
        for topic, batches in kept.items():
            assert len(batches) == 3
            write_log(source, topic, [batches[0], batches[2]])

    flow = make_flow(tmp_path, source, target, [*topics.values()])
    assert failures(copy_now(flow)) == []
    verdict = verified(flow, "run-1").proof.verdict
    assert verdict
    assert verdict.warnings == (
        f"{topics['delete']}-0 [0, 30): 10 offsets without a record between others of the source's log, and by "
        "the run's plan the source does not compact the topic (expected: compacted offsets lie where the source "
        "compacts)",
    )


def test_missing_records_after_the_end_of_a_compacted_log_are_not_taken_for_cleaned(
    tmp_path: Path, own: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    source, target = own
    topic = unique("compacted")
    flow = flow_with_run(tmp_path / topic, own, topic, cleanup_policy="compact")
    produce(source.bootstrap, topic, keyed("second", 20))
    remote_topic = remote(flow, topic)
    kept = read_batches(target, remote_topic)
    assert failures(copy_now(flow, "run-2")) == []
    with broker_down(target):
        write_log(target, remote_topic, kept)
    with pytest.raises(VerificationFailed, match=r"20 records copied, 0 on the target"):
        verified(flow, "run-2")


@pytest.mark.long
def test_records_missing_within_a_compacted_log_are_counted_in_the_headline(
    tmp_path: Path, own: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    """A cleaner and a lost segment leave the same; here no key has a newer record."""
    source, target = own
    topic = unique("holed")
    flow = flow_with_run(tmp_path / topic, own, topic, cleanup_policy="compact")
    produce(source.bootstrap, topic, keyed("second", 20))
    assert failures(copy_now(flow, "run-2")) == []
    remote_topic = remote(flow, topic)
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
    assert failures(copy_now(flow, "run-1")) == []
    verified(flow, "run-1")
    assert failures(copy_now(flow, "run-2")) == []
    verified(flow, "run-2")

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


@pytest.mark.parametrize("offsets", ["translated", "preserved"])
@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.short("False-translated", "True-preserved")
def test_a_foreign_record_in_a_partition_that_the_source_does_not_have_is_found(
    by_hand: bool, offsets: str, pair: Pair
) -> None:
    topic = pair.topic("wider", named("first", 5))
    flow = pair.flow([topic], offsets=offsets)
    if by_hand:
        create_topic(pair.backup.bootstrap, remote(flow, topic), partitions=3)
    assert failures(copy_now(flow, "run-1")) == []
    verified(flow, "run-1")
    if not by_hand:
        add_partitions(pair.backup, remote(flow, topic), 3)
    assert failures(copy_now(flow, "run-2")) == []
    verified(flow, "run-2")

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
    assert failures(copy_now(flow, "run-1")) == []
    verified(flow, "run-1")

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
    assert failures(copy_now(flow, "run-1")) == []
    verified(flow, "run-1")

    flow = pair.flow([topic])
    assert failures(copy_now(flow, "run-2")) == []
    verified(flow, "run-2")
