"""A consumer application goes on on the other cluster when its own is killed, and comes back."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from kafka_ferry.config import Flow
from kafka_ferry.config.reverse_flow import reverse_flow
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import AccessDenied, GroupsFailed
from kafka_ferry.groups.decisions import NOT_COPIED
from kafka_ferry.groups.outlook import GroupOutlook, Outlook
from kafka_ferry.groups.outlook_text import outlook_lines
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.runs import Repair, Run
from kafka_ferry.runs.failover.failback import failback, require_visible_topics
from kafka_ferry.runs.failover.failover import failover
from kafka_ferry.runs.publish.lag import last_complete, readable_lag
from kafka_ferry.runs.state.flow_state import flow_ledger
from kafka_ferry.runs.sync_groups.translate import Translator
from kafka_ferry.state import StateFolder
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.access import deny
from tests.support.brokers.own_brokers import own_pair
from tests.support.brokers.segments import broker_down, cut_log
from tests.support.records.application import (
    COMMITS_EVERY,
    lines,
    process_until,
    running_application,
)
from tests.support.records.builders import (
    Record,
    add_partitions,
    create_topic,
    delete_before,
    delete_topic,
    produce,
    read_all,
    recreate_topic,
)
from tests.support.records.groups import commit_alone, first_read
from tests.support.runs.command_line import ferry
from tests.support.runs.flows import copy_now, failures, make_flow, plan_now
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.proof import prove
from tests.support.runs.topologies import values
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("without_spark")

PARTITIONS = 2
DEFAULT, IDENTITY = "DefaultReplicationPolicy", "IdentityReplicationPolicy"


@pytest.fixture
def old(tmp_path: Path) -> Iterator[KafkaCluster]:
    """A cluster that may be killed."""
    with Broker(tmp_path / "old") as broker:
        broker.wait_ready()
        yield broker
    broker.wipe()


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Two brokers on which a client that does not log in is bound by ACLs."""
    with own_pair(tmp_path_factory.mktemp("strict"), {"super.users": "User:nobody"}) as brokers:
        yield brokers


@dataclass
class Place:
    """What the test has on its two clusters.

    Attributes:
        there: the flow from the old cluster to the new one.
        orders: the topic.
        group: the application's group.
        processed: the file of what it processed.
    """

    there: Flow
    orders: str
    group: str
    processed: Path

    @property
    def back(self) -> Flow:
        return reverse_flow(self.there)


def place(pair: Pair, policy: str) -> Place:
    orders, group = pair.unique("orders"), pair.unique("app")
    for broker in (pair.primary, pair.backup):
        create_topic(broker.bootstrap, orders, PARTITIONS)
    there = pair.flow(
        [orders],
        into=pair.unique("backup"),
        replication_policy_class=policy,
        on_foreign_records="adopt",
        on_returned_records="leave-out",
        groups=[group],
    )
    return Place(there, orders, group, pair.folder / "processed")


def write(broker: KafkaCluster, topic: str, name: str, numbers: range) -> list[str]:
    texts = [f"{name}-{number}" for number in numbers]
    records = [
        Record(value=text.encode(), key=text.encode(), partition=at % PARTITIONS)
        for at, text in enumerate(texts)
    ]
    produce(broker.bootstrap, topic, records)
    return texts


def run(flow: Flow, name: str) -> None:
    """A whole run, without Spark."""
    assert prove(flow, name).state == "verified"
    Run(flow, name).sync_groups()


def wait_idle(flow: Flow, group: str) -> None:
    """A member that was killed is forgotten when its session has timed out."""

    def is_idle() -> bool:
        with GroupControl(flow.target) as control:
            found = control.describe([group])[group]
        return isinstance(found, Group) and found.idle

    wait_until(is_idle)


def the_group(found: Outlook) -> GroupOutlook:
    assert found.failures == ()
    (group,) = found.groups
    return group


@pytest.mark.parametrize(
    "policy",
    ["IdentityReplicationPolicy", pytest.param("DefaultReplicationPolicy", marks=pytest.mark.long)],
)
def test_an_application_goes_on_when_its_cluster_is_killed_and_comes_back(
    folder: Path, old: KafkaCluster, backup: KafkaCluster, unique: Unique, policy: str
) -> None:
    this = place(Pair(folder, old, backup, unique), policy)
    orders, group, processed = this.orders, this.group, this.processed
    same = policy.startswith("Identity")
    on_new = [orders] if same else [f"{folder.name}.{orders}", orders]
    on_old = [orders] if same else [orders, f"{this.there.target.alias}.{orders}"]
    process = partial(process_until, group=group, processed=processed)

    written = write(old, orders, "a", range(300))
    process(old.bootstrap, topics=[orders], values=120)
    run(this.there, "first")
    unread_by_run = lines(processed)
    late = write(old, orders, "late", range(10))
    process(old.bootstrap, topics=[orders], values=150)
    on_old_then = lines(processed)

    # The cluster is gone; what it had written since the last run is not there.
    old.kill()
    found = failover(this.there, source_down=True)
    outlook = the_group(found)
    assert (outlook.state, outlook.lag, found.source_answers) == ("ready", -1, False)
    assert "they read again" in found.notes[0]
    wait_idle(this.there, group)
    new = write(backup, orders, "b", range(40))
    again = process(backup.bootstrap, topics=on_new, values={*written, *new})
    assert {*written, *new} <= set(lines(processed))
    assert set(again) & set(late) == set()
    # It reads again what it had not committed when the last run looked, and nothing else.
    at_most = len(on_old_then) - len(unread_by_run) + 2 * COMMITS_EVERY
    assert len(set(again) & set(on_old_then)) <= at_most

    # The old cluster is back, with what was never copied.
    old.start().wait_ready()
    new += write(backup, orders, "b", range(40, 60))
    run(this.back, "back")
    wait_idle(this.back, group)
    before = lines(processed)
    found = failback(this.there, this.back)
    assert the_group(found).state == "ready", list(outlook_lines(found))
    final = write(old, orders, "z", range(20))
    everything = [*written, *late, *new, *final]
    home = process(old.bootstrap, topics=on_old, values=len(everything))
    assert sorted(set(lines(processed))) == sorted(everything)
    # What came late was read there before it was lost sight of; so it may come again, and what lies after.
    twice = set(home) & set(before)
    assert len(twice - {*late, *new}) <= 2 * COMMITS_EVERY

    # And the flow goes on as before.
    run(this.there, "again")


def test_groups_fail_over_and_the_lag_is_known_where_the_state_folder_takes_no_file(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full, or the folder another user's: in an emergency there is no time for that."""
    this = place(pair, DEFAULT)
    write(pair.primary, this.orders, "a", range(10))
    commit_alone(pair.primary, this.group, at(this.orders, 2, 2))
    run(this.there, "first")
    write(pair.primary, this.orders, "b", range(3))

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(StateFolder, "_write", refuse)
    # The first one leaves an entry in the ledger, which the second one has to read.
    for source_down in (True, False):
        assert the_group(failover(this.there, source_down=source_down)).state == "ready"
    assert sum(row.lag or 0 for row in readable_lag(this.there).rows) == 3
    (moved,) = Translator(this.there).groups([this.group]).groups
    assert all(move.offset is not None for move in moved.partitions)
    assert Run(this.there, "look").plan(save=False).ranges


@pytest.mark.long
def test_what_a_source_has_written_in_the_place_of_what_it_lost_counts_as_not_copied(
    folder: Path, old: KafkaCluster, backup: KafkaCluster, unique: Unique
) -> None:
    this = place(Pair(folder, old, backup, unique), DEFAULT)
    for mark in "ab":
        write(old, this.orders, mark, range(10))
    commit_alone(old, this.group, at(this.orders, 2, 2))
    run(this.there, "first")
    assert isinstance(old, Broker)
    with broker_down(old, orderly=True):
        cut_log(old, this.orders, 5)
    write(old, this.orders, "z", range(20))

    (group,) = failover(this.there).groups

    # From 5 on they are other records than those that were copied; of the other partition all but the new ones are.
    assert [one.not_copied for one in group.partitions] == [10, 10]


@pytest.mark.long
def test_a_group_whose_home_was_truncated_and_written_on_is_stuck(
    folder: Path, old: KafkaCluster, backup: KafkaCluster, unique: Unique
) -> None:
    """It has read the records of a branch that is lost there, and none of the other one."""
    this, late = place(Pair(folder, old, backup, unique), DEFAULT), unique("late")
    early = unique("early")
    there = this.there.model_copy(update={"groups": (this.group, late, early)})
    back = reverse_flow(there)
    write(old, this.orders, "a", range(10))
    write(old, this.orders, "b", range(10))
    commit_alone(old, this.group, at(this.orders, 8, 8))
    for group in (late, early):
        commit_alone(old, group, at(this.orders, 3, 3))
    run(there, "first")
    assert failover(there).all_can_start
    commit_alone(backup, late, at(f"{folder.name}.{this.orders}", 10, 9))
    assert isinstance(old, Broker)
    with broker_down(old, orderly=True):
        cut_log(old, this.orders, 5)
    write(old, this.orders, "z", range(20))
    run(back, "back")

    groups = {group.name: group for group in failback(there, back).groups}

    assert groups[this.group].state == "stuck"
    reason = groups[this.group].reason
    assert f"the log of {this.orders}-0 was truncated at 5, below what was copied" in reason
    assert reason.endswith(" It would continue at 8, and miss records.")
    assert groups[late].state == "ready"
    assert [one.offset for one in groups[late].partitions] == [5, 9]
    # What it has not read on the new cluster is not on the old one any more.
    assert groups[early].state == "stuck"
    assert "5 offsets of " in groups[early].reason
    assert groups[early].not_copied == 5


@pytest.mark.long
def test_a_group_whose_home_has_lost_what_was_left_out_before_is_stuck(
    folder: Path, old: KafkaCluster, backup: KafkaCluster, unique: Unique
) -> None:
    """With kept names it was ready, and nothing left to copy: what came from there counted as there."""
    this, done = place(Pair(folder, old, backup, unique), IDENTITY), unique("done")
    there = this.there.model_copy(update={"groups": (this.group, done)})
    back = reverse_flow(there)
    write(old, this.orders, "a", range(10))
    for group in (this.group, done):
        commit_alone(old, group, at(this.orders, 3, 3))
    run(there, "1-there")
    write(backup, this.orders, "b", range(2))
    run(back, "1-back")
    write(old, this.orders, "c", range(10))
    run(there, "2-there")
    assert failover(there).all_can_start
    run(back, "2-back")
    assert failback(there, back).all_can_start
    assert isinstance(old, Broker)
    with broker_down(old, orderly=True):
        cut_log(old, this.orders, 7)
    write(old, this.orders, "z", range(20))
    write(backup, this.orders, "b", range(2))
    commit_alone(backup, done, at(this.orders, 13, 3))
    run(back, "3-back")

    groups = {group.name: group for group in failback(there, back).groups}

    lost = f"5 offsets of {this.orders}-0 that it has not read are not on {there.source.alias}"
    assert groups[this.group].state == "stuck"
    assert groups[this.group].reason.startswith(lost)
    assert groups[this.group].not_copied == 5
    # It has read these on the new cluster, and none of what has their places on the old one.
    assert groups[done].state == "ready"
    assert groups[done].partitions[0].offset == 7


@pytest.mark.long
def test_a_group_that_was_further_in_a_branch_that_its_home_has_lost_is_stuck(
    folder: Path, old: KafkaCluster, backup: KafkaCluster, unique: Unique
) -> None:
    """With kept names; what was lost there is copied back."""
    this, far = place(Pair(folder, old, backup, unique), IDENTITY), unique("far")
    there = this.there.model_copy(update={"groups": (this.group, far)})
    back = reverse_flow(there)
    for mark in "ab":
        write(old, this.orders, mark, range(10))
    commit_alone(old, this.group, at(this.orders, 8, 8))
    commit_alone(old, far, at(this.orders, 3, 3))
    run(there, "first")
    assert failover(there).all_can_start
    commit_alone(backup, far, at(this.orders, 8, 8))
    assert isinstance(old, Broker)
    with broker_down(old, orderly=True):
        cut_log(old, this.orders, 5)
    write(old, this.orders, "z", range(20))
    run(back, "back")

    groups = {group.name: group for group in failback(there, back).groups}

    assert groups[this.group].state == "stuck"
    assert f"the log of {this.orders}-0 was truncated at 5" in groups[this.group].reason
    assert groups[this.group].reason.endswith(" It would continue at 8, and miss records.")
    assert groups[far].state == "ready"
    assert groups[far].partitions[0].offset == 5


def test_a_planned_failover_reads_nothing_again(pair: Pair) -> None:
    this = place(pair, "DefaultReplicationPolicy")
    remote = f"{pair.folder.name}.{this.orders}"
    write(pair.primary, this.orders, "a", range(20))
    commit_alone(pair.primary, this.group, at(this.orders, 4, 6))
    run(this.there, "first")
    commit_alone(pair.primary, this.group, at(this.orders, 7, 10))
    write(pair.primary, this.orders, "late", range(3))
    # Anyone who may commit in the flow's group can say that more is copied.
    commit_alone(pair.backup, f"ferry.{this.there.name}", at(remote, 12, 11))

    tried = the_group(failover(this.there, dry_run=True))
    assert committed(pair.backup, this.group) == {}
    found = failover(this.there)
    outlook = the_group(found)

    assert (outlook.state, outlook.lag, outlook.not_copied) == ("ready", 6, 3)
    assert [(one.target, one.offset, one.kind) for one in outlook.partitions] == [
        (tp, offset, "exact") for tp, offset in at(remote, 7, 10).items()
    ]
    assert [one.offset for one in tried.partitions] == [7, 10]
    assert committed(pair.backup, this.group) == {(remote, 0): 7, (remote, 1): 10}
    first, none = (one.first for one in outlook.partitions)
    assert (first.offset, first.key) == (7, "a-14") if first else False
    assert none is None
    assert first_read(pair.backup, this.group, remote) == (0, 7)
    # A partition that came after the last run, and in which the group has not committed anything.
    add_partitions(pair.primary, this.orders, 3)
    produce(pair.primary.bootstrap, this.orders, [Record(value=b"new", partition=2)] * 5)
    (note,) = failover(this.there, dry_run=True).notes
    assert note.startswith(f"{this.orders}-2 has 5 offsets that are not on ")
    text = "\n".join(outlook_lines(found))
    assert f"READY {this.group} (lag 6, 3 not copied)" in text
    assert "no record to read yet" in text
    assert f"1 of 1 groups may start on {this.there.target.alias}" in text


def test_a_group_in_use_and_one_without_offsets_there_are_named(pair: Pair) -> None:
    this = place(pair, "DefaultReplicationPolicy")
    stuck = pair.unique("stuck")
    write(pair.primary, this.orders, "a", range(4))
    for group in (this.group, stuck):
        commit_alone(pair.primary, group, at(this.orders, 1, 1))
    assert failures(copy_now(this.there)) == []  # And no run verifies it.
    remote = f"{pair.folder.name}.{this.orders}"
    with running_application(pair.backup.bootstrap, this.group, [remote], this.processed):
        wait_until(lambda: len(lines(this.processed)) == 4)
        found = failover(this.there, [this.group, stuck, "nobody"])

    assert {group.name: group.state for group in found.groups} == {
        this.group: "in use",
        stuck: "stuck",
    }
    assert any("There is no group nobody" in failure for failure in found.failures)
    assert f"{stuck}: {this.orders}-0 and 1 more would begin by auto.offset.reset" in str(
        found.problems
    )


def test_the_command_line_fails_over_and_back(pair: Pair) -> None:
    this = place(pair, "IdentityReplicationPolicy")
    texts = write(pair.primary, this.orders, "a", range(4))
    commit_alone(pair.primary, this.group, at(this.orders, 1, 1))
    run(this.there, "first")

    shown = ferry("failover", "--config", this.there.file, "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["groups"][0]["state"] == "ready"
    unknown = ferry("failover", "--config", this.there.file, "--group", "nobody")
    assert unknown.returncode == 10
    assert "There is no group nobody" in unknown.stderr
    assert "There is no group nobody" not in unknown.stdout

    write(pair.backup, this.orders, "b", range(4))
    commit_alone(pair.backup, this.group, at(this.orders, 2, 4))
    tried = ferry("failback", "--config", this.there.file, "--dry-run")
    assert tried.returncode == 0, tried.stderr
    assert "dry run: about" in tried.stderr
    assert "The groups can only be translated once records are copied" in tried.stderr
    back = ferry("failback", "--config", this.there.file, "--json")
    assert back.returncode == 0, back.stderr
    (group,) = json.loads(back.stdout)["groups"]
    assert [one["offset"] for one in group["partitions"]] == [2, 3]
    assert sorted(values(pair.primary, this.orders)) == sorted([*texts, "b-0", "b-1", "b-2", "b-3"])


def test_a_group_that_the_file_names_and_the_source_lacks_is_named_before_the_night(
    pair: Pair,
) -> None:
    orders, group = pair.topic("orders", [Record(value=b"x")]), pair.unique("billing")
    misspelt = group.replace("billing", "biling")
    flow = pair.flow([orders], groups=[misspelt])
    commit_alone(pair.primary, group, {TopicPartition(orders, 0): 1})
    copy_now(flow)

    checked = ferry("check", "--config", flow.file)
    assert checked.stdout.endswith(f"; its groups are {misspelt}\n")
    planned = ferry("plan", "--config", flow.file)
    noted = f"groups has '{misspelt}', which matches no group of {flow.source.alias}"
    assert noted in " ".join(planned.stdout.split())
    assert f"Did you mean '{group}'?" in " ".join(planned.stdout.split())
    tried = ferry("failover", "--config", flow.file, "--dry-run")
    assert tried.returncode == 10
    assert f"There is no group {misspelt} on {flow.source.alias}." in tried.stderr


def test_a_group_goes_back_where_nobody_has_written_under_the_topics_names(pair: Pair) -> None:
    orders, group = pair.unique("orders"), pair.unique("app")
    create_topic(pair.primary.bootstrap, orders, PARTITIONS)
    there = pair.flow([orders], into=pair.unique("backup"), groups=[group])
    write(pair.primary, orders, "a", range(6))
    commit_alone(pair.primary, group, at(orders, 1, 1))
    run(there, "first")
    commit_alone(pair.backup, group, at(f"{pair.folder.name}.{orders}", 2, 3))

    tried = ferry("failback", "--config", there.file, "--dry-run")
    assert (tried.returncode, "refused" in tried.stderr) == (0, False), tried.stderr
    back = ferry("failback", "--config", there.file, "--json")
    assert back.returncode == 0, back.stderr
    (moved,) = json.loads(back.stdout)["groups"]
    assert [one["offset"] for one in moved["partitions"]] == [2, 3]
    # Its ledger has nothing but the groups: no flow has copied anything there.
    assert plan_now(there, "again").remarks.notes == ()


def test_no_group_passes_what_others_wrote_there_before_anything_was_copied_back(
    pair: Pair,
) -> None:
    this = place(pair, "IdentityReplicationPolicy")
    there = this.there.model_copy(update={"sync_group_offsets_enabled": True})
    write(pair.primary, this.orders, "a", range(4))
    commit_alone(pair.primary, this.group, at(this.orders, 2, 2))
    run(there, "first")
    own = write(pair.backup, this.orders, "b", range(4))
    write(pair.primary, this.orders, "late", range(4))
    commit_alone(pair.primary, this.group, at(this.orders, 4, 4))

    def left() -> set[str]:
        """What its members would read on the new cluster."""
        found = committed(pair.backup, this.group)
        read = read_all(pair.backup.bootstrap, this.orders)
        unread = (
            it for n, some in read.items() for it in some if it.offset >= found[this.orders, n]
        )
        return {it.value.decode() for it in unread if it.value}

    run(there, "second")
    assert set(own) <= left()
    assert the_group(failover(there)).state == "ready"
    assert set(own) <= left()


@pytest.mark.parametrize("is_down", [False, True], ids=["asked", "source-down"])
def test_a_group_that_reads_copies_of_the_other_clusters_topic_goes_on_in_that_topic(
    pair: Pair, is_down: bool
) -> None:
    """Active/active, or a second failover: B's own records count as read as far as they were read on A."""
    this, alone, outside = place(pair, DEFAULT), pair.unique("app"), pair.topic("audit")
    there = this.there.model_copy(update={"groups": (this.group, alone)})
    orders, copy = this.orders, f"{there.target.alias}.{this.orders}"
    write(pair.primary, orders, "a", range(6))
    write(pair.backup, orders, "b", range(10))
    run(there, "there")
    run(this.back, "back")
    commit_alone(pair.primary, this.group, at(orders, 2, 3) | at(copy, 3, 5) | at(outside, 0))
    commit_alone(pair.primary, alone, at(copy, 1))
    run(there, "again")

    found = failover(there, source_down=is_down)

    groups = {group.name: group for group in found.groups}
    assert {group.state for group in groups.values()} == {"ready"}
    assert found.all_can_start
    remote = f"{pair.folder.name}.{orders}"
    assert committed(pair.backup, this.group) == {
        (tp.topic, tp.partition): offset
        for tp, offset in (at(remote, 2, 3) | at(orders, 3, 5)).items()
    }
    assert committed(pair.backup, alone) == {(orders, 0): 1}
    assert groups[this.group].outside == ((TopicPartition(outside, 0), 0),)
    assert groups[this.group].not_copied == (-1 if is_down else 0)


@pytest.mark.long
def test_a_group_that_would_miss_records_there_is_stuck(pair: Pair) -> None:
    this = place(pair, DEFAULT)
    remote, lost = f"{pair.folder.name}.{this.orders}", pair.unique("lost")
    there = this.there.model_copy(update={"groups": (this.group, lost)})
    write(pair.primary, this.orders, "a", range(12))
    for group in there.groups:
        commit_alone(pair.primary, group, at(this.orders, 1, 6))
    run(there, "first")
    # The target keeps its records for a shorter time; and its log once reached further.
    delete_before(pair.backup, remote, 4)
    commit_alone(pair.backup, lost, {TopicPartition(remote, 1): 20})

    found = failover(there)
    groups = {group.name: group for group in found.groups}

    assert [groups[it].state for it in there.groups] == ["stuck", "stuck"]
    assert groups[this.group].not_copied == 3
    assert groups[this.group].reason == (
        f"3 offsets of {this.orders}-0 that it has not read are not on {there.target.alias}: it would begin "
        "there at 4, and miss them."
    )
    assert "its offset 20 is outside of the log there" in groups[lost].reason
    # What it has not read is gone on the source as well.
    delete_before(pair.primary, this.orders, 4)
    assert the_group(failover(this.there)).state == "ready"
    # Nothing is known to be copied to a topic that was given up, whatever its positions were.
    write(pair.primary, this.orders, "b", range(12))
    repair = Repair(this.there)
    repair.give_up(repair.look([remote]))
    given_up = the_group(failover(this.there))
    assert (given_up.state, given_up.not_copied) == ("stuck", -1)


@pytest.mark.parametrize("runs", [1, pytest.param(2, marks=pytest.mark.long)])
def test_what_is_gone_from_the_source_since_the_last_run_is_named_and_moves_nothing(
    pair: Pair, runs: int
) -> None:
    """As when a topic was deleted by mistake, which is why one fails over."""
    this, other, alone = (
        place(pair, DEFAULT),
        pair.topic("other", partitions=2),
        pair.unique("alone"),
    )
    there = this.there.model_copy(
        update={"topics": (this.orders, other), "groups": (this.group, alone)}
    )
    for topic in there.topics:
        write(pair.primary, topic, "a", range(8))
    commit_alone(pair.primary, this.group, at(this.orders, 2, 3) | at(other, 1, 1))
    commit_alone(pair.primary, alone, at(this.orders, 1, 1))
    run(there, "first")
    delete_topic(pair.primary, this.orders)
    wait_until(lambda: len(committed(pair.primary, this.group)) == 2)
    for number in range(1, runs):
        run(there, f"run-{number}")

    found = failover(there)
    group = the_group(found)
    assert group.state == "stuck"
    assert (
        f"{this.orders}-0 and 1 more would begin by auto.offset.reset: its offset is gone"
        in group.reason
    )
    assert any(f"are not moved: {alone}. " in note for note in found.notes)

    moved = failover(there, [this.group], source_down=True)
    assert the_group(moved).state == "ready"
    remotes = [f"{pair.folder.name}.{topic}" for topic in there.topics]
    assert committed(pair.backup, this.group) == {
        (tp.topic, tp.partition): offset
        for tp, offset in (at(remotes[0], 2, 3) | at(remotes[1], 1, 1)).items()
    }
    assert the_group(failover(there)).state == "ready"
    assert the_group(failover(there, [alone], source_down=True)).state == "ready"


def test_what_a_cluster_does_not_show_is_not_taken_for_gone(
    folder: Path, strict: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    """A broker leaves out of its lists what the principal may not see, without a word."""
    source, target = strict
    orders, unseen = unique("orders"), unique("unseen")
    reader, other, hidden = (unique(it) for it in ("reader", "other", "hidden"))
    flow = make_flow(
        folder,
        source,
        target,
        [orders, unseen],
        groups=[reader, other, hidden],
        sync_group_offsets_enabled=True,
        sync_topic_acls_enabled=False,
    )
    for topic in (orders, unseen):
        create_topic(source.bootstrap, topic)
        produce(source.bootstrap, topic, [Record(value=b"x")] * 3)
    for group, topic in ((reader, orders), (other, unseen), (hidden, orders)):
        commit_alone(source, group, {TopicPartition(topic, 0): 1})
    run(flow, "first")
    for resource in (f"topic {unseen}", f"group {hidden}", "cluster kafka-cluster"):
        deny(source, resource, "DESCRIBE")

    with pytest.raises(GroupsFailed, match=f"the group {hidden} "):
        Run(flow, "first").sync_groups()
    found = failover(flow, dry_run=True)

    unsure = "stuck", f"what it has committed in {unseen} is unknown."
    assert [(it.name, it.state, it.reason) for it in found.groups] == [(reader, *unsure)]
    assert not any("any more" in note for note in found.notes)
    of_topic, of_group = sorted(found.failures, key=lambda it: hidden in it)
    assert f"What groups have committed in {unseen} is unknown" in of_topic
    assert f"the group {hidden} " in of_group
    # Nor does a group's answer name the topic in which no run has seen an offset of it.
    assert any(unseen in it for it in failover(flow, [reader], dry_run=True).failures)
    assert any(unseen in it for it in Translator(flow).groups([reader]).failures)
    behind = readable_lag(flow)
    assert {row.topic: row.lag for row in behind.rows} == {orders: 0, unseen: None}
    assert all(row.complete_until for row in behind.rows)
    assert behind.refused.keys() == {unseen}
    # What applications may have written on the target under a name that it does not show.
    deny(target, f"topic {orders}", "DESCRIBE")
    with pytest.raises(AccessDenied, match=f"does not let .* see whether it has {orders}"):
        require_visible_topics(flow, reverse_flow(flow))
    # Nor whether a copy is still there.
    remote = f"{flow.source.alias}.{orders}"
    deny(target, f"topic {remote}", "DESCRIBE")
    behind = readable_lag(flow)
    assert behind.refused.keys() == {orders, unseen}
    assert [row.topic for row in behind.rows if row.complete_until] == [unseen]
    assert f"see whether it still has {remote}-0" in last_complete(flow, flow_ledger(flow))
    assert any(remote in it for it in Translator(flow, reverse=True).groups([reader]).failures)


def test_an_offset_in_a_recreated_topic_moves_no_group_in_the_copy_of_the_former_one(
    pair: Pair,
) -> None:
    """The run that has seen it held it: without the source, it would pass records that the group has not read."""
    this = place(pair, DEFAULT)
    there = this.there.model_copy(update={"sync_group_offsets_enabled": True})
    write(pair.primary, this.orders, "a", range(16))
    commit_alone(pair.primary, this.group, at(this.orders, 1, 1))
    run(there, "first")
    recreate_topic(pair.primary, this.orders, PARTITIONS)
    write(pair.primary, this.orders, "b", range(16))
    commit_alone(pair.primary, this.group, at(this.orders, 6, 6))
    assert plan_now(there, "second").remarks.refused
    Run(there, "second").sync_groups()

    partitions = the_group(failover(there, source_down=True)).partitions

    assert {one.reason for one in partitions} == {NOT_COPIED}
    remote = f"{pair.folder.name}.{this.orders}"
    assert committed(pair.backup, this.group) == dict.fromkeys([(remote, 0), (remote, 1)], 1)


def test_without_the_state_folder_too_an_offset_in_the_former_topic_is_none_of_the_one_that_was_appended(
    pair: Pair,
) -> None:
    this = place(pair, DEFAULT)
    more = {"sync_group_offsets_enabled": True, "on_source_topic_recreated": "append"}
    there = this.there.model_copy(update=more)
    write(pair.primary, this.orders, "a", range(16))
    commit_alone(pair.primary, this.group, at(this.orders, 6, 6))
    run(there, "first")
    recreate_topic(pair.primary, this.orders, PARTITIONS)
    write(pair.primary, this.orders, "b", range(16))
    run(there, "second")
    shutil.rmtree(there.state_path)

    partitions = the_group(failover(there, source_down=True)).partitions

    assert {(one.committed, one.reason) for one in partitions} == {(6, NOT_COPIED)}
    remote = f"{pair.folder.name}.{this.orders}"
    assert committed(pair.backup, this.group) == dict.fromkeys([(remote, 0), (remote, 1)], 6)


@pytest.mark.long
def test_another_cluster_behind_the_alias_does_not_say_what_groups_have_read(pair: Pair) -> None:
    this = place(pair, DEFAULT)
    write(pair.primary, this.orders, "a", range(4))
    commit_alone(pair.primary, this.group, at(this.orders, 1, 1))
    run(this.there, "first")
    moved = this.there.source.model_copy(update={"properties": this.there.target.properties})
    elsewhere = this.there.model_copy(update={"source": moved})

    found = failover(elsewhere)

    assert the_group(found).state == "ready"
    assert "was not asked" in found.notes[0]
    shutil.rmtree(this.there.state_path)
    unknown = failover(this.there.model_copy(update={"groups": ("nobody",)}), source_down=True)
    assert not unknown.all_can_start
    assert "Nothing is known of any group" in unknown.failures[0]


def test_a_group_that_reads_only_what_no_flow_copies_is_stuck_where_it_is_asked_for(
    pair: Pair,
) -> None:
    this, audit = place(pair, DEFAULT), pair.topic("audit")
    nameless = f"{this.there.target.alias}.never"
    create_topic(pair.primary.bootstrap, nameless)
    lost = pair.unique("app")
    write(pair.primary, this.orders, "a", range(2))
    commit_alone(pair.primary, this.group, at(audit, 0))
    commit_alone(pair.primary, lost, at(nameless, 0))
    run(this.there, "first")

    assert failover(this.there).groups == ()
    found = failover(this.there, [this.group, lost])

    assert {group.name: group.state for group in found.groups} == {
        this.group: "stuck",
        lost: "stuck",
    }
    assert any("ferry-ledger." in problem for problem in found.problems)


@pytest.mark.long
def test_a_group_of_unused_and_of_expired_partitions_is_ready_with_the_source_and_without(
    pair: Pair,
) -> None:
    this = place(pair, DEFAULT)
    topic = pair.topic("mixed", partitions=3)
    there = this.there.model_copy(update={"topics": (topic,)})
    for partition in (0, 1):
        pair.produce(topic, [Record(value=b"%d" % i, partition=partition) for i in range(8)])
    delete_before(pair.primary, topic, 8)
    commit_alone(pair.primary, this.group, at(topic, 3, 5, 0))
    run(there, "first")

    looks = [the_group(failover(there, dry_run=True, source_down=down)) for down in (False, True)]

    assert [look.state for look in looks] == ["ready", "ready"]
    for look in looks:
        places = [(one.target, one.offset) for one in look.partitions]
        assert places == list(at(f"{pair.folder.name}.{topic}", 0, 5, 0).items())
    the_group(failover(there))
    # The ledger alone does not know that a log was empty, but the offset is there.
    shutil.rmtree(there.state_path)
    assert the_group(failover(there, source_down=True)).state == "ready"


@pytest.mark.long
def test_a_share_group_stays_one_when_only_the_ledger_knows_it(pair: Pair) -> None:
    this = place(pair, DEFAULT)
    there = this.there.model_copy(update={"sync_group_offsets_enabled": True})
    write(pair.primary, this.orders, "a", range(8))
    with GroupControl(there.source) as control:
        starts = {tp: Committed(offset) for tp, offset in at(this.orders, 2, 3).items()}
        assert not control.commit({Group(this.group, "share"): starts})
    run(there, "first")
    shutil.rmtree(there.state_path)

    outlook = the_group(failover(there, source_down=True))

    assert (outlook.state, outlook.reason) == ("ready", "")
    assert [one.offset for one in outlook.partitions] == [2, 3]


def at(topic: str, *offsets: int) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, number): offset for number, offset in enumerate(offsets)}


def committed(broker: KafkaCluster, group: str) -> dict[tuple[str, int], int]:
    """What an independent client says that the group has committed."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    request = [ConsumerGroupTopicPartitions(group)]
    found = client.list_consumer_group_offsets(request)[group].result()
    return {(tp.topic, tp.partition): tp.offset for tp in found.topic_partitions}
