"""What `ferry repair` finds wrong on real brokers, and that the next run mends what it gives up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.copy import restore_positions
from kafka_ferry.errors import FerryError, VerificationFailed
from kafka_ferry.model import Position, TopicPartition
from kafka_ferry.plan.offsets.log_check import CopyState
from kafka_ferry.runs import Repair, Run
from kafka_ferry.runs.publish.lag import lag
from kafka_ferry.runs.sync_topics import delete_topics
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster, start_all
from tests.support.brokers.segments import cut_log
from tests.support.records.builders import (
    Record,
    create_topic,
    delete_before,
    delete_topic,
    produce,
    read_all,
    recreate_topic,
)
from tests.support.records.histories import named
from tests.support.records.offsets import assert_same_offsets
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
from tests.support.runs.killing import Fate, Killed, fated
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.proof import NO_SPARK, verified

pytestmark = pytest.mark.usefixtures("without_spark")


class Copied:
    """A topic of 20 records and one without damage, copied."""

    def __init__(self, pair: Pair, **options: Any) -> None:
        self.source, self.target = pair.primary, pair.backup
        self.topic, self.other = (pair.topic(it, named("old", 20)) for it in ("damaged", "whole"))
        options = {"offsets": "preserved"} | options
        self.flow: Flow = pair.flow([self.topic, self.other], **options)
        assert not failures(copy_now(self.flow))
        self.remote = remote(self.flow, self.topic)
        self.whole = remote(self.flow, self.other)

    def more(self) -> None:
        for topic in (self.topic, self.other):
            produce(self.source.bootstrap, topic, named("more", 10))

    def look(self, *named: str) -> CopyState:
        """What a repair finds of the damaged topic; the other one is whole."""
        states = {state.remote_topic: state for state in Repair(self.flow).look(named)}
        if not named:
            assert states.keys() == {self.remote, self.whole}
            assert not states[self.whole].damaged
        return states[self.remote]

    def problem(self) -> tuple[int, str]:
        state = self.look()
        assert state.damaged
        (part,) = state.partitions
        return part.offset, part.problem

    def position(self) -> Position:
        return read_positions(self.flow.target, self.flow.name)[TopicPartition(self.remote, 0)]

    def id_of(self, name: str) -> str:
        return ClusterControl(self.flow.target).topic_ids([name])[name]

    def assert_the_next_run_copies_all(self, run: str = "run-after") -> None:
        """And its verification passes; the other topic is the one that it was."""
        whole = self.id_of(self.whole)
        plan = plan_now(self.flow, run)
        assert (plan.remarks.refused, plan.remarks.notes) == ((), ())
        assert not failures(copy_planned(self.flow, plan))
        for topic in (self.topic, self.other):
            assert_same_offsets(self.source, topic, self.target, remote(self.flow, topic))
        assert verified(self.flow, run).state == "verified"
        assert not self.look().damaged
        assert self.id_of(self.whole) == whole

    def assert_later_runs_go_on(self) -> None:
        self.more()
        assert not failures(copy_now(self.flow, "run-later"))
        assert_same_offsets(self.source, self.topic, self.target, self.remote)
        assert verified(self.flow, "run-later").state == "verified"


@pytest.fixture
def copy(pair: Pair) -> Copied:
    return Copied(pair)


def repaired(copy: Copied) -> None:
    """What ``--yes`` does with all that is damaged."""
    this = Repair(copy.flow)
    chosen = [state for state in this.look() if state.damaged]
    assert [state.remote_topic for state in chosen] == [copy.remote]
    (state,) = this.give_up(chosen)
    assert state.given_up


def ferry_repair(copy: Copied, *arguments: str) -> Called:
    return ferry("repair", "--config", copy.flow.file, *arguments)


def foreign(copy: Copied, **more: Any) -> None:
    produce(copy.target.bootstrap, copy.remote, [Record(value=b"foreign")], **more)


def test_the_command_line_names_what_is_damaged_and_with_yes_gives_it_up(copy: Copied) -> None:
    assert ferry_repair(copy).returncode == 0
    foreign(copy)
    copy.more()
    before = read_all(copy.target.bootstrap, copy.remote)

    shown = ferry_repair(copy)
    assert shown.returncode == 2, shown.stderr
    assert f"DAMAGED {copy.remote}-0 at offset 20: another producer" in shown.stdout
    assert f"--topic {copy.remote} --yes gives it up and deletes it" in shown.stdout
    states = json.loads(ferry_repair(copy, "--json").stdout)
    (damaged,) = [state for state in states if state["damaged"]]
    assert damaged["remote_topic"] == copy.remote
    assert damaged["partitions"][0]["offset"] == 20
    assert read_all(copy.target.bootstrap, copy.remote) == before

    done = ferry_repair(copy, "--yes")
    assert done.returncode == 0, done.stderr
    assert f"{copy.remote} is given up and deleted" in done.stdout
    assert copy.remote not in ClusterControl(copy.flow.target).topic_names()
    copy.assert_the_next_run_copies_all()
    copy.assert_later_runs_go_on()


def test_a_topic_of_another_client_is_not_given_up(copy: Copied, unique: Unique) -> None:
    stranger = unique("stranger")
    create_topic(copy.target.bootstrap, stranger)
    done = ferry_repair(copy, "--topic", stranger, "--yes")
    assert done.returncode == 9
    assert f"has never copied to {stranger}" in done.stderr
    assert stranger in ClusterControl(copy.flow.target).topic_names()


def test_a_flow_that_was_never_run_has_nothing_to_repair(pair: Pair) -> None:
    flow = pair.flow(["nothing"], offsets="preserved")
    assert Repair(flow).look() == []
    with pytest.raises(FerryError, match="has never copied to nothing"):
        Repair(flow).look(["nothing"])


@pytest.mark.long
def test_foreign_transactions_are_found_too(copy: Copied) -> None:
    foreign(copy, transactional_id="f", abort=True)
    offset, problem = copy.problem()
    assert (offset, "another producer" in problem) == (20, True)


def test_records_that_a_killed_run_has_left_are_nothing_wrong(
    copy: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy.more()
    plan = plan_now(copy.flow, "run-2")
    fate = Fate()
    with fated(monkeypatch, fate):
        copy_planned(copy.flow, plan)
    assert "EndTxnRequest" in fate.sent
    copy.more()
    plan = plan_now(copy.flow, "run-3")
    committing = Fate(fate.sent.index("EndTxnRequest"))
    with fated(monkeypatch, committing), pytest.raises(Killed):
        copy_planned(copy.flow, plan)

    states = Repair(copy.flow).look()
    uncommitted = [part.uncommitted for state in states for part in state.partitions]
    assert not any(state.damaged for state in states)
    assert sum(uncommitted) in (10, 20)


@pytest.mark.long
def test_a_sequence_number_that_does_not_belong_is_found(copy: Copied) -> None:
    """As if 13 records that the position counts had never been written."""
    copy.more()
    position = copy.position()
    assert not failures(copy_now(copy.flow, "run-2"))
    assert position.producer is not None
    wrong = replace(position, producer=replace(position.producer, sequence=7))
    restore_positions(copy.flow, "run-1", {TopicPartition(copy.remote, 0): wrong})
    offset, problem = copy.problem()
    assert offset == 20
    assert "the flow's own producer has sequence number 20 where 7 was expected" in problem
    repaired(copy)
    copy.assert_the_next_run_copies_all()
    copy.assert_later_runs_go_on()


@pytest.mark.long
def test_a_position_that_another_client_has_set_is_found_and_does_not_outlive_the_topic(
    copy: Copied,
) -> None:
    """kafka-consumer-groups.sh --reset-offsets leaves nothing beside the offset."""
    restore_positions(copy.flow, "run-1", {TopicPartition(copy.remote, 0): Position(12)})
    offset, problem = copy.problem()
    assert (offset, problem) == (12, "its position is not one of preserved offsets.")
    repaired(copy)
    copy.assert_the_next_run_copies_all()
    copy.assert_later_runs_go_on()


@pytest.mark.short("deleted")
@pytest.mark.parametrize("recreated", [False, True], ids=["deleted", "recreated"])
def test_a_remote_topic_that_is_gone_is_copied_again_without_a_policy(
    copy: Copied, recreated: bool
) -> None:
    if recreated:
        recreate_topic(copy.target, copy.remote)
        foreign(copy)
    else:
        delete_topic(copy.target, copy.remote)
    said = "recreated" if recreated else "it was deleted on the target."
    assert said in copy.look().problem
    assert plan_now(copy.flow, "run-2").remarks.refused
    repaired(copy)
    copy.assert_the_next_run_copies_all()
    copy.assert_later_runs_go_on()


def test_what_the_source_has_no_more_is_told_before_it_is_lost(copy: Copied) -> None:
    foreign(copy)
    delete_before(copy.source, copy.topic, 15)
    (part,) = copy.look().partitions
    assert part.only_copy == ((0, 15),)
    said = ferry_repair(copy).stdout
    assert "up to 15 offsets that were copied to it, and that the source no longer has" in said
    assert "in partition 0 [0, 15)." in said
    # The source still has the others, though no run copies them to that name.
    other_flows = ({"topics_rename": {copy.topic: "elsewhere"}}, {"topics": (copy.other,)})
    for options in other_flows:
        (state,) = Repair(copy.flow.model_copy(update=options)).look([copy.remote])
        assert not state.on_source
        assert [part.only_copy for part in state.partitions] == [((0, 15),)]
    repaired(copy)
    copy.assert_the_next_run_copies_all()


def test_a_copy_that_could_not_be_made_again_is_only_given_up_by_its_name(copy: Copied) -> None:
    foreign(copy)
    delete_topic(copy.source, copy.topic)
    done = ferry_repair(copy, "--yes")
    assert done.returncode == 2
    assert "No run can copy it again" in done.stdout
    assert copy.remote in ClusterControl(copy.flow.target).topic_names()
    assert ferry_repair(copy, "--yes", "--topic", copy.remote).returncode == 0
    assert copy.remote not in ClusterControl(copy.flow.target).topic_names()


def test_a_translated_topic_is_given_up_by_its_name(pair: Pair) -> None:
    copy = Copied(pair, offsets="translated")
    this = Repair(copy.flow)
    assert this.look() == []
    (state,) = this.look([copy.remote])
    assert (state.preserved, state.damaged) == (False, False)
    this.give_up([state])
    copy.more()
    assert not failures(copy_now(copy.flow, "run-2"))
    assert_same(pair.primary, copy.topic, pair.backup, copy.remote)
    assert verified(copy.flow, "run-2").state == "verified"


def test_a_record_after_the_last_one_is_named_everywhere_until_the_copy_was_made_again(
    pair: Pair,
) -> None:
    copy = Copied(pair, offsets="translated")
    assert verified(copy.flow, "run-1").state == "verified"
    foreign(copy)
    plan_now(copy.flow, "run-2")
    with pytest.raises(VerificationFailed) as raised:
        Run(copy.flow, "run-2").verify(NO_SPARK)
    said = "1 record on the target after the ledger's last one, the first at offset 21 by "
    assert said in str(raised.value)
    assert "`ferry repair --topic`" in str(raised.value)

    one_topic = ("--topic", copy.remote)
    for arguments in ((), ("--findings",), one_topic):
        told = ferry_repair(copy, *arguments)
        assert told.returncode == 2, arguments
        assert said in told.stdout
    assert "NOT PROVED" in told.stdout
    findings = ferry_repair(copy, "--findings").stdout
    assert f"--topic {copy.remote} --yes gives it up" in findings
    assert said in ferry("lag", "--config", copy.flow.file).stderr

    assert ferry_repair(copy, *one_topic, "--yes").returncode == 0
    assert ferry_repair(copy).returncode == 0
    assert not failures(copy_now(copy.flow, "run-3"))
    assert verified(copy.flow, "run-3").state == "verified"
    assert ferry_repair(copy, "--findings").returncode == 0
    assert "failed" not in ferry("lag", "--config", copy.flow.file).stderr


@pytest.mark.long
def test_a_repair_and_the_lag_after_it_say_what_was_lost_and_what_comes_next(pair: Pair) -> None:
    copy = Copied(pair, offsets="translated")
    flow = copy.flow.model_copy(update={"on_source_truncation": "continue"})
    copy.more()
    delete_before(copy.source, copy.topic, 22)
    for named_topic in ((), ("--topic", copy.remote)):
        shown = ferry_repair(copy, *named_topic)
        assert shown.returncode == 2, shown.stderr
        assert f"REFUSED {copy.topic}-0: offsets [20, 22) were deleted" in " ".join(
            shown.stdout.split()
        )
    (estimate,) = (it for it in plan_now(flow, "plan").estimates if it.topic == copy.topic)
    assert estimate.records == 8
    assert not failures(copy_now(flow, "run-2"))
    this = Repair(flow)
    (state,) = this.look([copy.remote])
    # [20, 22) was never copied.
    assert [part.only_copy for part in state.partitions] == [((0, 20),)]
    this.give_up([state])
    assert {row.topic: row.gone for row in lag(flow)} == {copy.topic: "given up", copy.other: ""}
    assert "given up, and the next run copies it" in " ".join(
        ferry("lag", "--config", flow.file).stderr.split()
    )
    assert not failures(copy_now(flow, "run-3"))
    assert {row.gone for row in lag(flow)} == {""}


def test_a_topic_that_was_given_up_may_be_begun_with_other_offsets(pair: Pair) -> None:
    copy = Copied(pair, offsets="translated")
    this = Repair(copy.flow)
    this.give_up(this.look([copy.remote, copy.whole]))
    copy.flow = pair.flow([copy.topic, copy.other], offsets="preserved")
    plan = plan_now(copy.flow, "run-2")
    assert not plan.remarks.refused
    assert not failures(copy_planned(copy.flow, plan))
    copy.assert_the_next_run_copies_all()


@pytest.mark.parametrize("answered", [False, True], ids=["unsent", "unanswered"])
@pytest.mark.long
def test_killed_while_the_release_is_written_it_is_begun_again(
    copy: Copied, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    foreign(copy)
    # The producer's start, and the record.
    for at in range(2):
        with fated(monkeypatch, Fate(at, answered)), pytest.raises(Killed):
            repaired(copy)
        assert copy.look().damaged
    repaired(copy)
    copy.assert_the_next_run_copies_all()


@pytest.mark.long
def test_killed_between_release_and_deletion_it_is_finished(
    copy: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign(copy)
    copy.more()

    def dies(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(ClusterControl, "delete_topics", dies)
        with pytest.raises(Killed):
            repaired(copy)
    assert ledger_of(copy.flow).released_topics() == {copy.id_of(copy.remote)}
    assert copy.look().problem == "it was given up, and still exists."

    # A run meanwhile leaves it alone, and is proved for the others.
    plan = plan_now(copy.flow, "run-2")
    (refusal,) = plan.remarks.refused
    assert "was given up, and still exists" in refusal.reason
    assert not failures(copy_planned(copy.flow, plan))
    verdict = verified(copy.flow, "run-2").proof.verdict
    assert verdict and verdict.success

    repaired(copy)
    copy.assert_the_next_run_copies_all()
    copy.assert_later_runs_go_on()


@pytest.mark.long
def test_killed_before_the_positions_were_seen_gone_nothing_is_left_to_do(
    copy: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign(copy)

    def dies(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(delete_topics, "_see_positions_gone", dies)
        with pytest.raises(Killed):
            repaired(copy)
    copy.more()
    assert [s.remote_topic for s in Repair(copy.flow).look() if not s.problem] == [copy.whole]
    copy.assert_the_next_run_copies_all()


@pytest.mark.long
def test_a_run_that_was_planned_before_the_repair_does_no_harm(copy: Copied) -> None:
    foreign(copy)
    copy.more()
    plan = plan_now(copy.flow, "run-2")
    repaired(copy)
    assert [copy.topic in failure for failure in failures(copy_planned(copy.flow, plan))] == [True]
    copy.assert_the_next_run_copies_all()


# A log that loses its end


@pytest.fixture(scope="module")
def stoppable(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Two brokers, each alone: what is cut off its log, no replica gives back."""
    home = tmp_path_factory.mktemp("stoppable")
    brokers = Broker(home / "source"), Broker(home / "target")
    start_all(brokers)
    yield brokers
    for broker in brokers:
        broker.wipe()


@pytest.mark.long
def test_a_log_that_was_cut_is_found_and_copied_again(
    folder: Path, stoppable: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    copy = Copied(Pair(folder, *stoppable, unique))
    copy.more()
    assert not failures(copy_now(copy.flow, "run-2"))
    copy.target.stop()
    cut_log(copy.target, copy.remote, 20)
    copy.target.start()

    offset, problem = copy.problem()
    assert offset == 20
    assert "its log ends before the position 30" in problem
    repaired(copy)
    copy.assert_the_next_run_copies_all()
    copy.assert_later_runs_go_on()


@pytest.mark.long
def test_a_translated_copy_whose_log_was_cut_is_found_without_being_named(
    folder: Path, stoppable: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    copy = Copied(Pair(folder, *stoppable, unique), offsets="translated")
    copy.more()
    assert not failures(copy_now(copy.flow, "run-2"))
    copy.target.stop()
    cut_log(copy.target, copy.remote, 21)
    copy.target.start()

    (state,) = Repair(copy.flow).look()
    (part,) = state.partitions
    assert (state.remote_topic, part.offset) == (copy.remote, 21)
    assert "its log ends at 21, before 31, up to which the ledger has records" in part.problem
    Repair(copy.flow).give_up([state])
    assert not failures(copy_now(copy.flow, "run-3"))
    assert_same(copy.source, copy.topic, copy.target, copy.remote)
    assert verified(copy.flow, "run-3").state == "verified"
    assert Repair(copy.flow).look() == []


def test_rights_that_are_missing_are_told(copy: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    """The release stands, and a principal with the right can finish the repair."""
    foreign(copy)
    denied = FerryError("Not authorized.", advice="Grant DELETE.")
    with monkeypatch.context() as patch:
        patch.setattr(ClusterControl, "delete_topics", lambda *_: {copy.remote: denied})
        with pytest.raises(
            FerryError, match=r"Not authorized\. Grant DELETE\. Then run repair again"
        ):
            repaired(copy)
    repaired(copy)
    copy.assert_the_next_run_copies_all()
