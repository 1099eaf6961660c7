"""Remote topics whose source topics are gone: deleted in the end, and never one too many."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.model import Plan, position_group
from kafka_ferry.runs import Run, run_plan
from kafka_ferry.runs.publish.lag import readable_lag
from kafka_ferry.runs.sync_topics import delete_topics, retire
from kafka_ferry.wire.transactions.producer import TransactionalProducer
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.access import deny
from tests.support.records.builders import (
    create_topic,
    delete_topic,
    produce,
    read_all,
    recreate_topic,
)
from tests.support.records.histories import named, told, values
from tests.support.runs.flows import copy_now, copy_planned, failures, ledger_of, plan_now, remote
from tests.support.runs.killing import Killed
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.topologies import delete_groups

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A broker on which a client without a login is bound by ACLs."""
    home = tmp_path_factory.mktemp("strict")
    with Broker(home, config={"super.users": "User:nobody"}) as broker:
        yield broker


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets so many hours pass, for the planner and for what deletes."""
    passed = 0.0

    def pass_by(hours: float) -> None:
        nonlocal passed
        passed += hours
        moved = round(passed * HOUR_MS)
        for module, name in ((run_plan, "now_ms"), (retire, "_judged_at")):
            monkeypatch.setattr(module, name, lambda: time.time_ns() // 1_000_000 + moved)

    return pass_by


def retiring_flow(pair: Pair, *topics: str, **options: object) -> Flow:
    """A flow that retires what has been gone for two hours."""
    options = {"on_source_topic_deleted": "retire", "retire_after_ms": 2 * HOUR_MS} | options
    return pair.flow(topics, **options)


def exists(broker: KafkaCluster, topic: str) -> bool:
    """Whether there is such a topic."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    return topic in client.list_topics(timeout=10).topics


def retired(plan: Plan) -> list[tuple[str, bool]]:
    """The topics that are retired, and whether their time has come."""
    return [(it.topic, it.is_due(plan.at)) for it in plan.topics.retirements]


def test_a_copy_goes_when_its_topic_was_gone_for_long_enough_and_comes_back_with_it(
    pair: Pair, later: Callable[[float], None]
) -> None:
    topic, empty, other = (pair.topic(it) for it in ("gone", "empty", "other"))
    for name in (topic, other):
        pair.produce(name, named("first", 30))
    flow = retiring_flow(pair, topic, empty, other)
    copy_now(flow)
    for name in (topic, empty):
        delete_topic(pair.primary, name)

    first = plan_now(flow, "run-2")
    later(1)
    second = plan_now(flow, "run-3")

    gone = sorted([topic, empty])
    for plan in (first, second):
        assert retired(plan) == [(name, False) for name in gone]
    # It begins when the ledger has it: the time of a plan is only a claim.
    for it in second.topics.retirements:
        assert first.at <= it.since == it.due - 2 * HOUR_MS < second.at - HOUR_MS / 2
    assert all(exists(pair.backup, remote(flow, name)) for name in (topic, empty, other))

    later(1)
    last = plan_now(flow, "run-4")

    assert retired(last) == [(name, True) for name in gone]
    assert (last.remarks.unapplied, last.remarks.refused, last.remarks.notes) == ((), (), ())
    assert [exists(pair.backup, remote(flow, name)) for name in (topic, empty, other)] == [
        False,
        False,
        True,
    ]
    assert plan_now(flow, "run-5").topics.retirements == ()

    # A topic of the same name is a new one, copied from its start.
    create_topic(pair.primary.bootstrap, topic)
    pair.produce(topic, named("recreated", 20))
    assert failures(copy_now(flow, "run-6")) == []
    pair.assert_same(flow, topic)
    assert copy_now(flow, "run-7") == []


@pytest.mark.long
def test_a_topic_that_is_back_in_time_is_copied_on_and_missed_again_the_next_time(
    pair: Pair, later: Callable[[float], None]
) -> None:
    topic = pair.topic("back", named("first", 10))
    flow = retiring_flow(pair, topic, on_source_topic_recreated="append")
    copy_now(flow)
    delete_topic(pair.primary, topic)
    plan_now(flow, "run-2")
    later(1.5)
    create_topic(pair.primary.bootstrap, topic)
    pair.produce(topic, named("second", 10))

    assert failures(copy_now(flow, "run-3")) == []

    assert ledger_of(flow).applied().missed == {}
    assert values(pair.backup, remote(flow, topic)) == told("first", 10) + told("second", 10)
    delete_topic(pair.primary, topic)
    later(1.5)
    assert retired(plan_now(flow, "run-4")) == [(topic, False)]


def test_an_old_plan_that_is_repeated_does_not_say_that_a_topic_is_missing_which_is_back(
    pair: Pair,
) -> None:
    """Else its copy would go at once when the topic is deleted later, and no run is in between."""
    topic = pair.topic("back")
    flow = retiring_flow(pair, topic)
    plan_now(flow)
    delete_topic(pair.primary, topic)
    assert retired(plan_now(flow, "run-2")) == [(topic, False)]
    assert list(ledger_of(flow).applied().missed)
    create_topic(pair.primary.bootstrap, topic)
    plan_now(flow, "run-3")
    assert ledger_of(flow).applied().missed == {}

    Run(flow, "run-2").sync_topics()

    assert ledger_of(flow).applied().missed == {}


@pytest.mark.long
def test_turning_it_off_begins_the_time_again(pair: Pair, later: Callable[[float], None]) -> None:
    topic = pair.topic("off")
    flow = retiring_flow(pair, topic)
    plan_now(flow)
    delete_topic(pair.primary, topic)
    assert retired(plan_now(flow, "run-2")) == [(topic, False)]
    plan_now(pair.flow([topic]), "run-3")
    later(100)

    flow = retiring_flow(pair, topic)

    assert retired(plan_now(flow, "run-4")) == [(topic, False)]


def test_a_topic_that_the_flow_did_not_create_stays(pair: Pair) -> None:
    topic, theirs = (pair.topic(it, named("first", 10)) for it in ("theirs", "replaced"))
    flow = retiring_flow(pair, topic, theirs, retire_after_ms=0)
    create_topic(pair.backup.bootstrap, remote(flow, topic))
    copy_now(flow)
    recreate_topic(pair.backup, remote(flow, theirs))
    for name in (topic, theirs):
        delete_topic(pair.primary, name)

    plan = plan_now(flow, "run-2")

    assert (plan.topics.retirements, plan.remarks.refused) == ((), ())
    assert sorted(note.topic for note in plan.remarks.notes) == sorted([topic, theirs])
    assert all(
        "stays: this flow has not created it." in note.message for note in plan.remarks.notes
    )
    assert exists(pair.backup, remote(flow, topic))
    assert exists(pair.backup, remote(flow, theirs))


def test_a_topic_that_another_flow_copies_to_stays(
    tmp_path: Path, pair: Pair, strict: KafkaCluster
) -> None:
    """Two sources, one topic: what is gone from the one is still copied from the other."""
    topic = pair.topic("both", named("first", 10))
    flows = []
    create_topic(strict.bootstrap, topic)
    produce(strict.bootstrap, topic, named("other", 10))
    for source in (pair.primary, strict):
        home = tmp_path / pair.unique("src")
        home.mkdir()
        flow = retiring_flow(
            replace(pair, folder=home, primary=source),
            topic,
            retire_after_ms=0,
            replication_policy_class="IdentityReplicationPolicy",
            on_foreign_records="adopt",
        )
        copy_now(flow)
        flows.append(flow)
    delete_topic(pair.primary, topic)

    (note,) = plan_now(flows[0], "run-2").remarks.notes

    assert f"stays: {flows[1].name} copies to it too." in note.message
    # As brokers forget the positions of a flow that has not run for a week.
    delete_groups(pair.backup, [position_group(flows[1].name)])
    (note,) = plan_now(flows[0], "run-3").remarks.notes
    assert "stays: it holds records that this flow has not copied" in note.message
    assert exists(pair.backup, topic)


def test_a_copy_with_an_applications_own_records_stays(pair: Pair) -> None:
    """They may be nowhere else: written before the topic was missed, or since the plan."""
    before, since, last = (pair.topic(it, named("first", 10)) for it in ("before", "since", "last"))
    flow = retiring_flow(pair, before, since, last, retire_after_ms=0, removals_max=1.0)
    copy_now(flow)
    produce(pair.backup.bootstrap, remote(flow, before), named("own", 1))
    for name in (before, last):
        pair.produce(name, named("second", 10))
    copy_now(flow, "run-2")
    for name in (before, since, last):
        delete_topic(pair.primary, name)
    run = Run(flow, "run-3")
    plan = run.plan()
    assert retired(plan) == [(name, True) for name in sorted([since, last])]
    assert [note.topic for note in plan.remarks.notes] == [before]

    produce(pair.backup.bootstrap, remote(flow, since), named("own", 1))
    unapplied = run.sync_topics().remarks.unapplied

    assert [it.split(":")[0] for it in unapplied] == [remote(flow, since)]
    assert [exists(pair.backup, remote(flow, it)) for it in (before, since, last)] == [
        True,
        True,
        False,
    ]


def test_a_record_that_an_application_writes_before_the_marker_of_a_copys_transaction_stays(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pair.topic("beside", named("first", 10))
    flow = retiring_flow(pair, topic, retire_after_ms=0, on_foreign_records="adopt")
    end, there = TransactionalProducer.end, remote(flow, topic)

    def late(self: TransactionalProducer, *, commit: bool) -> None:
        if read_all(pair.backup.bootstrap, there, isolation="read_uncommitted")[0]:
            produce(pair.backup.bootstrap, there, named("own", 1))
        end(self, commit=commit)

    plan = plan_now(flow)
    with monkeypatch.context() as patch:
        patch.setattr(TransactionalProducer, "end", late)
        assert failures(copy_planned(flow, plan)) == []
    assert values(pair.backup, there) == told("first", 10) + told("own", 1)
    delete_topic(pair.primary, topic)

    (note,) = plan_now(flow, "run-2").remarks.notes

    assert "it holds records that this flow has not copied" in note.message
    assert exists(pair.backup, there)


@pytest.mark.long
def test_a_copy_of_another_cluster_stays(pair: Pair, strict: KafkaCluster) -> None:
    """The alias stands for another cluster by now, which never had the topic."""
    topic = pair.topic("moved")
    flow = retiring_flow(pair, topic, retire_after_ms=0)
    plan_now(flow)
    moved = retiring_flow(replace(pair, primary=strict), topic, retire_after_ms=0)

    plan = plan_now(moved, "run-2")

    assert plan.topics.retirements == ()
    assert any(f"a topic ({remote(flow, topic)})" in note.message for note in plan.remarks.notes)
    assert exists(pair.backup, remote(flow, topic))


def test_a_topic_that_is_only_hidden_is_no_topic_that_is_gone(
    folder: Path, strict: KafkaCluster, backup: KafkaCluster, unique: Unique
) -> None:
    topic = unique("hidden")
    create_topic(strict.bootstrap, topic)
    produce(strict.bootstrap, topic, named("first", 10))
    flow = retiring_flow(
        Pair(folder, strict, backup, unique),
        topic,
        retire_after_ms=0,
        sync_topic_acls_enabled=False,
    )
    copy_now(flow)
    deny(strict, f"topic {topic}", "DESCRIBE")

    plan = plan_now(flow, "run-2")

    assert (plan.topics.retirements, plan.remarks.notes) == ((), ())
    (refusal,) = plan.remarks.refused
    assert "the flow may no longer see the topic on the source" in refusal.reason
    assert exists(backup, remote(flow, topic))
    behind = readable_lag(flow)
    assert behind.deleted == ()
    assert "does not let the flow see whether it still has this topic" in str(behind.refused[topic])


@pytest.mark.long
def test_where_groups_may_be_hidden_other_flows_into_a_topic_are_unknown(
    folder: Path, primary: KafkaCluster, strict: KafkaCluster, unique: Unique
) -> None:
    """A broker leaves the groups that one may not see out of its list without a word."""
    topic = unique("alone")
    create_topic(primary.bootstrap, topic)
    options = {"retire_after_ms": 0, "sync_topic_acls_enabled": False}
    flow = retiring_flow(Pair(folder, primary, strict, unique), topic, **options)
    plan_now(flow)
    delete_topic(primary, topic)
    assert retired(Run(flow, "run-2").plan()) == [(topic, True)]
    deny(strict, "cluster kafka-cluster", "DESCRIBE")

    plan = plan_now(flow, "run-3")

    assert plan.topics.retirements == ()
    assert any("Grant DESCRIBE on the cluster: " in note.message for note in plan.remarks.notes)
    assert exists(strict, remote(flow, topic))


def test_a_topic_that_is_back_since_the_plan_keeps_its_copy(pair: Pair) -> None:
    topic = pair.topic("approved")
    flow = retiring_flow(pair, topic, retire_after_ms=0)
    plan_now(flow)
    delete_topic(pair.primary, topic)
    run = Run(flow, "run-2")
    assert retired(run.plan()) == [(topic, True)]
    create_topic(pair.primary.bootstrap, topic)

    (sentence,) = run.sync_topics().remarks.unapplied

    assert f"{topic} is on the source again" in sentence
    assert exists(pair.backup, remote(flow, topic))


def test_a_topic_that_one_broker_alone_does_not_know_keeps_its_copy(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pair.topic("behind")
    flow = retiring_flow(pair, topic, retire_after_ms=0)
    plan_now(flow)
    # As a broker says that is behind its controller.
    topic_names = ClusterControl.topic_names
    monkeypatch.setattr(
        ClusterControl, "topic_names", lambda self: [it for it in topic_names(self) if it != topic]
    )
    monkeypatch.setattr(ClusterControl, "unknown", lambda _, names: {topic} & {*names})
    run = Run(flow, "run-2")
    assert retired(run.plan()) == [(topic, True)]

    (sentence,) = run.sync_topics().remarks.unapplied

    assert "or on some of its brokers still" in sentence
    assert exists(pair.backup, remote(flow, topic))


@pytest.mark.short("deleted-preserved")
@pytest.mark.parametrize(
    ("call", "offsets"),
    [("missed", "preserved"), ("released", "translated"), ("deleted", "preserved")],
)
def test_a_run_killed_while_it_retires_a_topic_leaves_the_rest_to_the_next_run(
    call: str, offsets: str, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pair.topic("dying", named("first", 10))
    flow = retiring_flow(pair, topic, retire_after_ms=0, offsets=offsets)
    copy_now(flow)
    delete_topic(pair.primary, topic)
    owner, name = {
        "missed": (retire, "append_entry"),
        "released": (delete_topics, "append_entry"),
        "deleted": (ClusterControl, "delete_topics"),
    }[call]
    function = getattr(owner, name)

    def last_words(*args: object, **more: object) -> None:
        function(*args, **more)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, last_words)
        with pytest.raises(Killed):
            plan_now(flow, "run-2")

    plan = plan_now(flow, "run-3")

    assert (plan.remarks.unapplied, plan.remarks.refused, plan.remarks.notes) == ((), (), ())
    assert not exists(pair.backup, remote(flow, topic))
    create_topic(pair.primary.bootstrap, topic)
    pair.produce(topic, named("recreated", 20))
    plan = plan_now(flow, "run-4")
    assert plan.remarks.refused == ()
    assert failures(copy_planned(flow, plan)) == []
    pair.assert_same(flow, topic)
