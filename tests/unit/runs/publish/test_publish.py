"""What a report takes from the plan and the ledger of its run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.errors import GroupsFailed, VerificationFailed
from kafka_ferry.groups.moves import GroupMove, GroupMoves
from kafka_ferry.ledger import CopiedRange
from kafka_ferry.model import Note, OffsetsChoice, Plan
from kafka_ferry.model.changes import Acl, AclChange, ConfigChange, Drift, Retirement
from kafka_ferry.model.groups import Group
from kafka_ferry.model.plan import AccessChanges, TopicChanges
from kafka_ferry.model.remarks import PlanRemarks
from kafka_ferry.model.results.failures import RangesFailed
from kafka_ferry.report import RunReport
from kafka_ferry.runs.publish.publish import other_errors, publish_run
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.runs.state.run_folder import RunFolder
from kafka_ferry.state import StateFolder
from kafka_ferry.verify import Verdict
from tests.support.runs.reports import a_failure
from tests.unit.ledger.entries import a_copied_range, a_transaction
from tests.unit.plan.builders import a_flow

ANNA = Acl("TOPIC", "primary.orders", "LITERAL", "User:anna", "*", "READ", "ALLOW")


def lossy(start: int, end: int, *lost: tuple[int, int], **more: object) -> CopiedRange:
    """A range that has no record for the offsets ``lost``."""
    gone = sum(last - first for first, last in lost)
    reasons = {"lost": gone, "dead-lettered": 2}
    return a_copied_range(
        start, end, records=end - start - gone - 2, reasons=reasons, lost=lost, **more
    )


def kept(start: int, end: int, **more: object) -> CopiedRange:
    """A range with preserved offsets."""
    return a_copied_range(start, end, topic="kept", preserved=True, **more)


GROUPS = GroupMoves(5, (GroupMove(Group("billing"), reason="it is in use."),))
SAID = "backup: the group billing may not be written."


@pytest.fixture
def report(run_with: Callable[..., RunContext], monkeypatch: pytest.MonkeyPatch) -> RunReport:
    """The report of run-2; run-1 lost something too."""
    entries = [
        a_transaction(lossy(0, 40, (0, 30)), run="run-1"),
        a_transaction(lossy(40, 1_300, (40, 1_240), (1_250, 1_251)), run="run-2"),
        a_transaction(lossy(0, 9, (3, 4), topic="customers", partition=7), run="run-2"),
        a_transaction(kept(0, 50, adopted=50), run="run-1"),
        a_transaction(kept(50, 2_000, adopted=1_200), kept(0, 9, partition=1), run="run-2"),
    ]
    # No broker answers where these clusters should be.
    monkeypatch.setattr("kafka_ferry.runs.publish.measures._RETRY_S", 0.1)
    run = run_with(*entries)
    folder = run.folder
    note = Note("old", "the topic was deleted on the source.")
    choice = OffsetsChoice("kept", "primary.kept", True, "offsets: preserved.")
    topics = ("orders", "primary.orders")
    plan = Plan(
        *(run.flow.name, run.run_id, 1, "A", "B"),
        choices=(choice,),
        topics=TopicChanges(
            config_changes=(ConfigChange(*topics, "flush.ms", "5", None),),
            drifts=(Drift(*topics, "segment.ms", None, "7", overwritten=False),),
            retirements=(Retirement("old", "primary.old", "id", 0, 0),),
        ),
        access=AccessChanges(acl_changes=(AclChange(ANNA, "grant"),)),
        remarks=PlanRemarks(
            notes=(note,), unapplied=("primary.orders: its configs could not be changed.",)
        ),
    )
    folder.save_plan(plan)
    with suppress(GroupsFailed), folder.step("sync_groups"):
        folder.save_groups(GROUPS)
        raise GroupsFailed([SAID], transient=False)
    return publish_run(run, ["sync_groups"])


def test_what_failed_with_groups_is_no_failure_of_partitions(report: RunReport) -> None:
    assert report.groups == GROUPS
    assert report.problems.group_failures == (SAID,)
    assert report.problems.failures == ()


def test_names_each_interval_that_this_run_lost(report: RunReport) -> None:
    assert report.counts.losses == (
        "orders-0 [40, 1240): 1,200 offsets were deleted on the source before they were copied.",
        "orders-0 [1250, 1251): 1 offset was deleted on the source before it was copied.",
        "customers-7 [3, 4): 1 offset was deleted on the source before it was copied.",
    )
    assert report.counts.lost == 1_202


def test_counts_dead_letters_and_says_where_they_are(report: RunReport) -> None:
    assert report.counts.dead_lettered == 4
    assert report.counts.dead_letter_topic == "ferry-dead-letter.primary.internal"


def test_hands_on_what_the_plan_noted(report: RunReport) -> None:
    assert report.topics.notes == ("old: the topic was deleted on the source.",)


def test_says_how_each_topics_offsets_are_kept(report: RunReport) -> None:
    assert [(choice.topic, choice.preserved) for choice in report.topics.choices] == [
        ("kept", True)
    ]


def test_counts_what_this_run_has_adopted_and_names_the_ranges(report: RunReport) -> None:
    assert report.counts.adopted == 1_200
    assert report.counts.adoptions == ("kept-0 [50, 2000): 1,200.",)


def test_says_what_each_rule_has_done(flow: Flow, run_with: Callable[..., RunContext]) -> None:
    rules = [
        {"topics": ["a"], "where": "true", "set": {"key": "k"}},
        {"topics": ["b"], "where": "false"},
        {"topics": ["orders"], "drop": ["headers['h']"]},
    ]
    flow = a_flow(state_dir=flow.state_dir, transform=rules)
    by = {
        topic: {"topic": topic, "transform": flow.fingerprint_of(topic)}
        for topic in ("a", "orders")
    }
    ranges = (
        a_copied_range(**by["orders"], rule_counts={"changed": 0}, end=200),
        a_copied_range(
            **by["a"], rule_counts={"changed": 3, "set:key": 3}, records=4, reasons={"filtered": 6}
        ),
        a_copied_range(
            **by["a"], rule_counts={"changed": 4, "set:key": 4, "read:value.x": 0}, partition=1
        ),
        a_copied_range(topic="b", end=1_000),
        a_copied_range(topic="b", transform="of a rule that the file no longer has", partition=1),
    )
    run = replace(run_with(a_transaction(*ranges, run="run-2")), flow=flow)
    run.folder.save_plan(Plan(run.flow.name, run.run_id, 1, "A", "B"))
    report = publish_run(run, [])
    assert [*map(str, report.counts.rules)] == [
        "rule 1 changed 7 and left out 6 of 20 records: value.x is in none",
        "rule 3 changed 0 of 200 records",
    ]
    (note,) = report.topics.notes
    assert note.startswith("Rule 3 has changed none of 200 records. Does it name the fields")


def test_says_what_was_changed_and_what_could_not_be(report: RunReport) -> None:
    assert report.topics.changes == (
        "primary.orders: set flush.ms=5",
        "grant ALLOW READ on the topic primary.orders to User:anna",
    )
    assert report.problems.unapplied == ("primary.orders: its configs could not be changed.",)
    assert [drift.split(",")[0] for drift in report.topics.drifts] == [
        "primary.orders has segment.ms=7"
    ]
    assert ["old is gone" in retirement for retirement in report.topics.retirements] == [True]


def test_a_failed_partition_is_counted_once_and_what_the_verdict_says_is_no_other_failure(
    tmp_path: Path,
) -> None:
    """The verification fails for the same partition, with a sentence of its own."""
    folder = RunFolder(StateFolder(str(tmp_path)), "run-1")
    stopped = a_failure()
    with suppress(RangesFailed), folder.step("mirror"):
        raise RangesFailed([stopped], transient=False)
    with suppress(VerificationFailed), folder.step("verify"):
        raise VerificationFailed("1 partition is not covered.")
    ended = {step: folder.step_record(step) for step in ("mirror", "verify")}
    records = {step: record for step, record in ended.items() if record}

    assert records["mirror"].failures == (stopped,)
    assert other_errors(records, Verdict(success=False)) == {}
    assert other_errors(records, None) == {"verify": ("1 partition is not covered.",)}
