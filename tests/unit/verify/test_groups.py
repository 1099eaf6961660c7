"""Where groups are on the target, beside what is verified there."""

from pathlib import Path

import pytest

from kafka_ferry.groups.moves import Action, GroupMove, GroupMoves, PartitionMove
from kafka_ferry.model import LogBounds, TopicPartition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.verify import Terms, Verdict
from kafka_ferry.verify.expectations.judge import judge_groups, unjudged_groups
from kafka_ferry.verify.groups import GroupRow, group_rows

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("eu.orders", 0)


def moves(offset: int | None, action: Action = "written") -> GroupMoves:
    move = PartitionMove(SOURCE, Committed(7), 9, TARGET, offset, "exact", action)
    return GroupMoves(1, (GroupMove(Group("billing"), (move,)),))


def found(offset: int, verified: int | None = 18, log: tuple[int, int] = (0, 30)) -> GroupRow:
    ends = {} if verified is None else {TARGET: verified}
    (row,) = group_rows(moves(offset), ends, {TARGET: LogBounds(*log)})
    return row


@pytest.mark.parametrize("offset", [0, 17, 18])
def test_a_group_within_what_is_verified_is_where_it_may_be(offset: int) -> None:
    row = found(offset)
    assert (row.past_verified, row.past_end) == (0, 0)
    assert judge_groups([row], Verdict(success=True), Terms("f", "r")).success


def test_a_group_past_what_is_verified_fails_the_run() -> None:
    verdict = judge_groups([found(21)], Verdict(success=True), Terms("f", "r"))
    assert verdict.failures == (
        "group billing, eu.orders-0: it is at 21, 3 offsets past the last verified record, which "
        "ends at 18 (expected: no group is past what is verified)",
    )


def test_a_group_past_the_end_of_the_log_fails_the_run() -> None:
    verdict = judge_groups([found(18, log=(0, 12))], Verdict(success=True), Terms("f", "r"))
    assert verdict.failures == (
        "group billing, eu.orders-0: it is at 18, and the log ends at 12 "
        "(expected: no group is past the end of the target's log)",
    )


def test_a_group_at_the_start_of_a_log_that_has_lost_all_records_is_where_it_may_be() -> None:
    assert found(19, log=(19, 19)).past_verified == 0
    assert found(20, log=(19, 25)).past_verified == 1


def test_where_nothing_was_ever_copied_only_the_log_is_a_limit() -> None:
    assert found(30, verified=None).past_verified == 0
    assert found(31, verified=None).past_end == 1


def test_only_offsets_that_the_group_has_are_judged() -> None:
    logs = {TARGET: LogBounds(0, 30)}
    assert len(group_rows(moves(18, "unchanged"), {}, logs)) == 1
    for action in ("shown", "held", "refused", "deleted"):
        assert not group_rows(moves(18, action), {}, logs)
    assert not group_rows(moves(None), {}, logs)


def test_what_could_not_be_looked_at_is_no_proof() -> None:
    verdict = unjudged_groups(Verdict(success=True), "backup does not answer.", Terms("f", "r"))
    assert not verdict.success
    assert len(verdict.failures) == 2
    assert "could not be evaluated: backup does not answer." in verdict.failures[0]


def test_what_failed_before_stays_in_the_verdict(tmp_path: Path) -> None:
    before = Verdict(success=False, failures=("a range.",), ranges=3, records=9)
    verdict = judge_groups([found(18)], before, Terms("f", "r", tmp_path))
    assert (verdict.success, verdict.failures, verdict.ranges) == (False, ("a range.",), 3)
    assert "not complete" in (tmp_path / "index.html").read_text()
