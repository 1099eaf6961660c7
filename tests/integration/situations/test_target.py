"""What can happen to the target: topics lost, foreign or refused, writes refused, a full disk."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_ferry.copy.target.transactional_writer import TransactionalWriter
from kafka_ferry.errors import FerryError, VerificationFailed
from kafka_ferry.model import Plan
from kafka_ferry.model.waits import Waits
from kafka_ferry.runs import Run
from kafka_ferry.spark.session import SparkOnDemand
from kafka_sandbox.broker import Broker
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import KafkaCluster
from tests.faults.sides import frozen, wait_in_sync
from tests.support.brokers.everywhere import wait_for_topic
from tests.support.brokers.leaders import leaders
from tests.support.records.builders import (
    Record,
    create_topic,
    delete_topic,
    produce,
    read_all,
    recreate_topic,
)
from tests.support.records.histories import named, told, values
from tests.support.runs.command_line import ferry
from tests.support.runs.flows import (
    assert_same,
    content,
    copy_now,
    copy_planned,
    failures,
    ledger_rows,
    make_flow,
    plan_now,
    remote,
)
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.proof import NO_SPARK, prove, report_of, verified
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("without_spark")

NOISE = bytes(range(256)) * 200
# More than brokers, so that each leads some.
PARTITIONS = 4


# Remote topics that are lost


@pytest.mark.parametrize(("policy", "fate"), [("fail", "recreated"), ("recopy", "deleted")])
def test_a_remote_topic_that_was_lost_is_named_or_filled_again(
    policy: str, fate: str, pair: Pair
) -> None:
    """MirrorMaker 2 situation 9: it is created again, and its history never sent again."""
    topic, other = (pair.topic(it, named("first", 30)) for it in ("lost", "other"))
    flow = pair.flow([topic, other], on_target_topic_lost=policy, writers=1)
    copy_now(flow)
    for name in (topic, other):
        pair.produce(name, named("second", 10))
    (delete_topic if fate == "deleted" else recreate_topic)(pair.backup, remote(flow, topic))

    plan = plan_now(flow, "run-2")
    assert failures(copy_planned(flow, plan)) == []

    pair.assert_same(flow, other)
    if policy == "fail":
        (refusal,) = plan.remarks.refused
        assert (refusal.topic, refusal.partition) == (topic, None)
        assert "its history there is gone" in refusal.reason
        assert values(pair.backup, remote(flow, topic)) == []
    else:
        assert plan.remarks.refused == ()
        assert [note.topic for note in plan.remarks.notes] == [topic]
        pair.assert_same(flow, topic)
        assert copy_now(flow, "run-3") == []


def test_a_range_without_records_in_a_topic_that_is_gone_fails_no_proof(pair: Pair) -> None:
    topic = pair.topic("aborted")
    pair.produce(topic, named("aborted", 5), transactional_id=topic, abort=True)
    flow = pair.flow([topic], on_target_topic_lost="recopy")
    assert failures(copy_now(flow)) == []
    delete_topic(pair.backup, remote(flow, topic))
    pair.produce(topic, named("first", 5))
    assert failures(copy_now(flow, "run-2")) == []

    Run(flow, "run-2").verify(NO_SPARK, everything=True)
    pair.assert_same(flow, topic)


@pytest.mark.parametrize(
    ("policy", "fate"),
    [pytest.param("fail", "deleted", marks=pytest.mark.long), ("recopy", "recreated")],
)
def test_a_remote_topic_lost_between_plan_and_copy_is_named_and_left_to_the_next_run(
    policy: str, fate: str, pair: Pair
) -> None:
    """MirrorMaker 2 situation 9, in the worst moment."""
    topic, other = (pair.topic(it, named("first", 30)) for it in ("lost", "other"))
    flow = pair.flow([topic, other], on_target_topic_lost=policy, writers=1)
    copy_now(flow)
    for name in (topic, other):
        pair.produce(name, named("second", 10))
    plan = plan_now(flow, "run-2")
    (delete_topic if fate == "deleted" else recreate_topic)(pair.backup, remote(flow, topic))

    (problem,) = failures(copy_planned(flow, plan))

    pair.assert_same(flow, other)
    assert problem.startswith(f"{topic}-0 ")
    if policy == "recopy":
        assert failures(copy_now(flow, "run-3")) == []
        pair.assert_same(flow, topic)
        assert copy_now(flow, "run-4") == []
    else:
        (refusal,) = plan_now(flow, "run-3").remarks.refused
        assert "its history there is gone" in refusal.reason


@pytest.mark.parametrize(
    ("copied", "policy"),
    [pytest.param(False, "fail", id="first run"), pytest.param(True, "recopy", id="later run")],
)
def test_a_remote_topic_that_another_client_recreates_in_mid_copy_is_left_to_the_next_run(
    copied: bool, policy: str, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MirrorMaker 2 situation 9, unseen: nothing is written into another client's topic."""
    topic, other = (pair.topic(it, named("first", 30)) for it in ("lost", "other"))
    flow = pair.flow([topic, other], on_target_topic_lost=policy, writers=1, fetch_max_bytes=1)
    if copied:
        copy_now(flow)
    for number in range(5):
        for name in (topic, other):
            pair.produce(name, named(f"second {number}", 10))
    commit = TransactionalWriter.commit
    commits = []

    def recreate_then_commit(writer: TransactionalWriter, waits: Waits) -> object:
        commits.append(writer)
        if len(commits) == 3:
            recreate_topic(pair.backup, remote(flow, topic))
            produce(pair.backup.bootstrap, remote(flow, topic), named("foreign", 3))
        return commit(writer, waits)

    monkeypatch.setattr(TransactionalWriter, "commit", recreate_then_commit)
    # Each batch of records is a transaction.
    monkeypatch.setattr(TransactionalWriter, "must_commit", True)

    (problem,) = failures(copy_now(flow, "run-2"))

    assert problem.startswith(f"{topic}-0 ")
    assert "deleted and recreated since it was planned" in problem
    assert values(pair.backup, remote(flow, topic)) == told("foreign", 3)
    pair.assert_same(flow, other)
    remarks = plan_now(flow, "run-3").remarks
    if policy == "fail":
        assert [it.topic for it in remarks.refused] == [topic]
    assert values(pair.backup, remote(flow, topic)) == told("foreign", 3)


@pytest.mark.parametrize(
    ("again", "offsets"), [(False, "translated"), (True, "preserved")], ids=["deleted", "recreated"]
)
def test_a_run_that_copies_nothing_into_a_topic_does_not_prove_one_that_another_client_takes_away(
    again: bool, offsets: str, pair: Pair
) -> None:
    topic, other = (pair.topic(it, named("first", 30)) for it in ("idle", "busy"))
    flow = pair.flow([topic, other], offsets=offsets)
    prove(flow)
    if again:
        pair.produce(other, named("second", 10))
    run = Run(flow, "run-2")
    run.plan()
    copy_planned(flow, run.sync_topics())

    (recreate_topic if again else delete_topic)(pair.backup, remote(flow, topic))

    with pytest.raises(VerificationFailed, match=f"{remote(flow, topic)}: another client has"):
        run.verify(NO_SPARK)
    assert [it.topic for it in run.proved_topics()] == [other]
    # Its asset would be updated by a task that is cleared hours later.
    delete_topic(pair.backup, remote(flow, other))
    assert run.proved_topics() == []
    until = {it.topic: it.verified_until for it in report_of(flow, "run-2").measures.partitions}
    assert until[topic] < until[other]


# Partitions


def test_a_remote_topic_with_too_few_partitions_is_grown(pair: Pair) -> None:
    """MirrorMaker 2 situation 7: the producer waits for the missing partitions for ever."""
    topic = pair.topic("few", named("first", 40), partitions=4)
    flow = pair.flow([topic])
    create_topic(pair.backup.bootstrap, remote(flow, topic), partitions=1)

    assert failures(copy_now(flow)) == []

    pair.assert_same(flow, topic)


def test_a_remote_topic_with_more_partitions_is_noted_and_filled_as_the_source(pair: Pair) -> None:
    """MirrorMaker 2 situation 8: keys go elsewhere on the target, unnoticed."""
    topic = pair.topic("more", named("first", 20), partitions=2)
    flow = pair.flow([topic])
    create_topic(pair.backup.bootstrap, remote(flow, topic), partitions=3)

    plan = plan_now(flow)

    assert failures(copy_planned(flow, plan)) == []
    (note,) = plan.remarks.notes
    assert "has 3 partitions, the source's topic has 2" in note.message
    have = content(pair.copied(flow, topic))
    assert have == content(read_all(pair.primary.bootstrap, topic)) | {2: []}


def test_topics_whose_names_are_swapped_are_refused_and_go_on_under_their_own(pair: Pair) -> None:
    first, second = (pair.topic(name, named(name, 10)) for name in ("first", "second"))
    names = {topic: pair.unique("copy") for topic in (first, second)}
    assert not failures(copy_now(pair.flow([*names], topics_rename=names)))
    for topic in names:
        pair.produce(topic, named("more", 5))

    swapped = dict(zip(names, reversed(names.values()), strict=True))
    for policy in ("fail", "append"):
        other = pair.flow([*names], topics_rename=swapped, on_source_topic_recreated=policy)
        plan = plan_now(other, f"swapped-{policy}")
        assert {refusal.topic for refusal in plan.remarks.refused} == {*names}
        for refusal in plan.remarks.refused:
            assert "have changed (topics.rename" in refusal.reason
            assert f"{refusal.topic}: {names[refusal.topic]}" in refusal.advice
        assert not plan.ranges

    assert not failures(copy_now(pair.flow([*names], topics_rename=names), "again"))
    for topic, copy in names.items():
        assert_same(pair.primary, topic, pair.backup, copy)


# Foreign records


@pytest.mark.parametrize("policy", ["fail", "adopt"])
def test_a_remote_topic_with_foreign_records_is_left_alone_or_gone_on_with(
    policy: str, pair: Pair
) -> None:
    """MirrorMaker 2 situation 10: under identity naming records of others interleave with the copy."""
    topic, other = (pair.topic(it, named("first", 10)) for it in ("foreign", "other"))
    create_topic(pair.backup.bootstrap, topic)
    produce(pair.backup.bootstrap, topic, named("foreign", 5))
    flow = pair.flow(
        [topic, other],
        on_foreign_records=policy,
        replication_policy_class="IdentityReplicationPolicy",
    )

    plan = plan_now(flow)
    assert failures(copy_planned(flow, plan)) == []

    assert_same(pair.primary, other, pair.backup, other)
    if policy == "fail":
        (refusal,) = plan.remarks.refused
        assert refusal.topic == topic
        assert values(pair.backup, topic) == told("foreign", 5)
    else:
        assert plan.remarks.refused == ()
        pair.produce(topic, named("second", 10))
        assert failures(copy_now(flow, "run-2")) == []
        have = told("foreign", 5) + told("first", 10) + told("second", 10)
        assert values(pair.backup, topic) == have


# Topics that cannot be created


def test_a_remote_topic_that_cannot_be_created_is_named_and_the_others_are_copied(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MirrorMaker 2 situation 15: a warning at each refresh, while the task waits for the topic."""
    topic, other = (pair.topic(it, named("first", 10)) for it in ("impossible", "other"))
    flow = pair.flow([topic, other])
    # In the names of metrics a dot and an underscore are the same: brokers refuse the second one.
    create_topic(pair.backup.bootstrap, f"{flow.source.alias}_{topic}")

    plan = plan_now(flow)

    (refusal,) = plan.remarks.refused
    assert refusal.topic == topic
    assert remote(flow, topic) in refusal.reason
    assert failures(copy_planned(flow, plan)) == []
    pair.assert_same(flow, other)
    # Who verifies the others hears of it too.
    monkeypatch.setattr(SparkOnDemand, "__call__", lambda _: None)
    shown = ferry("verify", "--config", flow.file, "--run-id", "run-1")
    assert (shown.returncode, "verified: 10 records" in shown.stdout) == (0, True), shown.stderr
    assert f"REFUSED {topic}: " in shown.stdout


def test_with_more_replicas_than_brokers_the_plan_step_says_so(pair: Pair) -> None:
    """MirrorMaker 2 situation 15: the replication factor that no cluster of this size can give."""
    topic = pair.topic("replicas")
    flow = pair.flow([topic], replication_factor=4)

    with pytest.raises(
        FerryError, match=r"replication\.factor: is 4, and backup has \d live broker"
    ):
        plan_now(flow)


# Names


def test_every_topic_that_is_not_mirrored_is_listed_with_the_reason(pair: Pair) -> None:
    """MirrorMaker 2 situation 12: some names are never mirrored, even if the flow names them."""
    plain = pair.unique("named")
    names = [f"__{plain}", f".{plain}", f"mm2-{plain}.internal", f"{plain}.checkpoints.internal"]
    for name in [plain, *names]:
        create_topic(pair.primary.bootstrap, name)
        pair.produce(name, named("first", 3))
    flow = pair.flow([f".*{plain}.*"])

    plan: Plan = plan_now(flow)
    assert failures(copy_planned(flow, plan)) == []

    skipped = {skipped.topic: skipped.reason for skipped in plan.remarks.skipped}
    copied = {range_.topic for range_ in plan.ranges}
    assert skipped.keys() | copied >= {plain, *names}
    assert skipped.keys() & copied == set()
    assert all(skipped.values())
    assert plain in copied
    for name in copied:
        pair.assert_same(flow, name)


# Writes that are refused


@pytest.fixture
def own_brokers(folder: Path) -> Iterator[Brokers]:
    """A target whose brokers may lag, which would slow down other tests."""
    target = Brokers(folder / "target")
    try:
        yield target.start().wait_ready()
    finally:
        target.wipe()


@pytest.mark.long
def test_a_topic_without_enough_replicas_is_named_and_the_others_are_copied(
    folder: Path, primary: KafkaCluster, own_brokers: Brokers, unique: Unique
) -> None:
    target, lagging = own_brokers, 2
    topic, other = unique("unsafe"), unique("other")
    for name in (topic, other):
        create_topic(primary.bootstrap, name, PARTITIONS)
        produce(primary.bootstrap, name, named("first", 30))
    flow = make_flow(
        folder,
        primary,
        target,
        [topic, other],
        topics_configs={
            topic: {"min.insync.replicas": len(target.brokers)},
            other: {"min.insync.replicas": len(target.brokers) - 1},
        },
        # Both topics are in one transaction.
        writers=1,
        partition_wait_ms=2_000,
    )
    copies = [remote(flow, topic), remote(flow, other)]
    prove(flow)

    for name in (topic, other):
        produce(primary.bootstrap, name, named("second", 30))
    with frozen(target.brokers[lagging]):
        left = [{1, 3}] * PARTITIONS
        wait_until(lambda: all(in_sync(target, name) == left for name in copies), 60)
        outcomes = copy_now(flow, "run-2")

        problems = failures(outcomes)
        partitions = [f"{topic}-{number}" for number in range(PARTITIONS)]
        assert sorted(problem.split()[0] for problem in problems) == partitions
        assert all("NOT_ENOUGH_REPLICAS" in problem for problem in problems)
        assert {outcome.failure.transient for outcome in outcomes if outcome.failure} == {True}
        assert_same(primary, other, target, remote(flow, other))
        # What is copied is proved, and only what is not copied is missing.
        with pytest.raises(VerificationFailed) as caught:
            verified(flow, "run-2")
        assert topic in str(caught.value)
        assert other not in str(caught.value)

    wait_in_sync(target)
    prove(flow, "run-3")
    assert_same(primary, topic, target, remote(flow, topic))


@pytest.mark.long
@pytest.mark.parametrize("offsets", ["translated", "preserved"])
def test_a_partition_without_a_leader_is_not_proved_though_nothing_is_new_there(
    offsets: str, folder: Path, primary: KafkaCluster, own_brokers: Brokers, unique: Unique
) -> None:
    topic = unique("alone")
    create_topic(primary.bootstrap, topic, 2)
    flow = make_flow(
        folder, primary, own_brokers, [topic], offsets=offsets, partition_wait_ms=3_000
    )
    client = AdminClient({"bootstrap.servers": own_brokers.bootstrap})
    new = NewTopic(remote(flow, topic), 2, replica_assignment=[[1], [3]])
    client.create_topics([new])[new.topic].result()
    wait_for_topic(own_brokers.bootstrap, new.topic, 2)
    for partition in range(2):
        produce(primary.bootstrap, topic, [Record(value=b"x", partition=partition)])
    prove(flow)

    own_brokers.brokers[3].stop()
    wait_until(lambda: leaders(own_brokers, new.topic)[1][0] < 0)
    assert failures(copy_now(flow, "run-2")) == []
    with pytest.raises(
        VerificationFailed, match="it was not read on the target: the partition has"
    ):
        verified(flow, "run-2")


def in_sync(cluster: KafkaCluster, topic: str) -> list[set[int]]:
    """By partition, the brokers whose replicas are in sync."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    found = client.list_topics(topic, timeout=10).topics[topic].partitions
    return [{*found[number].isrs} for number in sorted(found)]


def test_a_target_whose_disk_is_full_fails_the_run_and_costs_no_record(
    folder: Path, primary: KafkaCluster, unique: Unique
) -> None:
    topic = unique("full")
    create_topic(primary.bootstrap, topic)
    target = Broker(folder / "target")
    with target:
        flow = make_flow(
            folder,
            primary,
            target,
            [topic],
            transaction_max_bytes=60_000,
            fetch_max_bytes=60_000,
            partition_wait_ms=3_000,
        )
        produce(primary.bootstrap, topic, named("first", 1))
        assert failures(copy_now(flow)) == []
        for number in range(20):
            produce(primary.bootstrap, topic, [Record(value=b"%d " % number + NOISE)])
        plan = plan_now(flow, "run-2")
        assert target.pid is not None
        # Writing more than this to a file fails, as on a full disk.
        psutil.Process(target.pid).rlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))

        (problem,) = failures(copy_planned(flow, plan))

        assert problem.startswith(f"{topic}-0 ")
        target.restart()
        assert 1 < sum(row["records"] for row in ledger_rows(flow)) < 21
        assert failures(copy_now(flow, "run-3")) == []
        assert_same(primary, topic, target, remote(flow, topic))
    target.wipe()


@pytest.mark.parametrize("there", [True, False], ids=["empty", "missing"])
def test_of_two_flows_into_one_topic_the_first_that_marks_it_copies_and_the_other_is_refused(
    there: bool, pair: Pair
) -> None:
    """Two hosts name one cluster differently; an hourly timetable triggers both at once."""
    topic = pair.topic("twice", named("first", 40))
    here, elsewhere = (pair.flow([topic], into=into) for into in ("here", "elsewhere"))
    if there:
        create_topic(pair.backup.bootstrap, remote(here, topic))
    first, second = Run(here, "run-1"), Run(elsewhere, "run-1")
    first.plan()
    second.plan()
    plan = first.sync_topics()
    (refusal,) = second.sync_topics().remarks.refused
    assert failures(copy_planned(here, plan)) == []
    assert (here.name in refusal.reason) == there
    assert ("another client has created it" in refusal.reason) != there

    (later,) = plan_now(elsewhere, "run-2").remarks.refused
    assert f"copied by the flow {here.name}" in later.reason
    assert copy_now(here, "run-2") == []
    pair.assert_same(here, topic)


def test_what_a_flow_copies_that_shares_a_topic_is_foreign_to_one_that_does_not(pair: Pair) -> None:
    topic = pair.topic("shared", named("first", 40))
    owner = pair.flow([topic], into="owner")
    copy_now(owner)
    other = pair.topic("other", named("of another topic", 40))
    into = {other: remote(owner, topic)}
    guest = pair.flow([other], into="guest", on_foreign_records="adopt", topics_rename=into)
    assert failures(copy_now(guest)) == []
    pair.produce(topic, named("second", 10))
    copy_now(owner, "run-2")
    with pytest.raises(VerificationFailed, match="of another producer"):
        verified(owner, "run-2")


def test_no_flow_brings_records_to_a_shared_topic_that_another_flow_brings_there(
    pair: Pair,
) -> None:
    """As a flow under a new name would that shares its topics, since it is told to."""
    topic = pair.topic("twice", named("first", 40))
    first = pair.flow([topic], into="first")
    assert failures(copy_now(first)) == []

    again = pair.flow([topic], into="again", on_foreign_records="adopt")
    (refusal,) = plan_now(again).remarks.refused

    assert f"the flow {first.name} brings the same records" in refusal.reason


def test_of_two_flows_with_two_ledgers_that_begin_at_once_only_the_first_copies_to_a_topic_of_both(
    pair: Pair, tmp_path: Path, unique: Unique
) -> None:
    """The topic exists and is empty, so that neither creates it, and each finds it free when it plans."""
    topic = pair.topic("both", named("first", 20))
    create_topic(pair.backup.bootstrap, topic)
    flows = []
    for name in ("one", "other"):
        folder = tmp_path / unique(name)
        policy = "IdentityReplicationPolicy"
        flow = make_flow(
            folder, pair.primary, pair.backup, [topic], replication_policy_class=policy
        )
        flows.append(flow)
    runs = [Run(flow, "run-1") for flow in flows]
    for run in runs:
        assert run.plan().remarks.refused == ()

    first, second = (run.sync_topics() for run in runs)

    assert first.remarks.refused == ()
    (refused,) = second.remarks.refused
    assert f"the flow {flows[0].name} has marked it first" in refused.reason
    for flow, plan in zip(flows, (first, second), strict=True):
        assert failures(copy_planned(flow, plan)) == []
    assert_same(pair.primary, topic, pair.backup, topic)
    assert plan_now(flows[1], "run-2").remarks.refused
    assert plan_now(flows[0], "run-2").remarks.refused == ()
