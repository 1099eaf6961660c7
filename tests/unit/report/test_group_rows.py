"""Groups in a report: in the page, in the counts and in the state."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.report import RunReport, render
from kafka_ferry.report.group_rows import group_counts, group_rows, held_offsets, left_alone
from kafka_ferry.report.page import headline
from kafka_ferry.verify import Verdict
from tests.support.runs.reports import A_FAILURE, a_report, changed

REPORT = a_report(verdict=Verdict(True))
ORDERS, THERE = TopicPartition("orders", 3), TopicPartition("eu.orders", 3)
WRITTEN = PartitionMove(ORDERS, Committed(40, metadata="m"), 50, THERE, 44, "gap", "written")
HELD = replace(WRITTEN, action="held", reason="another client has committed 70 on the target.")
REFUSED = replace(WRITTEN, action="refused", reason="us: not allowed. Grant READ.")
DELETED = PartitionMove(ORDERS, None, target=THERE, action="deleted")
UNKNOWN = PartitionMove(ORDERS, Committed(40), action="held", reason="nothing is copied yet.")


def moves(*partitions: PartitionMove, reason: str = "", notes: tuple[str, ...] = ()) -> GroupMoves:
    group = GroupMove(Group("billing", "consumer", "Stable"), partitions, reason, 5)
    return GroupMoves(5, (group,), notes)


def rows_of(report: RunReport) -> list[list[str]]:
    """The cells of the page's table of groups."""
    _, _, section = render(report).partition("All group offsets")
    body = section.partition("</table>")[0]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in body.split("<tr")]
    return [row for row in cells if row]


@pytest.mark.parametrize(
    ("move", "cells"),
    [
        (WRITTEN, ["orders-3", "40", "10", "eu.orders-3", "44", "gap", "written", ""]),
        (DELETED, ["orders-3", "gone", "unknown", "eu.orders-3", "none", "", "deleted", ""]),
        (
            UNKNOWN,
            ["orders-3", "40", "unknown", "none", "none", "", "held", "nothing is copied yet."],
        ),
    ],
)
def test_each_offset_of_a_group_is_a_row(move: PartitionMove, cells: list[str]) -> None:
    report = changed(REPORT, groups=moves(move))
    assert rows_of(report) == [["billing", "consumer", *cells]]


def test_what_needs_a_look_comes_first() -> None:
    found = group_rows(moves(WRITTEN, DELETED, HELD, REFUSED))
    assert [row.move.action for row in found] == ["refused", "held", "deleted", "written"]


def test_the_counts_name_what_was_done() -> None:
    assert group_counts(moves(WRITTEN, WRITTEN, HELD)) == ("1 group; offsets: 1 held, 2 committed")
    assert group_counts(moves()) == "1 group"
    assert group_counts(GroupMoves(5)) == "0 groups"


def test_held_offsets_are_named_once_for_each_reason() -> None:
    other = replace(HELD, source=TopicPartition("orders", 4))
    assert list(held_offsets(moves(WRITTEN, HELD, UNKNOWN, other))) == [
        "billing: 2 offsets held, such as orders-3: another client has committed 70 on the target.",
        "billing: 1 offset held, orders-3: nothing is copied yet.",
    ]
    assert not list(held_offsets(moves(WRITTEN, REFUSED)))


def test_a_group_that_was_left_alone_is_named_with_the_reason() -> None:
    found = moves(HELD, reason="it is in use on us (state Stable).", notes=("Not all are seen.",))
    assert list(left_alone(found)) == ["billing: it is in use on us (state Stable)."]
    page = render(changed(REPORT, groups=found))
    assert "<li>billing: it is in use on us (state Stable).</li>" in page
    assert "<li>Not all are seen.</li>" in page


def test_of_very_many_offsets_the_page_shows_the_first_and_says_so() -> None:
    report = changed(REPORT, groups=moves(*[WRITTEN] * 3_000, REFUSED))
    rows = rows_of(report)
    assert len(rows) == 2_000
    assert rows[0][-2] == "refused"
    assert "The first 2,000 offsets are below." in render(report)
    assert "are below" not in render(changed(REPORT, groups=moves(WRITTEN)))


def test_a_run_without_groups_has_nothing_of_them_on_its_page() -> None:
    for groups in (None, GroupMoves(5)):
        assert "group" not in render(changed(REPORT, groups=groups)).partition("<body>")[2]


def test_what_could_not_be_done_for_groups_is_said_and_the_copy_is_verified_all_the_same() -> None:
    report = changed(REPORT, group_failures=("us: not allowed.", "us: too old."))
    assert report.state == "groups not synced"
    assert headline(report) == "Verified, but 2 things could not be done for groups"
    page = render(report)
    assert "<li>us: not allowed.</li>" in page
    assert '<header class="groups-not-synced">' in page
    assert "header.groups-not-synced," in page


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"unapplied": ("x",)}, "not applied"),
        ({"verdict": None}, "not verified"),
        ({"verdict": Verdict(False)}, "incomplete"),
        ({"failures": (A_FAILURE,)}, "failed"),
    ],
)
def test_whatever_is_worse_than_groups_is_the_state(changes: dict[str, object], state: str) -> None:
    assert changed(REPORT, group_failures=("x",), **changes).state == state


def test_groups_come_back_from_json_as_they_were() -> None:
    report = changed(
        REPORT,
        groups=moves(WRITTEN, HELD, DELETED, UNKNOWN, reason="r", notes=("n",)),
        group_failures=("f",),
    )
    assert RunReport.from_json(report.to_json()) == report
