"""Topics that a real MirrorMaker has filled are gone on with: no record is missing, none is copied twice."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kafka_ferry.batches import Batch, split_batches
from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError, VerificationFailed
from kafka_ferry.groups.mirrormaker2.connect_offsets import (
    ConnectOffset,
    key_of,
    offsets_topic,
    value_of,
)
from kafka_ferry.groups.mirrormaker2.record_formats import Checkpoint
from kafka_ferry.groups.mirrormaker2.stored_offsets import read_offsets
from kafka_ferry.groups.translation import OffsetMap
from kafka_ferry.ledger import ledger_topic
from kafka_ferry.model import RunOptions, TopicPartition, Window
from kafka_ferry.model.takeover import TopicHandover
from kafka_ferry.runs import Run
from kafka_ferry.runs.failover.failover import failover
from kafka_ferry.runs.takeover import adopt, record_digests, takeover
from kafka_ferry.runs.takeover.hand_back import hand_back
from kafka_ferry.runs.takeover.takeover import Takeover
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.partitions.partition_log import PartitionLog
from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.java import jvm
from kafka_sandbox.java.jars import kafka
from kafka_sandbox.mirrormaker2 import MirrorMaker2, one_way
from tests.support.records.batches import a_marker
from tests.support.records.builders import (
    ConsumedRecord,
    Record,
    begin_transaction,
    create_topic,
    delete_before,
    produce,
    read_all,
    set_config,
)
from tests.support.records.mirror_topics import commit, positions_of_mirrormaker_2
from tests.support.runs.command_line import Called, ferry
from tests.support.runs.flows import (
    assert_same,
    copy_now,
    copy_planned,
    failures,
    ledger_of,
    plan_now,
    remote,
)
from tests.support.runs.pair import Pair
from tests.support.runs.proof import NO_SPARK, prove, recount_here, verified
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout(400), pytest.mark.usefixtures("without_spark")]


def take_over(flow: Flow, settle_s: float = 1.5) -> dict[str, TopicHandover]:
    return {topic.topic: topic for topic in Takeover(flow, settle_s=settle_s).from_mirrormaker2()}


def mirror(
    flow: Flow, source: KafkaCluster, target: KafkaCluster, folder: Path, *topics: str
) -> MirrorMaker2:
    """A MirrorMaker 2 of the flow's topics, not yet started, that flushes its positions seldom."""
    ways = one_way(flow.source.alias, source.bootstrap, flow.target.alias, target.bootstrap, topics)
    return MirrorMaker2(
        folder / "mm2", ways | {f"{flow.target.alias}.offset.flush.interval.ms": "2500"}
    )


def some(count: int, partitions: int, mark: str) -> list[Record]:
    return [
        Record(
            key=b"%d" % (i % 50) if i % 3 else None,
            value=f"{mark}-{i}".encode() if i % 7 else None,
            headers=(("a", b"1"), ("a", None)) if i % 5 == 0 else (),
            partition=i % partitions,
        )
        for i in range(count)
    ]


@contextmanager
def writing(source: KafkaCluster, topic: str) -> Iterator[None]:
    """An application that goes on writing all the while."""
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            produce(source.bootstrap, topic, some(60, 2, f"live-{number}"))
            number += 1
            time.sleep(0.1)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def seen(target: KafkaCluster, topic: str) -> dict[int, list[ConsumedRecord]]:
    return read_all(target.bootstrap, topic, isolation="read_uncommitted")


@pytest.mark.long
def test_killed_in_mid_stream_it_is_gone_on_with_and_given_back(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, transactions, foreign = (
        pair.unique("live"),
        pair.unique("transactions"),
        pair.unique("foreign"),
    )
    compacted = pair.unique("compacted")
    topics = [live, transactions, foreign, compacted]
    create_topic(
        *(pair.primary.bootstrap, compacted),
        cleanup_policy="compact",
        segment_ms="200",
        min_cleanable_dirty_ratio="0.01",
    )
    for number in range(5):
        # A new segment each time, so that the others are compacted.
        latest = [Record(key=b"%d" % i, value=b"%d" % number) for i in range(10 * number, 60)]
        pair.produce(compacted, latest)
        time.sleep(0.25)
    create_topic(pair.primary.bootstrap, live, partitions=2)
    for topic in (transactions, foreign):
        create_topic(pair.primary.bootstrap, topic)
    for number in range(8):
        produce(
            *(pair.primary.bootstrap, transactions, some(20, 1, f"{number}")),
            transactional_id=transactions,
        )
    pair.produce(foreign, some(30, 1, "mine"))
    flow = pair.flow(topics)
    mm2 = mirror(flow, pair.primary, pair.backup, pair.folder, *topics)

    with mm2, writing(pair.primary, live):
        mm2.wait_until_copied(pair.backup.bootstrap, {remote(flow, live): 2_000})
        mm2.wait_until_copied(
            pair.backup.bootstrap,
            {
                remote(flow, transactions): 160,
                remote(flow, foreign): 30,
                remote(flow, compacted): 60,
            },
        )
        with pytest.raises(FerryError, match="MirrorMaker 2 still runs"):
            wait_less(monkeypatch, flow)
        # Its positions are stored, and what it copies next is not in them any more.
        while not any(o.source.topic == live for o in stored(flow)):
            time.sleep(0.1)
        copied_by_now = sum(map(len, seen(pair.backup, remote(flow, live)).values()))
        mm2.wait_until_copied(pair.backup.bootstrap, {remote(flow, live): copied_by_now + 200})
        mm2.kill()
    pair.produce(live, some(40, 2, "after"))
    produce(pair.backup.bootstrap, remote(flow, foreign), [Record(value=b"another client's")])
    before = seen(pair.backup, remote(flow, live))

    tried = {t.topic: t for t in Takeover(flow, settle_s=1.5).from_mirrormaker2(dry_run=True)}
    taken = take_over(flow)

    assert {name: topic.state for name, topic in tried.items()} == {
        live: "ready",
        transactions: "ready",
        foreign: "refused",
        compacted: "ready",
    }
    assert [taken[name].state for name in (live, transactions, compacted)] == ["taken over"] * 3
    assert "another producer" in taken[foreign].reason
    parts = taken[live].partitions
    assert [part.compared for part in parts] == [len(before[part.partition]) for part in parts]
    print(f"positions after their data: {[(p.position, p.end) for p in parts]}")
    assert any(part.position and part.position < part.end for part in parts)
    assert seen(pair.backup, remote(flow, live)) == before, "nothing is written by taking over"

    copied = [live, transactions, compacted]
    flow = pair.flow(copied)
    assert {topic.state for topic in take_over(flow).values()} == {"up to date"}
    assert failures(copy_now(flow, "run-1")) == []
    Run(flow, "run-1").verify(NO_SPARK, everything=True)
    for topic in (live, transactions):
        pair.assert_same(flow, topic)
        assert_translated(flow, pair.primary, pair.backup, topic)
    assert latest_of(pair.backup, remote(flow, compacted)) == latest_of(pair.primary, compacted)

    # And back: MirrorMaker 2 goes on where the flow has ended.
    given = {topic.topic: topic.state for topic in hand_back(flow)}
    assert given[live] == "given back"
    # Of what has not grown since it was taken over, MirrorMaker 2's own position may do.
    assert set(given.values()) <= {"given back", "up to date"}
    assert {topic.state for topic in hand_back(flow)} == {"up to date"}
    refused = {refusal.topic: str(refusal) for refusal in plan_now(flow, "between").remarks.refused}
    assert refused.keys() == set(copied)
    assert "given to MirrorMaker 2" in refused[live]
    mm2 = mirror(flow, pair.primary, pair.backup, pair.folder, *copied)
    with mm2:
        pair.produce(live, some(50, 2, "by MirrorMaker 2"))
        pair.produce(transactions, some(10, 1, "x"), transactional_id=transactions)
        counts = {
            remote(flow, topic): sum(map(len, seen(pair.primary, topic).values()))
            for topic in (live, transactions)
        }
        # Our own transactions' markers have offsets too.
        wait_for_records(pair.backup, counts)
    for topic in (live, transactions):
        pair.assert_same(flow, topic)

    # To give it back again would have MirrorMaker 2 copy the same records again.
    assert {t.topic: t.state for t in hand_back(flow)}[live] == "refused"
    # Once more, after an orderly end.
    pair.produce(live, some(30, 2, "last"))
    again = take_over(flow)
    assert [again[name].state for name in copied] == ["taken over", "taken over", "up to date"]
    assert [part.compared for part in again[live].partitions] == [25, 25]
    assert failures(copy_now(flow, "run-2")) == []
    Run(flow, "run-2").verify(NO_SPARK, everything=True)
    pair.assert_same(flow, live)
    assert_translated(flow, pair.primary, pair.backup, live)


def stored(flow: Flow) -> list[ConnectOffset]:
    """MirrorMaker 2's positions."""
    return read_offsets(flow.target, flow.source.alias, offsets_topic(flow.source.alias))[0]


def wait_less(monkeypatch: pytest.MonkeyPatch, flow: Flow) -> None:
    """Take over while MirrorMaker 2 runs, without the wait for one that was killed."""
    with monkeypatch.context() as context:
        context.setattr("kafka_ferry.runs.takeover.liveness._SESSION_S", 0.5)
        Takeover(flow).from_mirrormaker2()


def wait_for_records(target: KafkaCluster, counts: dict[str, int]) -> None:
    deadline = time.monotonic() + 60
    while any(sum(map(len, seen(target, t).values())) < count for t, count in counts.items()):
        assert time.monotonic() < deadline, f"MirrorMaker 2 has not copied {counts}"
        time.sleep(0.3)


def latest_of(broker: KafkaCluster, topic: str) -> dict[bytes | None, bytes | None]:
    """The newest value of each key."""
    return {
        record.key: record.value for records in seen(broker, topic).values() for record in records
    }


def assert_translated(flow: Flow, source: KafkaCluster, target: KafkaCluster, topic: str) -> None:
    """Each record of the source has its counterpart, which is the same record."""
    ranges = [entry.copied for entry in ledger_of(flow).ranges(since=0, of_run="")]
    there = {n: {r.offset: r for r in rs} for n, rs in seen(target, remote(flow, topic)).items()}
    for number, records in read_all(source.bootstrap, topic).items():
        known = OffsetMap.of(r for r in ranges if (r.topic, r.partition) == (topic, number))
        # Every one of thousands takes its time.
        for record in [*records[::7], *records[-20:]]:
            found = known.translate(record.offset)
            assert found
            assert found.kind == "exact"
            same = there[number][found.offset]
            assert (same.key, same.value, same.timestamp) == (
                record.key,
                record.value,
                record.timestamp,
            )


@pytest.mark.long
def test_what_it_wrote_twice_after_a_crash_of_its_own_counts_once(pair: Pair) -> None:
    topic = pair.topic("doubled", some(500, 1, "first"))
    flow = pair.flow([topic])
    ways = one_way(
        flow.source.alias, pair.primary.bootstrap, flow.target.alias, pair.backup.bootstrap, [topic]
    )
    # Positions are never stored, but at an orderly end.
    mm2 = MirrorMaker2(pair.folder / "mm2", ways | {"backup.offset.flush.interval.ms": "600000"})
    with mm2:
        mm2.wait_until_copied(pair.backup.bootstrap, {remote(flow, topic): 500})
        mm2.kill()
    with mm2:
        mm2.wait_until_copied(pair.backup.bootstrap, {remote(flow, topic): 1_000})
    pair.produce(topic, some(100, 1, "second"))

    (part,) = take_over(flow)[topic].partitions

    assert (part.position, part.end, part.compared, part.doubled) == (500, 500, 500, 500)
    assert failures(copy_now(flow)) == []
    once = [record.value for record in seen(pair.primary, topic)[0]]
    assert [r.value for r in seen(pair.backup, remote(flow, topic))[0]] == once[:500] + once
    assert_translated(flow, pair.primary, pair.backup, topic)


def test_a_replay_of_a_compacted_topic_that_did_not_catch_up_is_gone_on_with_where_it_stopped(
    pair: Pair,
) -> None:
    topic = pair.unique("replayed")
    flow = pair.flow([topic])
    now = int(time.time() * 1000)
    records = [Record(key=b"k", value=b"%d" % i, timestamp=now + i) for i in range(4)]
    for broker, name, written in (
        (pair.primary, topic, records),
        # Killed while it wrote the first two a second time: the older one of them is the newest of its key there.
        (pair.backup, remote(flow, topic), [*records, *records[:2]]),
    ):
        create_topic(broker.bootstrap, name, cleanup_policy="compact")
        produce(broker.bootstrap, name, written)
    positions_of_mirrormaker_2(pair.backup, flow, {topic: 0})

    assert take_over(flow, settle_s=0)[topic].state == "taken over"

    prove(flow)
    assert latest_of(pair.backup, remote(flow, topic)) == latest_of(pair.primary, topic)


@pytest.mark.parametrize("is_removed", [True, False])
def test_of_a_compacted_copy_what_has_no_key_and_is_missing_is_named(
    is_removed: bool, pair: Pair
) -> None:
    topic = pair.unique("unkeyed")
    flow, now = pair.flow([topic]), int(time.time() * 1000)
    copy = remote(flow, topic)
    records = [Record(value=b"%d" % i, timestamp=now) for i in range(4)]
    for broker, name in ((pair.primary, topic), (pair.backup, copy)):
        create_topic(broker.bootstrap, name)
    pair.produce(topic, records)
    produce(pair.backup.bootstrap, copy, records[:1])
    if is_removed:
        # It leaves its offset, as what a cleaner has removed does; and a marker's.
        aborted = [Record(value=b"aborted")] * 2
        produce(pair.backup.bootstrap, copy, aborted, transactional_id=topic, abort=True)
    produce(pair.backup.bootstrap, copy, records[3:])
    positions_of_mirrormaker_2(pair.backup, flow, {topic: 4})
    set_config(pair.backup, copy, "cleanup.policy", "compact")

    (found,) = Takeover(flow, settle_s=0).from_mirrormaker2(dry_run=True)

    if is_removed:
        assert found.state == "unproved"
        assert found.reason.startswith("2 records without a key that the source has are not there")
    else:
        assert found.state == "refused"
        assert "2 of the source's records are not there, the first at offset 1" in found.reason


def left_by_mirrormaker_2(pair: Pair, topic: str, count: int, copied: int) -> Flow:
    """A flow of a topic of which so many records are on the target, as MirrorMaker 2 would leave them."""
    flow = pair.flow([topic])
    # Records of long ago would soon be deleted.
    first = int(time.time() * 1000)
    for broker, name, number in (
        (pair.primary, topic, count),
        (pair.backup, remote(flow, topic), copied),
    ):
        create_topic(broker.bootstrap, name)
        records = [Record(value=b"%d" % i, timestamp=first + i) for i in range(number)]
        produce(broker.bootstrap, name, records)
    positions_of_mirrormaker_2(pair.backup, flow, {topic: copied})
    return flow


def test_a_topic_that_still_grows_is_not_taken_over(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pair.unique("grows")
    flow = left_by_mirrormaker_2(pair, topic, 5, 3)
    look_again = takeover.require_still

    def grows_meanwhile(*args: Any) -> None:
        produce(pair.backup.bootstrap, remote(flow, topic), [Record(value=b"more")])
        look_again(*args)

    monkeypatch.setattr(takeover, "require_still", grows_meanwhile)

    with pytest.raises(FerryError, match=f"{remote(flow, topic)}-0 on backup grew"):
        Takeover(flow, settle_s=0).from_mirrormaker2()

    assert ledger_topic(flow.source.alias) not in read_topics(pair.backup)


def test_what_an_open_transaction_may_still_commit_is_not_built_upon(pair: Pair) -> None:
    topic = pair.unique("open")
    flow = left_by_mirrormaker_2(pair, topic, 5, 3)
    there = remote(flow, topic)
    exactly_once = begin_transaction(pair.backup.bootstrap, topic, there, Record(value=b"3"))

    taken = take_over(flow, settle_s=0)[topic]

    assert taken.state == "refused"
    assert "An open transaction hides what" in taken.reason
    assert "from offset 3 on" in taken.reason
    exactly_once.abort_transaction()
    wait_until(lambda: take_over(flow, settle_s=0)[topic].state == "taken over")


@pytest.mark.long
def test_what_was_not_verified_is_not_built_upon(pair: Pair) -> None:
    topic = pair.unique("unverified")
    flow = left_by_mirrormaker_2(pair, topic, 5, 3)
    assert take_over(flow, settle_s=0)[topic].state == "taken over"
    assert failures(copy_now(flow)) == []

    with pytest.raises(FerryError, match="are not verified yet"):
        take_over(flow, settle_s=0)
    Run(flow, "run-1").verify(NO_SPARK)

    assert take_over(flow, settle_s=0)[topic].state == "up to date"
    pair.assert_same(flow, topic)
    later = Record(value=b"later", timestamp=int(time.time() * 1000))
    pair.produce(topic, [later])
    # As MirrorMaker 2 would, once it was given back to.
    produce(pair.backup.bootstrap, remote(flow, topic), [later] * 2)
    assert take_over(flow, settle_s=0)[topic].partitions[0].doubled == 1
    Run(flow, "run-1").verify(NO_SPARK)
    given = ferry_takeover(flow, "--to", "mm2", "--json")
    assert given.returncode == 0, given.stderr
    (told,) = json.loads(given.stdout)
    assert (told["state"], told["partitions"][0]["end"]) == ("given back", 6)
    assert [offset.next for offset in stored(flow)] == [6]
    # What it copies from then on is its own, and no fault of what the flow had copied.
    produce(pair.backup.bootstrap, remote(flow, topic), [later])
    plan_now(flow, "run-2")
    assert Run(flow, "run-2").verify(NO_SPARK, everything=True).success


def test_what_a_run_copies_meanwhile_does_not_count_as_verified(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, own = pair.unique("meanwhile"), pair.topic("own", some(20, 1, "own"))
    left_by_mirrormaker_2(pair, topic, 5, 3)
    flow, mark_owned = pair.flow([topic, own]), adopt.mark_owned

    def run_meanwhile(*args: Any) -> None:
        # As on a timetable, after the takeover has fenced the writers.
        assert failures(copy_planned(flow, plan_now(flow, "meanwhile"))) == []
        mark_owned(*args)

    monkeypatch.setattr(adopt, "mark_owned", run_meanwhile)
    taken = take_over(flow, settle_s=0)
    monkeypatch.setattr(adopt, "mark_owned", mark_owned)

    assert taken[topic].state == "refused"
    assert "has copied records that are not verified yet" in taken[topic].reason
    plan_now(flow, "next")
    assert Run(flow, "next").verify(NO_SPARK).records == 20
    assert take_over(flow, settle_s=0)[topic].state == "taken over"


def test_of_two_takeovers_at_once_one_counts(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger would have each of its ranges twice, and no verification of everything would pass."""
    topic = pair.unique("twice")
    flow = left_by_mirrormaker_2(pair, topic, 5, 3)
    prepare, others = takeover.prepare, []

    def take_over_meanwhile(*args: Any) -> None:
        monkeypatch.setattr(takeover, "prepare", prepare)
        others.append(take_over(flow, settle_s=0)[topic].state)
        prepare(*args)

    monkeypatch.setattr(takeover, "prepare", take_over_meanwhile)
    late = take_over(flow, settle_s=0)[topic]

    assert (others, late.state) == (["taken over"], "refused")
    assert f"Another takeover of {topic}, or a run, has written to" in late.reason
    assert take_over(flow, settle_s=0)[topic].state == "up to date"


@pytest.mark.parametrize("is_exactly_once", [False, True], ids=["at-least-once", "exactly-once"])
def test_what_others_write_after_a_takeover_is_named_where_nothing_is_new(
    is_exactly_once: bool, pair: Pair
) -> None:
    topic = pair.unique("after")
    flow = pair.flow([topic])
    now = int(time.time() * 1000)
    records = [Record(value=b"%d" % i, timestamp=now, partition=0) for i in range(5)]
    for broker, name in ((pair.primary, topic), (pair.backup, remote(flow, topic))):
        create_topic(broker.bootstrap, name, partitions=2)
    pair.produce(topic, records)
    produce(
        *(pair.backup.bootstrap, remote(flow, topic), records),
        **({"transactional_id": topic} if is_exactly_once else {}),
    )
    positions_of_mirrormaker_2(pair.backup, flow, {topic: 5})
    assert take_over(flow, settle_s=0)[topic].state == "taken over"
    assert plan_now(flow).ranges == ()
    assert verified(flow, "run-1").state == "verified"

    # The second partition was empty when it was compared.
    for number in range(2):
        produce(pair.backup.bootstrap, remote(flow, topic), [Record(value=b"x", partition=number)])

    assert plan_now(flow, "run-2").remarks.refused == ()
    with pytest.raises(VerificationFailed) as failed:
        Run(flow, "run-2").verify(NO_SPARK)
    copy = remote(flow, topic)
    assert [f"{copy}-{it} on the target: 1 record" in str(failed.value) for it in (0, 1)] == [
        True
    ] * 2
    pair.produce(topic, [Record(value=b"new", partition=1)])
    assert failures(copy_now(flow, "run-3")) == []
    with pytest.raises(VerificationFailed, match=f"1 record of another producer in {copy}-1"):
        Run(flow, "run-3").verify(NO_SPARK)


def test_what_was_copied_since_the_hand_back_and_is_deleted_there_is_not_copied_twice(
    pair: Pair,
) -> None:
    topic = pair.unique("expired")
    flow = left_by_mirrormaker_2(pair, topic, 5, 5)
    copy = remote(flow, topic)
    assert take_over(flow, settle_s=0)[topic].state == "taken over"
    assert [it.state for it in hand_back(flow)] == ["up to date"]
    records = [Record(value=b"%d" % i, timestamp=int(time.time() * 1000)) for i in range(5, 11)]
    pair.produce(topic, records)
    produce(pair.backup.bootstrap, copy, records)
    position = key_of(TopicPartition(topic, 0), flow.source.alias), value_of(11)
    produce(pair.backup.bootstrap, offsets_topic(flow.source.alias), [Record(*position)])
    delete_before(pair.backup, copy, 11)

    refused = take_over(flow, settle_s=0)[topic]

    assert refused.state == "refused"
    assert (
        "the source still has 6 of these records, which would be copied a second time"
        in refused.reason
    )
    assert "given to MirrorMaker 2" in str(plan_now(flow).remarks.refused)
    # Once the source has deleted them too, nothing can be copied twice.
    delete_before(pair.primary, topic, 11)
    assert take_over(flow, settle_s=0)[topic].state == "up to date"


def test_a_groups_offset_that_mirrormaker_2_has_translated_in_a_replay_skips_nothing(
    pair: Pair,
) -> None:
    topic = pair.unique("replayed")
    # Of 300 records, 258 were copied; then it began again, and was killed after 140.
    flow = left_by_mirrormaker_2(pair, topic, 300, 258)
    copy = remote(flow, topic)
    again = [(r.value, r.timestamp) for r in read_all(pair.primary.bootstrap, topic)[0][:140]]
    produce(pair.backup.bootstrap, copy, [Record(value=v, timestamp=at) for v, at in again])
    lagging, ahead = pair.unique("lagging"), pair.unique("ahead")
    for group, read_there in ((lagging, 259), (ahead, 270)):
        commit(pair.primary, group, {TopicPartition(topic, 0): 100})
        commit(pair.backup, group, {TopicPartition(copy, 0): read_there})
    # Its newest sync was 0 -> 258: whatever is after 0 is at least 259.
    checkpoints = f"{flow.source.alias}.checkpoints.internal"
    create_topic(pair.backup.bootstrap, checkpoints, cleanup_policy="compact")
    known = Checkpoint(lagging, TopicPartition(copy, 0), 100, 259)
    produce(pair.backup.bootstrap, checkpoints, [Record(known.key(), known.value())])
    assert take_over(flow, settle_s=0)[topic].partitions[0].doubled == 140

    found = failover(flow, [lagging, ahead])

    by_name = {group.name: group.partitions for group in found.groups}
    (moved,), (kept,) = by_name[lagging], by_name[ahead]
    assert {group.state for group in found.groups} == {"ready"}
    assert (moved.offset, kept.offset) == (100, 270)
    assert "as if that were 100 on the source; by the records, 100 is 100." in moved.reason
    assert "its offset on the target is 270 already" in kept.reason


def test_a_topic_is_only_ready_if_its_records_were_compared(pair: Pair) -> None:
    empty, expired, aborted = (pair.unique(it) for it in ("empty", "expired", "aborted"))
    first = int(time.time() * 1000)
    records = [Record(value=b"%d" % i, timestamp=first + i) for i in range(20)]
    flow = pair.flow([empty, expired, aborted])
    for topic in (empty, expired, aborted):
        create_topic(pair.primary.bootstrap, topic)
        pair.produce(topic, records)
        create_topic(pair.backup.bootstrap, remote(flow, topic))
    positions_of_mirrormaker_2(pair.backup, flow, dict.fromkeys((empty, expired), 20))
    produce(pair.backup.bootstrap, remote(flow, expired), records)
    delete_before(pair.backup, remote(flow, expired), 20)
    # MirrorMaker 2 with exactly-once was killed in its second transaction.
    for some, abort in ((records[:12], False), (records[12:], True)):
        how = {"transactional_id": aborted, "abort": abort}
        produce(pair.backup.bootstrap, remote(flow, aborted), some, **how)

    found = {
        topic.topic: topic for topic in Takeover(flow, settle_s=0).from_mirrormaker2(dry_run=True)
    }

    assert found[empty].state == "refused"
    assert (
        "20 of the source's records before it are not there, and at most 0 were"
        in found[empty].reason
    )
    assert found[expired].state == "unproved"
    assert "no record is left to compare in partition 0" in found[expired].reason
    assert found[aborted].state == "ready"
    (part,) = found[aborted].partitions
    assert (part.end, part.compared) == (12, 12), "consumers never see what was aborted"


def test_a_broker_that_gives_nothing_does_not_say_that_there_is_nothing(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pair.unique("tiered")
    flow = left_by_mirrormaker_2(pair, topic, 50, 30)
    monkeypatch.setattr("kafka_ferry.retry.RETRY_S", 0.1)
    read = record_digests.ended_batches

    def nothing_of_the_copy(cluster: WireCluster, log: PartitionLog, start: int) -> Any:
        # As slow tiered storage answers: without records and without an error.
        return iter(()) if log.partition.topic == remote(flow, topic) else read(cluster, log, start)

    monkeypatch.setattr(record_digests, "ended_batches", nothing_of_the_copy)
    (found,) = Takeover(flow, settle_s=0).from_mirrormaker2(dry_run=True)

    assert found.state == "refused"
    assert f"gives nothing of {remote(flow, topic)}-0 from 0 on, although its log ends at 30" in (
        found.reason
    )


def test_a_marker_that_claims_many_offsets_takes_no_memory(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pair.unique("marked")
    flow = left_by_mirrormaker_2(pair, topic, 4, 4)
    monkeypatch.setattr("kafka_ferry.retry.RETRY_S", 0.1)
    read = record_digests.ended_batches
    (marker,) = split_batches(a_marker(at=4, producer_id=1, commit=True))
    wide = replace(marker, header=marker.header._replace(last_offset_delta=2**31 - 1))

    def with_a_wide_marker(*log: Any) -> Iterator[tuple[Batch, bool]]:
        # As a broker may send it, in 78 bytes.
        yield from read(*log)
        yield wide, False

    monkeypatch.setattr(record_digests, "ended_batches", with_a_wide_marker)
    (found,) = Takeover(flow, settle_s=0).from_mirrormaker2(dry_run=True)

    assert found.state == "refused"
    assert "a marker at offset 4 that stands for 2,147,483,648 offsets" in found.reason


def test_what_a_mirrormaker_1_has_put_into_other_partitions_is_neither_backfilled_nor_passed_by_a_group(
    pair: Pair,
) -> None:
    topic, mirror_maker = pair.unique("spread"), pair.unique("mirror-maker")
    group, caught_up = pair.unique("application"), pair.unique("caught-up")
    now = int(time.time() * 1000)
    sent = [Record(value=b"%d" % i, timestamp=now + i, partition=i % 2) for i in range(10)]
    for broker in (pair.primary, pair.backup):
        create_topic(broker.bootstrap, topic, partitions=2)
    pair.produce(topic, sent)
    # The other way round.
    copies = [replace(it, partition=1 - (it.partition or 0)) for it in sent]
    produce(pair.backup.bootstrap, topic, copies)
    first, second = (TopicPartition(topic, number) for number in range(2))
    commit(pair.primary, mirror_maker, {first: 5, second: 5})
    commit(pair.primary, group, {first: 6, second: 2})
    commit(pair.primary, caught_up, {first: 6, second: 5})
    flow = pair.flow(
        [topic],
        replication_policy_class="org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    )
    (taken,) = Takeover(flow, settle_s=0).from_mirrormaker1(mirror_maker)
    assert taken.state == "taken over", taken.reason
    pair.produce(topic, [Record(value=b"new", timestamp=now, partition=i) for i in range(2)])
    prove(flow)

    # What the group has not read of the second partition lies in the first one.
    assert Run(flow, "backfill").plan(RunOptions(window=Window(0, 2**62))).ranges == ()
    found = {it.name: it.state for it in failover(flow, [group, caught_up]).groups}
    assert found == {group: "stuck", caught_up: "ready"}


def test_what_others_write_to_partitions_that_the_source_of_a_spread_topic_lacks_is_named(
    pair: Pair,
) -> None:
    topic, mirror_maker = pair.unique("wider"), pair.unique("mirror-maker")
    now = int(time.time() * 1000)
    sent = [Record(value=b"%d" % i, timestamp=now + i, partition=0) for i in range(6)]
    create_topic(pair.primary.bootstrap, topic, partitions=1)
    create_topic(pair.backup.bootstrap, topic, partitions=3)
    pair.produce(topic, sent)
    # One partition of the target stays empty.
    copies = [replace(it, partition=i % 2) for i, it in enumerate(sent)]
    produce(pair.backup.bootstrap, topic, copies)
    commit(pair.primary, mirror_maker, {TopicPartition(topic, 0): 6})
    flow = pair.flow(
        [topic],
        replication_policy_class="org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    )
    (taken,) = Takeover(flow, settle_s=0).from_mirrormaker1(mirror_maker)
    assert taken.state == "taken over", taken.reason
    prove(flow)
    (again,) = Takeover(flow, settle_s=0).from_mirrormaker1(mirror_maker)
    assert again.state == "up to date", again.reason

    for number in (1, 2):
        produce(pair.backup.bootstrap, topic, [Record(value=b"x", partition=number)])
    assert plan_now(flow, "run-2").remarks.refused == ()
    with pytest.raises(VerificationFailed) as failed:
        Run(flow, "run-2").verify(NO_SPARK)
    assert [f"{topic}-{it} on the target: 1 record" in str(failed.value) for it in (1, 2)] == [
        True
    ] * 2


def read_topics(cluster: KafkaCluster) -> set[str]:
    return set(AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10).topics)


@contextmanager
def mirror_maker_1(
    folder: Path, source: KafkaCluster, target: KafkaCluster, group: str, topic: str, *, keyed: bool
) -> Iterator[None]:
    """Kafka 3.9's own first MirrorMaker while the block lasts; ended in order, so that it commits.

    It puts records ``keyed`` where their keys say, as the source's producer did, else into the next partition.
    """
    consumer, producer = folder / "consumer.properties", folder / "producer.properties"
    consumer.write_text(
        f"bootstrap.servers={source.bootstrap}\ngroup.id={group}\nauto.offset.reset=earliest\n"
    )
    in_turn = "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner\n"
    producer.write_text(f"bootstrap.servers={target.bootstrap}\n{'' if keyed else in_turn}")
    files = ("--consumer.config", str(consumer), "--producer.config", str(producer))
    command = jvm.command(
        "kafka.tools.MirrorMaker", *files, "--include", topic, jars=kafka("3.9.1")
    )
    with (folder / "mirror-maker.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()


@pytest.mark.long
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "spread"])
def test_a_mirrormaker_1_is_gone_on_with_from_its_groups_offsets(
    keyed: bool, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = pair.unique("first"), pair.unique("mirror-maker")
    records = [Record(key=b"%d" % (i % 20) if keyed else None, value=b"%d" % i) for i in range(300)]
    for broker in (pair.primary, pair.backup):
        create_topic(broker.bootstrap, topic, partitions=3)
    pair.produce(topic, records)
    flow = pair.flow(
        [topic],
        replication_policy_class="org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    )
    with mirror_maker_1(pair.folder, pair.primary, pair.backup, group, topic, keyed=keyed):
        wait_for_records(pair.backup, {topic: 300})
    pair.produce(topic, [Record(key=b"x", value=b"new-%d" % i) for i in range(30)])

    with pytest.raises(FerryError, match="has committed no offset"):
        Takeover(flow, settle_s=0.1).from_mirrormaker1(pair.unique("unknown"))
    (taken,) = Takeover(flow, settle_s=0.5).from_mirrormaker1(group)

    assert taken.state == "taken over", taken.reason
    assert sum(part.compared for part in taken.partitions) == (300 if keyed else 0)
    (once_more,) = Takeover(flow, settle_s=0.5).from_mirrormaker1(group)
    assert (once_more.state, once_more.partitions) == ("up to date", ())
    assert once_more.reason == "the flow continues in it already."
    assert failures(copy_now(flow)) == []
    if keyed:
        assert_same(pair.primary, topic, pair.backup, topic)
    want = sorted(r.value or b"" for rs in seen(pair.primary, topic).values() for r in rs)
    have = sorted(r.value or b"" for rs in seen(pair.backup, topic).values() for r in rs)
    assert have == want
    if not keyed:
        recount_here(monkeypatch)
        Run(flow, "run-1").verify(NO_SPARK)
        produce(pair.backup.bootstrap, topic, [Record(value=b"x", partition=0)])
        assert plan_now(flow, "run-2").ranges == ()
        with pytest.raises(VerificationFailed, match=f"{topic}-0 on the target: 1 record"):
            Run(flow, "run-2").verify(NO_SPARK)


def test_the_command_shows_what_it_would_take_over_and_refuses_to_guess(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing runs that would have to come to rest.
    monkeypatch.setattr(Takeover.__init__, "__kwdefaults__", {"settle_s": 0.1})
    topic = pair.unique("orders")
    elsewhere = pair.flow([topic])
    nothing = ferry_takeover(elsewhere, "--from", "mm2", "--dry-run")
    flow = left_by_mirrormaker_2(pair, topic, 2, 1)
    positions = offsets_topic(flow.source.alias)
    shown = ferry_takeover(flow, "--from", "mm2", "--dry-run", "--json")
    produce(pair.backup.bootstrap, remote(flow, topic), [Record(value=b"b")])
    refused = ferry_takeover(flow, "--from", "mm2")

    assert nothing.returncode == 1
    assert f"backup has no topic {positions}" in nothing.stderr
    assert shown.returncode == 0, shown.stderr
    (found,) = json.loads(shown.stdout)
    assert (found["state"], found["partitions"][0]["end"]) == ("ready", 1)
    assert refused.returncode == 2
    assert f"REFUSED {remote(flow, topic)}: partition 0: its record 1 is not one" in refused.stdout
    assert ferry_takeover(flow).returncode == 9


def ferry_takeover(flow: Flow, *arguments: str) -> Called:
    return ferry("takeover", "--config", flow.file, *arguments)
