"""A run commits translated offsets on the target: where, when, and when not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import FerryError, GroupsFailed
from kafka_ferry.groups.decisions import FROM_TARGET
from kafka_ferry.groups.moves import GroupMoves, PartitionMove
from kafka_ferry.ledger import GroupsEntry, SyncedOffset, append_entry
from kafka_ferry.model import TopicPartition as Partition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.model.plan import save_plan
from kafka_ferry.model.removals import OffsetDeletion
from kafka_ferry.runs import STEPS, Run
from kafka_ferry.runs.failover.failover import failover
from kafka_ferry.runs.publish.publish import publish_run
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.sync_groups.sync import move_groups
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import (
    Record,
    add_partitions,
    create_topic,
    delete_topic,
    produce,
    recreate_topic,
)
from tests.support.runs.flows import copy_now, failures, ledger_of, remote
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.proof import NO_SPARK
from tests.support.runs.topologies import delete_groups
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("without_spark")

Offsets = Mapping[tuple[str, int], int]


def commit(broker: KafkaCluster, group: str, offsets: Offsets, *, metadata: str = "") -> None:
    """Commit as a consumer without a subscription does."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 3})
    try:
        wanted = [
            TopicPartition(topic, number, offset, metadata)
            for (topic, number), offset in offsets.items()
        ]
        for done in consumer.commit(offsets=wanted, asynchronous=False) or ():
            assert done.error is None, done.error
    finally:
        consumer.close()


def committed(broker: KafkaCluster, group: str) -> dict[tuple[str, int], int]:
    """What a group has committed, as Kafka's own client reads it."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    future = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
    try:
        found = future.result().topic_partitions or ()
    except KafkaException:
        return {}
    return {(tp.topic, tp.partition): tp.offset for tp in found}


@contextmanager
def member(broker: KafkaCluster, group: str, topic: str, **config: str) -> Iterator[Consumer]:
    """A consumer that is in the group meanwhile."""
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 3,
    }
    consumer = Consumer(settings | {name.replace("_", "."): v for name, v in config.items()})
    consumer.subscribe([topic])
    try:
        first = None
        while first is None and not consumer.assignment():
            first = consumer.poll(0.1)
        if first is not None:
            consumer.seek(TopicPartition(topic, first.partition() or 0, first.offset() or 0))
        yield consumer
    finally:
        consumer.close()


def write(broker: KafkaCluster, topic: str, count: int, partition: int = 0) -> None:
    records = [Record(value=b"%d" % i, partition=partition) for i in range(count)]
    produce(broker.bootstrap, topic, records)


def copied(flow: Flow, run: str) -> Run:
    """A run whose records are copied and verified."""
    assert not failures(copy_now(flow, run))
    this = Run(flow, run)
    this.verify(NO_SPARK)
    return this


def synced(flow: Flow, run: str) -> GroupMoves:
    """What became of the groups in a run."""
    return copied(flow, run).sync_groups()


def only(moves: GroupMoves) -> PartitionMove:
    """The one partition of the one group."""
    ((_, one),) = moves.partitions()
    return one


@pytest.fixture
def group(unique: Unique) -> str:
    return unique("app")


@pytest.fixture
def topic(primary: KafkaCluster, unique: Unique) -> str:
    """A topic with ten records in each of two partitions."""
    name = unique("orders")
    create_topic(primary.bootstrap, name, partitions=2)
    for partition in (0, 1):
        write(primary, name, 10, partition)
    return name


@pytest.fixture
def syncing(pair: Pair, group: str) -> Callable[..., Flow]:
    """Makes flows of topics that commit the offsets of ``group``, and write nothing else."""

    def make(*topics: str, **options: object) -> Flow:
        ours = {
            "groups": [group],
            "sync_group_offsets_enabled": True,
            "emit_checkpoints_enabled": False,
            "emit_heartbeats_enabled": False,
        }
        return pair.flow(topics, **(ours | options))

    return make


@pytest.fixture
def flow(syncing: Callable[..., Flow], topic: str) -> Flow:
    return syncing(topic)


def test_a_groups_offsets_are_on_the_target_after_a_run_with_their_metadata(
    pair: Pair, flow: Flow, topic: str, group: str
) -> None:
    commit(pair.primary, group, {(topic, 0): 4, (topic, 1): 10}, metadata="since tuesday")

    moves = synced(flow, "run-1")

    (move,) = moves.groups
    assert [(one.source.partition, one.offset, one.action) for one in move.partitions] == [
        (0, 4, "written"),
        (1, 10, "written"),
    ]
    assert [one.lag for one in move.partitions] == [6, 0]
    there = remote(flow, topic)
    assert committed(pair.backup, group) == {(there, 0): 4, (there, 1): 10}
    with member(pair.backup, group, there) as consumer:
        (stored,) = consumer.committed([TopicPartition(there, 0)], timeout=10)
    assert stored.metadata == "since tuesday"


def test_a_consumer_of_the_new_protocol_goes_on_where_it_was(
    pair: Pair, flow: Flow, topic: str, group: str
) -> None:
    with member(pair.primary, group, topic, group_protocol="consumer") as consumer:
        read = [consumer.poll(10) for _ in range(7)]
        consumer.commit(asynchronous=False)
    done = [(message.partition(), message.value()) for message in read if message]

    moves = synced(flow, "run-1")

    assert {move.group.type for move in moves.groups} == {"consumer"}
    with member(pair.backup, group, remote(flow, topic), group_protocol="consumer") as consumer:
        done += [(m.partition(), m.value()) for m in (consumer.poll(10) for _ in range(13)) if m]
    assert sorted(done) == sorted((p, b"%d" % i) for p in (0, 1) for i in range(10))


@pytest.mark.long
def test_a_share_group_begins_where_it_had_begun(
    pair: Pair, flow: Flow, topic: str, group: str
) -> None:
    shared, here = Group(group, "share"), Partition(topic, 1)
    with GroupControl(flow.source) as control:
        assert not control.commit({shared: {here: Committed(6)}})

    assert only(synced(flow, "run-1")).action == "written"

    there = Partition(remote(flow, topic), 1)
    with GroupControl(flow.target) as control:
        (found,) = control.committed_offsets([shared]).values()
    assert not isinstance(found, FerryError)
    assert {tp: was.offset for tp, was in found.items()} == {there: 6}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_that_is_in_use_on_the_target_is_left_alone_until_it_is_not(
    pair: Pair, flow: Flow, topic: str, group: str, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(pair.primary, group, {(topic, 0): 4})
    there = remote(flow, topic)
    first = copied(flow, "run-1")
    with member(pair.backup, group, there, group_protocol=protocol):
        moves = first.sync_groups()
        with monkeypatch.context() as before:
            # The group was looked at before it had members.
            idle = {group: Group(group, state="Empty")}
            before.setattr(GroupControl, "describe", lambda *_: idle)
            late = first.sync_groups()

    assert only(moves).action == only(late).action == "held"
    assert moves.groups[0].reason.startswith("it is in use on backup (state ")
    assert late.groups[0].reason == "it was put to use on backup just now."
    assert committed(pair.backup, group) == {}
    assert only(first.sync_groups()).action == "written"
    assert committed(pair.backup, group) == {(there, 0): 4}


def test_a_group_that_was_set_back_on_the_source_stays_where_it_is_until_it_is_there_again(
    pair: Pair, flow: Flow, topic: str, group: str
) -> None:
    there = remote(flow, topic)
    commit(pair.primary, group, {(topic, 0): 8})
    synced(flow, "run-1")
    commit(pair.primary, group, {(topic, 0): 2})
    (tried,) = failover(flow, [group], dry_run=True).groups

    held = only(synced(flow, "run-2"))

    assert (held.action, held.offset) == ("held", 2)
    assert held.reason == (
        "the group was set back on the source from 8 to 2; on.source.group.reset: keep leaves 8 on "
        "the target."
    )
    assert (tried.partitions[0].offset, tried.partitions[0].reason) == (8, held.reason)
    assert committed(pair.backup, group) == {(there, 0): 8}
    commit(pair.primary, group, {(topic, 0): 9})
    assert only(synced(flow, "run-3")).action == "written"
    assert committed(pair.backup, group) == {(there, 0): 9}


def test_a_group_that_was_set_back_on_the_source_is_followed_by_policy(
    pair: Pair, syncing: Callable[..., Flow], topic: str, group: str
) -> None:
    flow = syncing(topic, on_source_group_reset="follow")
    commit(pair.primary, group, {(topic, 0): 8, (topic, 1): 8})
    synced(flow, "run-1")
    there = remote(flow, topic)
    commit(pair.backup, group, {(there, 1): 9})
    commit(pair.primary, group, {(topic, 0): 2, (topic, 1): 2})
    (tried,) = failover(flow, [group], dry_run=True).groups
    assert [one.offset for one in tried.partitions] == [2, 9]

    (move,) = synced(flow, "run-2").groups

    assert [one.action for one in move.partitions] == ["written", "held"]
    assert move.partitions[0].reason == "the group was set back on the source from 8 to 2."
    # The other one was used on the target since.
    assert committed(pair.backup, group) == {(there, 0): 2, (there, 1): 9}


def test_a_group_of_that_name_on_another_cluster_sets_nothing_back(
    pair: Pair, syncing: Callable[..., Flow], topic: str, group: str
) -> None:
    """Brokers without ids of topics may give the same names to others."""
    flow = syncing(topic, on_source_group_reset="follow")
    commit(pair.primary, group, {(topic, 0): 8})
    synced(flow, "run-1")
    there = remote(flow, topic)
    known = ledger_of(flow).synced_groups()[group]
    offsets: dict[str, dict[int, SyncedOffset]] = {}
    for (topic_id, number), offset in known.items():
        offsets.setdefault(topic_id, {})[number] = offset
    append_entry(
        flow,
        GroupsEntry(
            flow=flow.name, run="run-1", at=1, synced={group: offsets}, source_cluster_id="another"
        ),
    )
    commit(pair.primary, group, {(topic, 0): 2})

    assert only(synced(flow, "run-2")).action == "held"
    assert committed(pair.backup, group) == {(there, 0): 8}


def test_what_groups_have_committed_on_another_cluster_than_the_planned_one_moves_nothing(
    pair: Pair, syncing: Callable[..., Flow], topic: str, group: str
) -> None:
    """Brokers without ids of topics may give the same names to others."""
    flow = syncing(topic)
    commit(pair.primary, group, {(topic, 0): 8})
    run = copied(flow, "run-1")
    # The source's alias leads elsewhere by now.
    elsewhere = {**flow.source.properties, "bootstrap.servers": pair.backup.bootstrap}
    moved = flow.source.model_copy(update={"properties": elsewhere})

    with pytest.raises(FerryError, match=r"was .* when the run was planned: no group was moved"):
        Run(flow.model_copy(update={"source": moved}), "run-1").sync_groups()

    assert committed(pair.backup, group) == {}
    assert only(run.sync_groups()).action == "written"


def test_no_group_passes_what_is_verified(pair: Pair, flow: Flow, topic: str, group: str) -> None:
    there = remote(flow, topic)
    synced(flow, "run-1")
    write(pair.primary, topic, 10)
    commit(pair.primary, group, {(topic, 0): 20})
    assert not failures(copy_now(flow, "run-2"))
    this = Run(flow, "run-2")

    after = only(this.sync_groups())
    assert (after.offset, after.kind, after.lag) == (10, "clamped", 0)
    assert committed(pair.backup, group) == {(there, 0): 10}

    this.verify(NO_SPARK)
    # The transactions' markers take offsets on the target: one ended the first run's records.
    there_now = only(this.sync_groups())
    assert there_now.offset == committed(pair.backup, group)[there, 0] == 21


def test_a_record_that_comes_while_the_logs_are_looked_at_is_passed_by_no_group(
    syncing: Callable[..., Flow], pair: Pair, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pair.topic("grows", [Record(value=b"old")])
    flow = syncing(topic)
    copied(flow, "run-1")
    copy = remote(flow, topic)
    for broker, name in ((pair.primary, topic), (pair.backup, copy)):
        add_partitions(broker, name, 2)
    commit(pair.primary, group, {(topic, 1): 0})
    look, is_left = ClusterControl.log_bounds, [True]

    def bounds(*args: Any, **options: Any) -> Any:
        found = look(*args, **options)
        if is_left and is_left.pop():
            # Another run copies it, whose part of the ledger is not read yet.
            for broker, name in ((pair.primary, topic), (pair.backup, copy)):
                produce(broker.bootstrap, name, [Record(value=b"new", partition=1)])
        return found

    monkeypatch.setattr(ClusterControl, "log_bounds", bounds)
    move_groups(flow, ledger_of(flow), run="run-2", write=True)

    assert not is_left
    assert committed(pair.backup, group).get((copy, 1), 0) == 0


def test_a_run_without_news_commits_nothing_and_leaves_the_ledger_as_it_is(
    pair: Pair, flow: Flow, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(pair.primary, group, {(topic, 0): 4})
    this = copied(flow, "run-1")
    this.sync_groups()
    before = groups_entries(flow)
    commits = []
    sent = GroupControl.commit
    monkeypatch.setattr(GroupControl, "commit", lambda s, o: commits.append(o) or sent(s, o))

    for is_due in (False, True):
        monkeypatch.setattr(
            "kafka_ferry.runs.sync_groups.commit_offsets.is_renewal_due",
            lambda *_, d=is_due, **__: d,
        )
        assert only(this.sync_groups()).action == "unchanged"
        # Once a day what has not changed is sent again: a broker forgets idle groups.
        assert len(commits) == is_due

    assert groups_entries(flow) == before == 1
    client = AdminClient({"bootstrap.servers": pair.backup.bootstrap})
    client.delete_consumer_groups([group])[group].result()
    assert only(this.sync_groups()).action == "written"
    assert committed(pair.backup, group) == {(remote(flow, topic), 0): 4}


def test_a_group_that_is_deleted_on_the_source_stays_on_the_target(
    pair: Pair, flow: Flow, topic: str, group: str
) -> None:
    commit(pair.primary, group, {(topic, 0): 4})
    this = copied(flow, "run-1")
    this.sync_groups()
    delete_groups(pair.primary, [group])

    assert this.sync_groups().groups == ()

    assert committed(pair.backup, group) == {(remote(flow, topic), 0): 4}


def test_the_offsets_of_a_group_that_is_deleted_on_the_source_are_deleted_by_policy(
    pair: Pair, syncing: Callable[..., Flow], topic: str, group: str
) -> None:
    flow = syncing(topic, on_source_group_deleted="delete")
    commit(pair.primary, group, {(topic, 0): 4, (topic, 1): 4})
    this = copied(flow, "run-1")
    this.sync_groups()
    delete_groups(pair.primary, [group])
    assert {one.action for _, one in this.sync_groups().partitions()} == {"held"}
    this = copied(flow, "run-2")
    assert this.stored_plan().removals.offset_deletions == (
        OffsetDeletion(group, remote(flow, topic), (0, 1)),
    )

    moves = this.sync_groups()

    assert [one.action for _, one in moves.partitions()] == ["deleted", "deleted"]
    # The broker removes a group without offsets and members itself. Deleted as such, it would lose offsets of topics,
    # too, which the flow may not see.
    assert group in groups_of(pair.backup)
    assert not committed(pair.backup, group)
    # Nothing of it is left to delete, and a new one of its name begins again.
    assert this.sync_groups().groups == ()
    assert copied(flow, "run-3").stored_plan().changes == {}
    commit(pair.primary, group, {(topic, 0): 2})
    assert only(this.sync_groups()).action == "written"
    assert committed(pair.backup, group) == {(remote(flow, topic), 0): 2}


def test_offsets_are_not_deleted_by_a_plan_that_another_hand_has_changed(
    pair: Pair, syncing: Callable[..., Flow], topic: str, group: str
) -> None:
    """In the state folder: more than a few are deleted only with an approval."""
    flow = syncing(topic, on_source_group_deleted="delete")
    commit(pair.primary, group, {(topic, 0): 4})
    this = copied(flow, "run-1")
    this.sync_groups()
    delete_groups(pair.primary, [group])
    planned, due = this.stored_plan(), OffsetDeletion(group, remote(flow, topic), (0,))
    removals = replace(planned.removals, offset_deletions=(due,))
    save_plan(flow_state(flow).folder("runs/run-1"), replace(planned, removals=removals))

    with pytest.raises(GroupsFailed, match="not the one that was made"):
        this.sync_groups()

    assert committed(pair.backup, group) == {(remote(flow, topic), 0): 4}


def test_only_what_is_gone_is_deleted_and_only_what_no_other_client_has_changed(
    pair: Pair, syncing: Callable[..., Flow], topic: str, group: str
) -> None:
    flow = syncing(topic, on_source_group_deleted="delete")
    there = remote(flow, topic)
    add_partitions(pair.primary, topic, 3)
    commit(pair.primary, group, {(topic, 0): 4, (topic, 1): 4, (topic, 2): 0})
    this = copied(flow, "run-1")
    this.sync_groups()
    forget(flow, group, (topic, 0), (topic, 1))
    commit(pair.backup, group, {(there, 1): 7})

    (move,) = copied(flow, "run-2").sync_groups().groups

    assert [one.action for one in move.partitions] == ["deleted", "held", "unchanged"]
    assert move.partitions[1].reason == (
        "gone from the source, but another client has committed 7 on the target."
    )
    assert committed(pair.backup, group) == {(there, 1): 7, (there, 2): 0}


def test_offsets_of_a_topic_that_was_recreated_on_the_source_stay(
    syncing: Callable[..., Flow], pair: Pair, topic: str, group: str
) -> None:
    """Kafka deletes a topic's offsets with the topic: that says nothing about the records of the old one's copy."""
    flow = syncing(topic, on_source_group_deleted="delete")
    commit(pair.primary, group, {(topic, 0): 4})
    copied(flow, "run-1").sync_groups()
    recreate_topic(pair.primary, topic)
    wait_until(lambda: not committed(pair.primary, group))

    this = Run(flow, "run-2")
    assert this.plan().removals.offset_deletions == ()
    this.sync_topics()

    assert only(this.sync_groups()).action == "held"
    assert committed(pair.backup, group) == {(remote(flow, topic), 0): 4}


@pytest.mark.long
def test_offsets_of_a_topic_that_is_gone_from_the_source_are_deleted_by_policy(
    syncing: Callable[..., Flow], pair: Pair, topic: str, group: str
) -> None:
    gone = pair.topic("gone")
    write(pair.primary, gone, 5)
    flow = syncing(topic, gone, on_source_group_deleted="delete")
    commit(pair.primary, group, {(topic, 0): 4, (gone, 0): 4})
    this = copied(flow, "run-1")
    this.sync_groups()
    delete_topic(pair.primary, gone)
    # The coordinator hears of it a moment later.
    wait_until(lambda: (gone, 0) not in committed(pair.primary, group))

    (move,) = copied(flow, "run-2").sync_groups().groups

    assert [(one.source.topic, one.action) for one in move.partitions] == [
        (gone, "deleted"),
        (topic, "unchanged"),
    ]
    assert committed(pair.backup, group) == {(remote(flow, topic), 0): 4}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nobody", "There is no group nobody on"),
        ("ferry.a->b", "The group ferry.a->b is Kafka Ferry's own, and never moved."),
    ],
)
def test_a_group_that_is_asked_for_by_name_and_cannot_move_is_named(
    flow: Flow, name: str, said: str
) -> None:
    copied(flow, "run-1")
    moves = move_groups(flow, ledger_of(flow), run="run-1", write=True, only=[name])
    assert moves.groups == ()
    (failure,) = moves.failures
    assert failure.startswith(said)
    assert not moves.transient


def test_a_flow_that_does_nothing_with_groups_asks_for_none(
    syncing: Callable[..., Flow], primary: KafkaCluster, topic: str, group: str
) -> None:
    commit(primary, group, {(topic, 0): 4})
    assert synced(syncing(topic, sync_group_offsets_enabled=False), "run-1").groups == ()


def test_a_flow_that_only_writes_checkpoints_commits_nothing(
    pair: Pair, syncing: Callable[..., Flow], topic: str, group: str
) -> None:
    commit(pair.primary, group, {(topic, 0): 4})
    flow = syncing(topic, sync_group_offsets_enabled=False, emit_checkpoints_enabled=True)
    found = only(synced(flow, "run-1"))
    assert (found.action, found.offset, found.kind) == ("shown", 4, "exact")
    assert committed(pair.backup, group) == {}


def test_groups_are_in_the_report(
    flow: Flow, primary: KafkaCluster, topic: str, group: str
) -> None:
    commit(primary, group, {(topic, 0): 4})
    this = copied(flow, "run-1")
    moves = this.sync_groups()

    report = publish_run(this._context, STEPS[:-1])

    assert report.groups == moves
    assert (report.state, report.problems.group_failures) == ("verified", ())
    page = (this._folder.files.read("report.html") or b"").decode()
    assert "1 group; offsets: 1 committed" in page
    assert group in page


def test_a_run_whose_remote_topics_are_gone_is_published_again(
    flow: Flow, pair: Pair, topic: str, group: str
) -> None:
    commit(pair.primary, group, {(topic, 0): 4})
    this = copied(flow, "run-1")
    moves = this.sync_groups()
    delete_topic(pair.backup, remote(flow, topic))

    report = publish_run(this._context, STEPS[:-1])

    assert report.groups == moves
    assert (report.state, report.problems.group_failures) == ("verified", ())


def test_what_a_group_reads_of_the_targets_own_topics_is_named_and_holds_up_nothing(
    flow: Flow, pair: Pair, topic: str, group: str
) -> None:
    """Active/active: a group of A that reads A's orders and B.orders."""
    theirs = f"{flow.target.alias}.{pair.unique('theirs')}"
    create_topic(pair.primary.bootstrap, theirs)
    pair.produce(theirs, [Record(b"k", b"v")] * 3)
    commit(pair.primary, group, {(topic, 0): 4, (theirs, 0): 2})

    moves = synced(flow, "run-1")

    (move,) = moves.groups
    told = {one.source.topic: (one.action, one.reason) for one in move.partitions}
    assert told == {topic: ("written", ""), theirs: ("held", FROM_TARGET)}
    assert committed(pair.backup, group) == {(remote(flow, topic), 0): 4}


def groups_entries(flow: Flow) -> int:
    """How many entries of the ledger are about groups."""
    return sum(
        row["type"] == "groups" for row in ledger_of(flow).read(columns=["type"]).to_pylist()
    )


def groups_of(broker: KafkaCluster) -> set[str]:
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    return {group.group_id for group in client.list_consumer_groups().result().valid}


def forget(flow: Flow, group: str, *partitions: tuple[str, int]) -> None:
    """Delete offsets of a group on the source."""
    with GroupControl(flow.source) as control:
        assert not control.delete_offsets({group: [Partition(*tp) for tp in partitions]})
