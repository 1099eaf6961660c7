"""Backfills of date ranges between two real brokers: exactly the window's records, once, whatever happens."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_ferry.batches import Absent, Reason, left_out
from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.config.reverse_flow import reverse_flow
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.copy import Outcome, fence_writers, restore_positions
from kafka_ferry.copy.target.backfill_progress import Backfilled
from kafka_ferry.copy.target.transactional_writer import backfill_writer
from kafka_ferry.copy.target.writer_settings import WriterSettings
from kafka_ferry.errors import Fenced, VerificationFailed
from kafka_ferry.groups.outlook import GroupOutlook
from kafka_ferry.groups.routes import routes
from kafka_ferry.model import Plan, RunOptions, TopicPartition, Window
from kafka_ferry.report import RunReport
from kafka_ferry.runs import Run
from kafka_ferry.runs.audit.audit import Audit
from kafka_ferry.runs.audit.request import AuditRequest
from kafka_ferry.runs.failover.failover import failover
from kafka_ferry.runs.plan.backfill import pin_positions
from kafka_ferry.runs.publish.lag import lag
from kafka_ferry.runs.where import where
from kafka_ferry.spark.session import SparkOnDemand, no_spark, terminal_spark
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import (
    Record,
    create_topic,
    delete_before,
    delete_topic,
    produce,
    read_all,
    recreate_topic,
)
from tests.support.records.mirror_topics import commit
from tests.support.runs.command_line import ferry
from tests.support.runs.flows import copy_now, copy_planned, failures, ledger_of, plan_now, remote
from tests.support.runs.killing import Fate, Killed, fated
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.proof import recount_here, verified

DAY = 24 * 60 * 60 * 1000
NEW_YEAR = 1_767_225_600_000
"""2026-01-01T00:00Z"""
EVER = Window(0, 2**62)


def a_topic(broker: KafkaCluster, name: str, partitions: int = 1, **configs: str) -> str:
    """A topic that keeps records of any age, as its remote topic does then."""
    create_topic(broker.bootstrap, name, partitions, retention_ms="-1", **configs)
    return name


def day(number: int) -> Window:
    """The n-th day of the year, from 0 on."""
    return Window(NEW_YEAR + number * DAY, NEW_YEAR + (number + 1) * DAY)


def at(number: int, hour: float = 12) -> int:
    """A time on the n-th day."""
    return NEW_YEAR + number * DAY + round(hour * 60 * 60 * 1000)


def write(
    broker: KafkaCluster, topic: str, *records: tuple[str, int], partition: int = 0, **options: str
) -> None:
    """Write records: texts, each with its time."""
    produce(
        broker.bootstrap,
        topic,
        [
            Record(text.encode(), text.encode(), timestamp=time, partition=partition)
            for text, time in records
        ],
        **options,
    )


def texts(broker: KafkaCluster, topic: str, partition: int = 0) -> list[str]:
    """The values of a partition as a committed reader sees them."""
    found = read_all(broker.bootstrap, topic).get(partition, [])
    return [(record.value or b"").decode() for record in found]


def plan_backfill(
    flow: Flow, window: Window, run: str = "backfill", topics: tuple[str, ...] = ()
) -> Plan:
    this = Run(flow, run)
    this.plan(RunOptions(window=window, topics=topics))
    return this.sync_topics()


def copy_backfill(flow: Flow, plan: Plan) -> list[Outcome]:
    pinned = pin_positions(flow, plan.run, plan.pins)
    assert failures(pinned) == []
    return copy_planned(flow, plan)


def backfill(flow: Flow, window: Window, run: str = "backfill") -> RunReport:
    """A whole backfill, proved; its report."""
    plan = plan_backfill(flow, window, run)
    assert not plan.remarks.refused, plan.remarks.refused
    assert failures(copy_backfill(flow, plan)) == []
    ledger_of(flow)
    return proved(flow, run)


def proved(flow: Flow, run: str) -> RunReport:
    report = verified(flow, run)
    assert report.state == "verified", report
    accounted_for(flow)
    return report


def ordinary(flow: Flow, run: str) -> RunReport:
    """A whole ordinary run, proved."""
    assert failures(copy_now(flow, run)) == []
    return proved(flow, run)


def rows(flow: Flow, kind: str = "backfill") -> list[dict[str, object]]:
    return [row for row in ledger_of(flow).read().to_pylist() if row["type"] == kind]


def accounted_for(flow: Flow) -> None:
    for row in [*rows(flow), *rows(flow, "transaction")]:
        counted = row["records"] + sum(dict(row["reasons"]).values())  # type: ignore[operator, call-overload]
        assert row["end"] - row["start"] == counted  # type: ignore[operator]


def positions(flow: Flow) -> dict[str, int]:
    return {str(tp): it.offset for tp, it in read_positions(flow.target, flow.name).items()}


@pytest.fixture
def orders(primary: KafkaCluster, unique: Unique) -> str:
    return a_topic(primary, unique("orders"))


@pytest.fixture
def latest(pair: Pair, orders: str, monkeypatch: pytest.MonkeyPatch) -> Flow:
    """A flow that copies only what comes after its first run."""
    recount_here(monkeypatch)
    return pair.flow([orders], auto_offset_reset="latest")


def three_days(broker: KafkaCluster, topic: str) -> None:
    write(broker, topic, *((f"d{d}h{h}", at(d, h)) for d in range(3) for h in (0, 8, 23.99)))


def test_a_day_is_backfilled_exactly_and_once(pair: Pair, latest: Flow, orders: str) -> None:
    three_days(pair.primary, orders)
    ordinary(latest, "first")
    write(pair.primary, orders, ("new", at(9)))
    before = positions(latest)

    report = backfill(latest, day(1), "day-1")
    assert texts(pair.backup, remote(latest, orders)) == ["d1h0", "d1h8", "d1h23.99"]
    assert report.counts.records == 3
    assert positions(latest) == before

    (found,) = where(latest, TopicPartition(orders, 0), 4)
    assert (found.run, found.proof and found.proof.run) == ("day-1", "day-1")

    plan = plan_backfill(latest, day(1), "day-1-again")
    assert (plan.ranges, plan.pins) == ((), ())
    assert "Nothing to backfill" in " ".join(map(str, plan.remarks.notes))
    assert backfill(latest, day(1), "day-1-again").counts.records == 0

    read = ordinary(latest, "second").proof.ranges
    assert "day-1" in {row.ledger.run for row in read}
    assert texts(pair.backup, remote(latest, orders)) == ["d1h0", "d1h8", "d1h23.99", "new"]
    assert backfill(latest, Window(at(0, 0), at(3, 0)), "all").counts.records == 6
    assert sorted(texts(pair.backup, remote(latest, orders))) == sorted(texts(pair.primary, orders))
    ordinary(latest, "third")


@pytest.mark.long
def test_an_audit_says_that_no_order_was_promised_across_two_backfills(
    pair: Pair, latest: Flow, orders: str
) -> None:
    three_days(pair.primary, orders)
    ordinary(latest, "first")
    backfill(latest, day(1), "second half")
    backfill(latest, day(0), "first half")
    backfill(latest, day(2), "rest")
    audit = Audit(latest, AuditRequest())

    report = audit.compare(audit.plan(), no_spark, lambda *_: None)

    assert (report.state, report.found, [*report.findings]) == ("same", {}, [])
    assert "3 records are out of order only because a backfill" in " ".join(report.statements)
    assert "same as its source: 9 records" in report.headline
    # Where it is not as the ledger says, another producer has put it there.
    produce(
        pair.backup.bootstrap,
        remote(latest, orders),
        [Record(b"d0h0", b"d0h0", timestamp=at(0, 0))],
    )
    audit = Audit(latest, AuditRequest())
    assert audit.compare(audit.plan(), no_spark, lambda *_: None).found == {"doubled": 1}


@pytest.mark.long
def test_records_out_of_order_are_found_as_far_as_the_flow_says(
    pair: Pair, latest: Flow, orders: str
) -> None:
    hour = 60 * 60 * 1000
    edge = day(1).until_ms
    # Their markers have the times of today.
    for text in ("of a transaction", "of the next one"):
        write(pair.primary, orders, (text, edge - 1), transactional_id=orders)
    write(
        pair.primary,
        orders,
        ("young", at(2, 0.5)),
        ("first", day(1).since_ms),
        ("before", day(1).since_ms - 1),
        ("last", edge - 1),
        ("after", edge),
        ("half an hour late", edge - 2),
        ("an hour younger", edge + hour),
        ("too late", edge - 3),
        ("end", at(5)),
    )
    found = backfill(latest, day(1), "by default")
    assert texts(pair.backup, remote(latest, orders)) == [
        *("of a transaction", "of the next one"),
        *("first", "last", "half an hour late"),
    ]
    assert found.counts.records == 5
    assert "3 offsets below the flow's positions" in " ".join(found.topics.notes)
    # Whatever is settled below, what was not looked at is missing, and is found by who looks further.
    further = latest.model_copy(update={"backfill_disorder_ms": -1})
    assert backfill(further, day(1), "all of it").counts.records == 1
    assert texts(pair.backup, remote(latest, orders))[-1] == "too late"


@pytest.mark.long
def test_codecs_transactions_and_times_of_the_broker(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    recount_here(monkeypatch)
    topic, stamped = a_topic(pair.primary, pair.unique("codecs")), pair.unique("stamped")
    a_topic(pair.primary, stamped, message_timestamp_type="LogAppendTime")
    write(pair.primary, stamped, ("s0", 1), ("s1", 2))
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for number, codec in enumerate(codecs):
        in_and_out = [(f"{codec}{n}", at(n % 3)) for n in range(number + 4)]
        write(pair.primary, topic, *in_and_out, compression=codec)
    write(pair.primary, topic, ("aborted", at(1)), transactional_id=topic, abort=True)
    write(pair.primary, topic, ("c0", at(0)), ("c1", at(1)), ("c2", at(2)), transactional_id=topic)
    flow = pair.flow(
        [topic, stamped], auto_offset_reset="latest", join_batches_below=0, backfill_disorder_ms=-1
    )

    report = backfill(flow, day(1))
    inside = [f"{codec}{n}" for i, codec in enumerate(codecs) for n in range(i + 4) if n % 3 == 1]
    assert texts(pair.backup, remote(flow, topic)) == [*inside, "c1"]
    assert report.counts.reasons["aborted"] == 1
    assert texts(pair.backup, remote(flow, stamped)) == []

    assert backfill(flow, EVER, "ever").counts.reasons["copied-before"] >= len(inside)
    assert sorted(texts(pair.backup, remote(flow, topic))) == sorted(texts(pair.primary, topic))
    assert texts(pair.backup, remote(flow, stamped)) == ["s0", "s1"]


@pytest.mark.long
def test_a_flow_that_has_never_run_begins_afterwards_where_it_would_have_begun(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    recount_here(monkeypatch)
    one, two, idle = (
        a_topic(pair.primary, pair.unique(name), 2) for name in ("one", "two", "idle")
    )
    for topic in (one, two):
        write(pair.primary, topic, ("old", at(0)), ("wanted", at(1)), ("late", at(2)), partition=1)
        write(pair.primary, topic, ("other", at(0)))
    flow = pair.flow([one, two, idle], auto_offset_reset="latest")

    nothing = plan_backfill(flow, day(9), "nothing")
    assert (nothing.ranges, nothing.pins, nothing.topics.creations) == ((), (), ())
    assert verified(flow, "nothing").state == "verified"

    plan = plan_backfill(flow, day(1), topics=(one,))
    assert [(it.topic, it.partition, it.start, it.end) for it in plan.ranges] == [(one, 1, 1, 2)]
    # Of all of the flow's topics, or the others would be taken for new ones.
    assert len(plan.pins) == 6
    assert failures(copy_backfill(flow, plan)) == []
    proved(flow, "backfill")
    for topic in (one, two, idle):
        write(pair.primary, topic, ("new", at(9)))
        write(pair.primary, topic, ("new", at(9)), partition=1)
    ordinary(flow, "ordinary")
    assert texts(pair.backup, remote(flow, one), 1) == ["wanted", "new"]
    for topic in (one, two, idle):
        assert texts(pair.backup, remote(flow, topic), 0) == ["new"]
    assert texts(pair.backup, remote(flow, two), 1) == ["new"]


def test_what_the_flows_own_runs_copy_is_left_to_them(
    pair: Pair, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recount_here(monkeypatch)
    three_days(pair.primary, orders)
    flow = pair.flow([orders])
    plan = plan_backfill(flow, day(1))
    assert (plan.ranges, plan.pins) == ((), ())
    assert "4 offsets that may be in the window are not below the flow's position" in str(
        plan.remarks.notes[-1]
    )
    ordinary(flow, "ordinary")
    assert backfill(flow, day(1), "again").counts.records == 0
    assert texts(pair.backup, remote(flow, orders)) == texts(pair.primary, orders)


def test_what_others_write_to_a_separate_topic_fails_the_next_backfill_and_the_flows_own_runs(
    pair: Pair, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recount_here(monkeypatch)
    three_days(pair.primary, orders)
    flow = pair.flow([orders], auto_offset_reset="latest", backfill_topic="separate")
    late = f"{remote(flow, orders)}.backfill"
    backfill(flow, day(0), "first")
    backfill(flow, day(1), "second")
    write(pair.primary, orders, ("new", at(9)))
    ordinary(flow, "ordinary")

    write(pair.backup, late, ("another client's", at(9)))

    with pytest.raises(
        VerificationFailed, match=f"1 record on the target after .*{late}-0|{late}-0 .*1 record on"
    ):
        verified_now(flow, "nothing-new")
    with pytest.raises(VerificationFailed, match=f"1 record of another producer in {late}-0"):
        backfill(flow, day(2), "third")


def verified_now(flow: Flow, run: str) -> RunReport:
    """The report of a run that had nothing to copy."""
    assert not plan_now(flow, run).ranges
    return verified(flow, run)


@pytest.mark.long
def test_a_separate_topic_takes_what_is_late(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    recount_here(monkeypatch)
    topic = a_topic(pair.primary, pair.unique("compacted"), cleanup_policy="compact")
    three_days(pair.primary, topic)
    flow = pair.flow([topic], auto_offset_reset="latest")
    refused = plan_backfill(flow, day(1), "same")
    assert "is compacted" in str(refused.remarks.refused[0])
    assert refused.ranges == ()

    flow = flow.model_copy(update={"backfill_topic": "separate"})
    late = f"{remote(flow, topic)}.backfill"
    a_topic(pair.backup, late)
    write(pair.backup, late, ("another client's", at(1)))
    assert "holds records that the flow has not copied" in str(
        plan_backfill(flow, day(1), "foreign").remarks.refused[0]
    )
    delete_topic(pair.backup, late)
    backfill(flow, day(1))
    assert texts(pair.backup, late) == ["d1h0", "d1h8", "d1h23.99"]
    write(pair.primary, topic, ("new", at(9)))
    ordinary(flow, "ordinary")
    assert texts(pair.backup, remote(flow, topic)) == ["new"]
    assert backfill(flow, day(1), "again").counts.records == 0
    assert texts(pair.backup, late) == ["d1h0", "d1h8", "d1h23.99"]


def test_preserved_offsets_have_no_place_for_what_is_late(pair: Pair, orders: str) -> None:
    three_days(pair.primary, orders)
    flow = pair.flow([orders], auto_offset_reset="latest", offsets="preserved")
    plan = plan_backfill(flow, day(1))
    assert "keeps the source's offsets" in str(plan.remarks.refused[0])
    assert plan.ranges == ()


def test_a_window_that_the_source_has_deleted_is_refused_and_not_up_to_date(
    pair: Pair, latest: Flow, orders: str
) -> None:
    three_days(pair.primary, orders)
    ordinary(latest, "first")
    delete_before(pair.primary, orders, 7)
    goes_on = latest.model_copy(update={"on_source_truncation": "continue"})

    (refusal,) = plan_backfill(latest, day(1), "fails").remarks.refused
    assert "log starts at 7 and has no record of the window" in str(refusal)
    assert "deleted the offsets [0, 7)" in str(refusal)
    noted = backfill(goes_on, day(1), "notes")
    assert (noted.counts.records, len(noted.topics.deleted)) == (0, 1)
    assert "before they were copied" in noted.found
    # What is left is copied, and the second time it is not taken for all of the window.
    both = Window(day(1).since_ms, day(2).until_ms)
    assert backfill(latest, both, "half").counts.records == 2
    assert "before they were copied" in backfill(latest, both, "half again").found
    # What the flow had copied before the source deleted it is not missing.
    assert not plan_backfill(latest, day(9), "later").remarks.refused
    write(pair.primary, orders, ("new", at(9)), ("newer", at(12)))
    ordinary(latest, "second")
    delete_before(pair.primary, orders, 10)
    (refusal,) = plan_backfill(latest, day(9), "copied").remarks.refused
    assert "deleted the offsets [0, 9)" in str(refusal)


@pytest.mark.long
def test_what_the_source_has_lost_is_named_and_nothing_is_made_up(
    pair: Pair, latest: Flow, orders: str
) -> None:
    three_days(pair.primary, orders)
    ordinary(latest, "first")
    delete_before(pair.primary, orders, 4)
    plan = plan_backfill(latest, day(1))
    assert [(it.start, it.end) for it in plan.ranges] == [(4, 7)]
    assert "deleted the offsets [0, 4)" in " ".join(map(str, plan.remarks.notes))
    delete_before(pair.primary, orders, 5)
    assert failures(copy_backfill(latest, plan)) == []
    report = proved(latest, "backfill")
    assert texts(pair.backup, remote(latest, orders)) == ["d1h23.99"]
    assert report.counts.reasons == {"lost": 1, "outside-window": 1}
    assert report.counts.losses


@pytest.mark.long
def test_a_topic_that_was_recreated_has_nothing_of_the_old_ones_history(
    pair: Pair, latest: Flow, orders: str
) -> None:
    latest = latest.model_copy(update={"on_source_topic_recreated": "append"})
    three_days(pair.primary, orders)
    ordinary(latest, "first")
    backfill(latest, day(1), "old")
    recreate_topic(pair.primary, orders, retention_ms="-1")
    write(pair.primary, orders, ("recreated", at(1)))
    # Its own runs copy all of it.
    assert plan_backfill(latest, day(1), "new").ranges == ()
    ordinary(latest, "second")
    assert backfill(latest, day(1), "again").counts.records == 0
    assert texts(pair.backup, remote(latest, orders)) == ["d1h0", "d1h8", "d1h23.99", "recreated"]


@pytest.mark.long
def test_records_that_came_from_the_target_are_not_backfilled_and_go_back_no_more(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    recount_here(monkeypatch)
    topic = pair.unique("both")
    for broker in (pair.primary, pair.backup):
        a_topic(broker, topic)
    there = pair.flow(
        [topic],
        into=pair.unique("backup"),
        replication_policy_class="IdentityReplicationPolicy",
        on_foreign_records="adopt",
        on_returned_records="leave-out",
        auto_offset_reset="latest",
    )
    back = reverse_flow(there)
    write(pair.backup, topic, ("b0", at(1)))
    write(pair.primary, topic, ("a0", at(1)))
    ordinary(back, "back")
    assert texts(pair.primary, topic) == ["a0", "b0"]
    report = backfill(there, EVER)
    assert report.counts.reasons["returned"] == 1
    assert texts(pair.backup, topic) == ["b0", "a0"]
    ordinary(back, "back again")
    ordinary(there, "there")
    assert (texts(pair.primary, topic), texts(pair.backup, topic)) == (["a0", "b0"], ["b0", "a0"])


class Storm:
    """A backfill of several transactions that dies after so many requests, and is then repeated."""

    def __init__(self, flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
        self.flow = flow.model_copy(update={"transaction_max_bytes": 1, "join_batches_below": 0})
        self.monkeypatch = monkeypatch

    def dies(self, plan: Plan, at: int, *, answered: bool) -> bool:
        """Whether the backfill died before it had sent all that it sends."""
        fate = Fate(at=at, answered=answered)
        try:
            with fated(self.monkeypatch, fate):
                copy_planned(self.flow, plan)
        except Killed:
            return True
        return False


@pytest.mark.short("True")
@pytest.mark.parametrize("answered", [False, True])
def test_a_backfill_that_is_killed_anywhere_and_repeated_copies_each_record_once(
    pair: Pair, latest: Flow, orders: str, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    for number in range(3):
        write(pair.primary, orders, (f"d1n{number}", at(1, number)))
        write(pair.primary, orders, (f"d0n{number}", at(0)))
    ordinary(latest, "first")
    storm = Storm(latest, monkeypatch)
    plan = plan_backfill(storm.flow, day(1))
    deaths = 0
    # Each attempt goes on where the one before had committed, so that it dies a little later.
    for number in (0, 1, 2, 3, 4, 7, 6, 5):
        deaths += storm.dies(plan, number, answered=answered)
    assert deaths >= 5
    assert failures(copy_planned(storm.flow, plan)) == []
    report = proved(storm.flow, "backfill")
    assert texts(pair.backup, remote(latest, orders)) == ["d1n0", "d1n1", "d1n2"]
    assert report.counts.records == 3
    assert backfill(latest, day(1), "again").counts.records == 0


def test_backfills_that_overlap_and_an_ordinary_run_between_them_copy_nothing_twice(
    pair: Pair, latest: Flow, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        # A batch each, so that a transaction holds one of them.
        write(pair.primary, orders, (f"r{number}", at(number // 2)))
    ordinary(latest, "first")
    storm = Storm(latest, monkeypatch)
    one = plan_backfill(storm.flow, Window(at(0, 0), at(2, 0)), "one")
    two = plan_backfill(storm.flow, Window(at(1, 0), at(3, 0)), "two")
    write(pair.primary, orders, ("new", at(9)))
    assert storm.dies(one, 9, answered=False)
    # Planned before, both of them: what the other has copied since is only in the ledger.
    assert storm.dies(two, 7, answered=True)
    ordinary(storm.flow, "ordinary")
    assert failures(copy_planned(storm.flow, one)) == []
    assert failures(copy_planned(storm.flow, two)) == []
    for run in ("one", "two"):
        proved(storm.flow, run)
    ordinary(storm.flow, "last")
    assert sorted(texts(pair.backup, remote(latest, orders))) == sorted(texts(pair.primary, orders))


def test_a_backfill_that_still_writes_is_fenced_by_an_ordinary_run_and_goes_on_after_it(
    pair: Pair, latest: Flow, orders: str
) -> None:
    three_days(pair.primary, orders)
    ordinary(latest, "first")
    plan = plan_backfill(latest, EVER)
    write(pair.primary, orders, ("new", at(9)))
    (range_,) = plan.ranges
    backfilled = Backfilled(latest, plan.run, [range_])
    settings = WriterSettings.of(latest, plan.run, range_.writer)
    writer = backfill_writer(settings, backfilled)
    writer.take_over([range_])
    ordinary(latest, "ordinary")
    writer.write(range_, left_out(Absent(range_.start, range_.end, Reason.COPIED_BEFORE)))
    with pytest.raises(Fenced):
        writer.commit()
    writer.close()
    assert rows(latest) == []
    assert failures(copy_planned(latest, plan)) == []
    proved(latest, "backfill")
    assert sorted(texts(pair.backup, remote(latest, orders))) == sorted(texts(pair.primary, orders))


def test_a_position_that_was_set_back_stops_the_backfill_by_name(
    pair: Pair, latest: Flow, orders: str
) -> None:
    three_days(pair.primary, orders)
    ordinary(latest, "first")
    plan = plan_backfill(latest, EVER)
    target = TopicPartition(remote(latest, orders), 0)
    known = read_positions(latest.target, latest.name)[target]
    fence_writers(latest, latest.writers)
    restore_positions(latest, "by hand", {target: replace(known, offset=2)})
    (failure,) = failures(copy_planned(latest, plan))
    assert "position was set back to 2" in failure
    assert texts(pair.backup, remote(latest, orders)) == []


@pytest.mark.long
def test_a_proof_of_everything_is_not_that_of_the_backfill_which_ran_last(
    primary: KafkaCluster, latest: Flow, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_days(primary, orders)
    ordinary(latest, "first")
    write(primary, orders, ("n0", at(9)))
    ordinary(latest, "second")
    backfill(latest, EVER)
    for run in ("second", "backfill"):
        this = Run(latest, run)
        this._copying().begin(this._copying_plan())
    assert Run.latest(latest).run_id == "backfill"

    # It is recounted here: Spark would start for nothing.
    monkeypatch.setattr(SparkOnDemand, "__call__", lambda _: None)
    told = ferry("verify", "--config", latest.file, "--all", "--json")

    assert told.returncode == 0, told.stderr
    whole = json.loads(told.stdout)
    assert (whole["run"], whole["records"]) == ("second", len(texts(primary, orders)))
    (row,) = lag(latest)
    assert (row.lag, 0 < (row.complete_until or 0) < now_ms()) == (0, True)


@pytest.mark.long
def test_groups_are_not_moved_by_a_backfill_and_find_their_offsets_after_it(
    pair: Pair, latest: Flow, orders: str
) -> None:
    three_days(pair.primary, orders)
    ordinary(latest, "first")
    write(pair.primary, orders, ("n0", at(9)), ("n1", at(9)))
    ordinary(latest, "second")
    backfill(latest, EVER)
    write(pair.primary, orders, ("n2", at(9)))
    ordinary(latest, "third")
    assert Run(latest, "backfill").sync_groups().groups == ()

    ledger = ledger_of(latest)
    ids = ClusterControl(latest.source).topic_ids([orders])
    remote_ids = ClusterControl(latest.target).topic_ids([remote(latest, orders)])
    route = routes(ledger, ids, remote_ids)[TopicPartition(orders, 0)]
    values = {record.offset: record for record in pair.copied(latest, orders)[0]}

    def lands(offset: int) -> str:
        found = route.map.translate(offset)
        assert found
        return (values[found.offset].value or b"").decode()

    # Who has not read n0 yet must not miss it, whatever else it reads once more.
    assert [lands(offset) for offset in (0, 5, 9)] == ["n0", "n0", "n0"]
    assert (lands(10), lands(11)) == ("n1", "n2")
    # Who has read n0 and n1 on the target has read nothing of what was backfilled after them.
    after = min(offset for offset, record in values.items() if record.value == b"d0h0")
    back = route.map.reverse(after)
    assert back and back.offset == 0


@pytest.mark.long
def test_a_whole_backfill_through_spark_and_again_with_nothing_to_do(pair: Pair) -> None:
    topic = a_topic(pair.primary, pair.unique("whole"), 3)
    for number in range(3):
        write(pair.primary, topic, *((f"d{d}", at(d)) for d in range(3)), partition=number)
    flow = pair.flow([topic], auto_offset_reset="latest", shards=2)
    with terminal_spark("backfills") as spark:
        for run, records in (("backfill", 3), ("again", 0)):
            this = Run(flow, run)
            this.plan(RunOptions(window=day(1)))
            this.sync_topics()
            this.mirror(spark)
            this.verify(spark)
            assert this.sync_groups().groups == ()
            report = this.publish()
            assert (report.state, report.counts.records, report.window) == (
                "verified",
                records,
                day(1),
            )
    for number in range(3):
        assert texts(pair.backup, remote(flow, topic), number) == ["d1"]
    assert not Path(flow.state_path, flow.slug, "checkpoint").exists()
    write(pair.primary, topic, ("new", at(9)))
    assert plan_now(flow, "next").offsets == 1


@pytest.mark.long
def test_what_a_first_copy_left_out_is_backfilled(
    pair: Pair, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recount_here(monkeypatch)
    three_days(pair.primary, orders)
    flow = pair.flow([orders], topics_start="2026-01-03")
    ordinary(flow, "first")
    copy = remote(flow, orders)
    assert texts(pair.backup, copy) == ["d2h0", "d2h8", "d2h23.99"]

    assert backfill(flow, day(1)).counts.records == 3
    assert texts(pair.backup, copy)[3:] == ["d1h0", "d1h8", "d1h23.99"]
    assert backfill(flow, Window(at(1, 0), at(2, 9)), "again").counts.records == 0


def test_what_was_copied_under_another_name_is_not_taken_for_copied_to_this_one(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first copy is kept beside the second one, which begins at the log's end."""
    recount_here(monkeypatch)
    orders = a_topic(pair.primary, pair.unique("orders"))
    flow = pair.flow([orders])
    write(pair.primary, orders, ("old 1", at(1)), ("old 2", at(2)))
    assert failures(copy_now(flow)) == []
    anew = pair.unique("anew")
    flow = pair.flow(
        [orders], topics_rename={orders: anew}, topics_start="latest", backfill_topic="same"
    )
    assert failures(copy_now(flow, "renamed")) == []
    write(pair.primary, orders, ("new", at(3)))
    assert failures(copy_now(flow, "renamed-2")) == []
    (there,) = {choice.remote_topic for choice in plan_now(flow, "look").choices}
    assert texts(pair.backup, there) == ["new"]

    backfill(flow, EVER)

    assert texts(pair.backup, there) == ["new", "old 1", "old 2"]


def test_a_group_is_stuck_while_what_it_has_not_read_is_not_backfilled(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    recount_here(monkeypatch)
    topic, group = a_topic(pair.primary, pair.unique("unread")), pair.unique("group")
    # The backfill of the first day looks at the first hour of the next one, too.
    write(pair.primary, topic, ("a", at(0)), ("b", at(1, 0.5)), ("c", at(1)))
    flow = pair.flow([topic], auto_offset_reset="latest")
    ordinary(flow, "run-1")
    write(pair.primary, topic, ("d", at(2)))
    ordinary(flow, "run-2")
    commit(pair.primary, group, {TopicPartition(topic, 0): 0})

    def found(number: int) -> GroupOutlook:
        backfill(flow, day(number), f"backfill-{number}")
        # Groups are translated by what the flow's own runs have judged.
        ordinary(flow, f"after-{number}")
        (told,) = failover(flow, [group]).groups
        return told

    before, after = found(0), found(1)

    assert (before.state, before.not_copied) == ("stuck", 2)
    assert f"2 offsets of {topic}-0 that it has not read are not on backup" in before.reason
    assert (after.state, after.not_copied) == ("ready", 0)
