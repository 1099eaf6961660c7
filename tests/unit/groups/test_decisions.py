"""What is done with an offset on the target, by what is known of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import Reason
from kafka_ferry.groups.decisions import (
    NO_LOG,
    NOT_COPIED,
    UNKNOWN,
    decide,
    decide_without_copy,
    is_renewal_due,
    left_alone,
    translate_move,
    why_not,
)
from kafka_ferry.groups.moves import GroupMove, PartitionMove
from kafka_ferry.groups.routes import Route
from kafka_ferry.groups.translation import OffsetMap
from kafka_ferry.ledger import SyncedOffset
from kafka_ferry.ledger.queries.copied_ranges import BackfilledCounts
from kafka_ferry.ledger.queries.range_columns import RangeColumns
from kafka_ferry.model import LogBounds, TopicPartition
from kafka_ferry.model.groups import Committed, Group
from tests.support.records.model_log import a_range

GROUP = Group("billing", "classic", "Stable", "consumer")
HERE, THERE = TopicPartition("orders", 3), TopicPartition("eu.orders", 3)
OTHER_HERE, OTHER_THERE = TopicPartition("stock", 0), TopicPartition("eu.stock", 0)
AHEAD = "its offset on the target is {} already, further ahead, and this flow has not committed it."
AFTER_END = "it is after the end of the source's log, {}."
BACK = "the group was set back on the source from {} to {}"


def a_move(offset: int, committed: int = -1, metadata: str = "") -> PartitionMove:
    """An offset on the target, and on the source, where it is ten times as much unless it is given."""
    was = Committed(10 * offset if committed < 0 else committed, 7, metadata)
    return PartitionMove(HERE, was, 10_000, THERE, offset, "exact")


def after(
    move: PartitionMove,
    there: Committed | None = None,
    last: SyncedOffset | None = None,
    *,
    follow: bool = False,
) -> tuple[str, str]:
    """What is done with a group's only partition, and why."""
    group = decide(
        GroupMove(GROUP, (move,)),
        {THERE: there} if there else {},
        {THERE: last} if last else {},
        follow=follow,
    )
    (one,) = group.partitions
    assert replace(one, action=move.action, reason=move.reason) == move
    return one.action, one.reason


@pytest.mark.parametrize(
    ("there", "last", "action", "reason"),
    [
        # Nothing is there now, whatever was there before.
        (None, None, "written", ""),
        (None, (500, 50), "written", ""),
        (-1, None, "written", ""),
        # It goes forward, wherever it was.
        (49, None, "written", ""),
        (49, (490, 49), "written", ""),
        (10, (490, 49), "written", ""),
        (50, None, "unchanged", ""),
        (50, (500, 50), "unchanged", ""),
        # It never goes back beyond what another client has committed.
        (51, None, "held", AHEAD.format(51)),
        (51, (500, 50), "held", AHEAD.format(51)),
        (51, (-1, -1), "held", AHEAD.format(51)),
        (70, (600, 60), "held", AHEAD.format(70)),
        # It goes back only where the group did.
        (60, (600, 60), "held", f"{BACK.format(600, 500)}; on.source.group.reset: keep leaves 60"),
        (55, (600, 60), "held", f"{BACK.format(600, 500)}; on.source.group.reset: keep leaves 55"),
        (60, (500, 60), "held", "it would go back from 60 to 50, although the group did not"),
        (60, (400, 60), "held", "it would go back from 60 to 50, although the group did not"),
    ],
)
def test_an_offset_is_written_unless_a_rule_holds_it(
    there: int | None, last: tuple[int, int] | None, action: str, reason: str
) -> None:
    found = after(
        a_move(50),
        None if there is None else Committed(there),
        SyncedOffset(source=last[0], target=last[1]) if last else None,
    )
    assert found[0] == action
    assert found[1].startswith(reason)
    assert bool(found[1]) == bool(reason)


@pytest.mark.parametrize(
    ("there", "last", "action"),
    [
        (60, (600, 60), "written"),
        (55, (600, 60), "written"),
        # A consumer has read on since.
        (61, (600, 60), "held"),
        # The group is where it was: a log has changed.
        (60, (500, 60), "held"),
        (60, None, "held"),
    ],
)
def test_a_group_that_was_set_back_is_followed_where_the_flow_says_so(
    there: int, last: tuple[int, int] | None, action: str
) -> None:
    synced = SyncedOffset(source=last[0], target=last[1]) if last else None
    assert after(a_move(50), Committed(there), synced, follow=True)[0] == action


@pytest.mark.parametrize(
    ("committed", "there", "action", "reason"),
    [
        (500, 70, "written", "as if that were 500 on the source; by the records, 500 is 50."),
        # Whatever the group has done on the source since.
        (480, 70, "written", "by the records, 480 is 50."),
        (520, 70, "written", "by the records, 520 is 50."),
        (500, 40, "written", ""),
        (500, 50, "unchanged", ""),
        # A consumer has read on from there.
        (500, 71, "held", AHEAD.format(71)),
    ],
)
@pytest.mark.parametrize("follow", [True, False])
def test_an_offset_of_mirrormaker_2_that_the_records_contradict_is_not_further_ahead(
    committed: int, there: int, action: str, reason: str, follow: bool
) -> None:
    refuted = SyncedOffset(source=500, target=70, refuted=True)
    found = after(a_move(50, committed), Committed(there), refuted, follow=follow)
    assert found[0] == action
    assert found[1].endswith(reason)


def test_other_metadata_at_the_same_offset_are_written() -> None:
    move = a_move(50, metadata="new")
    assert after(move, Committed(50, metadata="old"))[0] == "written"
    assert after(move, Committed(50, 3, metadata="new"))[0] == "unchanged"


def test_what_has_no_answer_stays_held_for_its_own_reason() -> None:
    move = PartitionMove(HERE, Committed(5), target=THERE, action="held", reason="why")
    assert after(move, Committed(3)) == ("held", "why")


@given(
    offset=st.integers(0, 20),
    committed=st.integers(0, 20),
    there=st.none() | st.integers(-1, 20),
    last=st.none() | st.tuples(st.integers(-1, 20), st.integers(0, 20)),
    follow=st.booleans(),
)
def test_nothing_ever_goes_back_but_after_a_group_that_was_set_back(
    offset: int,
    committed: int,
    there: int | None,
    last: tuple[int, int] | None,
    follow: bool,
) -> None:
    synced = SyncedOffset(source=last[0], target=last[1]) if last else None
    was = None if there is None else Committed(there)
    action, _ = after(a_move(offset, committed), was, synced, follow=follow)
    if action == "written" and there is not None and there > offset:
        assert follow
        assert last is not None
        assert committed < last[0]
        assert there <= last[1]


def a_pair(**changes: Any) -> GroupMove:
    """A group that reads a preserved topic, ``stock``, and a translated one."""
    kept = PartitionMove(OTHER_HERE, Committed(5), 9, OTHER_THERE, 5, "exact")
    return GroupMove(GROUP, (a_move(50), replace(kept, **changes)))


def actions(group: GroupMove) -> list[str]:
    return [one.action for one in group.partitions]


def test_a_group_that_reads_both_kinds_of_topics_moves_as_one() -> None:
    free = decide(a_pair(), {}, {}, follow=False, preserved={"stock"})
    assert actions(free) == ["written", "written"]
    assert free.reason == ""

    stuck = a_pair(offset=None, action="held", reason=NOT_COPIED)
    both = decide(stuck, {}, {}, follow=False, preserved={"stock"})
    assert actions(both) == ["held", "held"]
    assert both.reason == both.partitions[0].reason
    assert both.reason == (
        "a group that reads preserved and translated topics moves as one, and stock-0 is held."
    )
    assert both.partitions[1].reason == NOT_COPIED

    ahead = decide(a_pair(), {THERE: Committed(70)}, {}, follow=False, preserved={"stock"})
    assert actions(ahead) == ["held", "held"]
    assert ahead.partitions[0].reason == AHEAD.format(70)


@pytest.mark.parametrize("preserved", [set(), {"stock", "orders"}])
def test_a_group_that_reads_one_kind_moves_partition_by_partition(preserved: set[str]) -> None:
    stuck = a_pair(offset=None, action="held", reason=NOT_COPIED)
    assert actions(decide(stuck, {}, {}, follow=False, preserved=preserved)) == ["written", "held"]


def test_a_group_is_left_alone_as_a_whole_with_the_reasons_that_were_there() -> None:
    held = a_pair(offset=None, action="held", reason=NOT_COPIED)
    group = left_alone(held, "in use")
    assert [one.reason for one in group.partitions] == ["in use", NOT_COPIED]
    assert actions(group) == ["held", "held"]
    assert group.reason == "in use"


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        (Group("billing", state="Dead"), ""),
        (Group("billing", "share", "Dead"), ""),
        (Group("billing", state="Empty"), ""),
        (Group("billing", "consumer", "Empty"), ""),
        (Group("billing", state="Stable"), "it is in use on us (state Stable)."),
        (Group("billing", "consumer", "Reconciling"), "it is in use on us (state Reconciling)."),
        (Group("billing", state=""), "it is in use on us (state unknown)."),
        (
            Group("billing", "share", "Empty"),
            "on us it is a share group, not a classic group: delete or rename one of them.",
        ),
    ],
)
def test_only_a_group_without_members_may_be_written(there: Group, reason: str) -> None:
    assert why_not(GROUP, there, "us") == reason


ROUTE = Route(HERE, THERE, "id", False, OffsetMap.of([a_range(0, 9, [(0, 10, 5), (7, 16, 2)])]))


@pytest.mark.parametrize(
    ("offset", "there", "kind"),
    [(3, 13, "exact"), (5, 16, "gap"), (9, 18, "exact"), (12, 18, "clamped")],
)
def test_an_offset_is_translated_by_the_partitions_map(offset: int, there: int, kind: str) -> None:
    move = translate_move(HERE, Committed(offset), ROUTE, logs=(LogBounds(0, 20), LogBounds(0, 30)))
    assert (move.target, move.offset, move.kind, move.lag) == (THERE, there, kind, 20 - offset)
    assert (move.action, move.reason) == ("shown", "")


def test_no_answer_leaves_the_log_of_the_target() -> None:
    def offset(log: LogBounds) -> int | None:
        return translate_move(HERE, Committed(3), ROUTE, logs=(LogBounds(0, 20), log)).offset

    assert (offset(LogBounds(0, 12)), offset(LogBounds(15, 30))) == (12, 15)


def test_there_is_no_answer_without_the_targets_log() -> None:
    move = translate_move(HERE, Committed(3), ROUTE, logs=(LogBounds(0, 20), None))
    assert (move.offset, move.action, move.reason) == (None, "held", NO_LOG)


def test_there_is_no_answer_where_the_map_has_none() -> None:
    hole = OffsetMap.of([a_range(0, 10, [(0, 0, 10)]), a_range(30, 40, [(30, 10, 10)])])
    move = translate_move(
        HERE, Committed(20), replace(ROUTE, map=hole), logs=(LogBounds(0, 40), LogBounds(0, 20))
    )
    assert (move.offset, move.action, move.reason) == (None, "held", UNKNOWN)
    # Where it continues by an earlier sync, it may pass over records.
    assert move.is_lost


def test_an_offset_after_the_sources_own_end_is_held() -> None:
    move = translate_move(HERE, Committed(12), ROUTE, logs=(LogBounds(0, 11), LogBounds(0, 30)))
    assert (move.offset, move.action) == (None, "held")
    assert move.reason == AFTER_END.format(11)


@pytest.mark.parametrize(
    ("committed", "logs", "offset", "reason"),
    [
        (0, (LogBounds(0, 0), LogBounds(0, 0)), 0, ""),
        (7, (LogBounds(7, 7), LogBounds(0, 4)), 4, ""),
        # What it had still to read has expired.
        (7, (LogBounds(8, 8), LogBounds(2, 2)), 2, ""),
        (7, (LogBounds(8, 8), LogBounds(2, 4)), 2, ""),
        # Something is there that no run has copied yet, or that the group has still to read.
        (7, (LogBounds(0, 7), LogBounds(0, 0)), None, NOT_COPIED),
        (7, (None, LogBounds(0, 0)), None, NOT_COPIED),
        (7, (LogBounds(7, 7), None), None, NO_LOG),
        (7, (LogBounds(0, 0), LogBounds(0, 0)), None, AFTER_END.format(0)),
    ],
)
def test_a_group_goes_on_in_a_partition_of_which_nothing_was_ever_copied(
    committed: int,
    logs: tuple[LogBounds | None, LogBounds | None],
    offset: int | None,
    reason: str,
) -> None:
    move = decide_without_copy(HERE, Committed(committed), THERE, logs=logs)
    assert (move.offset, move.reason) == (offset, reason)
    assert move.action == ("shown" if offset is not None else "held")


def test_it_reads_what_applications_have_written_there_from_the_start() -> None:
    logs = (LogBounds(0, 0), LogBounds(2, 5))
    assert decide_without_copy(HERE, Committed(0), THERE, logs=logs, others_write=True).offset == 2


def test_an_offset_in_a_copy_goes_home_by_the_opposite_flows_map() -> None:
    move = translate_move(
        THERE, Committed(12), ROUTE, logs=(LogBounds(0, 30), LogBounds(0, 20)), home=True
    )
    back = ROUTE.map.reverse(12, log_start=0, log_end=20)
    assert back is not None
    assert (move.target, move.offset, move.kind, move.home) == (HERE, back.offset, back.kind, True)


# Once a day, each group's offsets are written again, at a time of its own.
HOUR = 60 * 60 * 1000
DAY = 24 * HOUR
NOON = 20_000 * DAY + 12 * HOUR
GROUPS = [f"group-{number}" for number in range(1_000)]


@given(st.text(), st.integers(0, 3 * DAY), st.integers(60_000, DAY))
def test_no_day_goes_by_without_a_renewal(group: str, start: int, every: int) -> None:
    runs = [NOON + start + n * every for n in range(DAY // every + 2)]
    assert any(is_renewal_due(group, since=a, now=b) for a, b in pairwise(runs))


def test_a_groups_first_run_and_the_first_one_after_a_day_renew_it() -> None:
    assert all(is_renewal_due(group, since=0, now=NOON) for group in GROUPS)
    assert all(is_renewal_due(group, since=NOON, now=NOON + DAY) for group in GROUPS)


def test_an_hourly_run_renews_about_one_group_in_24_and_each_once_a_day() -> None:
    hours = [NOON + n * HOUR for n in range(25)]
    counts = [
        sum(is_renewal_due(group, since=a, now=b) for group in GROUPS) for a, b in pairwise(hours)
    ]
    assert sum(counts) == len(GROUPS)
    assert max(counts) < 80


def test_a_run_that_is_repeated_at_once_renews_nothing() -> None:
    assert not any(is_renewal_due(group, since=NOON, now=NOON) for group in GROUPS)


@pytest.mark.parametrize(
    ("offset", "here", "there", "missing"),
    [
        # The copy began at 10, which is 0 there, and has come to 20.
        (4, LogBounds(0, 25), LogBounds(0, 11), 6),
        (4, LogBounds(7, 25), LogBounds(0, 11), 3),
        (4, LogBounds(10, 25), LogBounds(0, 11), 0),
        (10, LogBounds(0, 25), LogBounds(0, 11), 0),
        # What was copied first is gone there by now.
        (12, LogBounds(0, 25), LogBounds(5, 11), 3),
        (15, LogBounds(0, 25), LogBounds(5, 11), 0),
        (4, LogBounds(0, 25), LogBounds(11, 11), 16),
        (12, LogBounds(14, 25), LogBounds(5, 11), 1),
        (22, LogBounds(0, 25), LogBounds(5, 11), 0),
        # The partition that the group leaves has no leader, and may still have all that comes after its offset.
        (4, None, LogBounds(0, 11), 6),
        (10, None, LogBounds(0, 11), 0),
        (12, None, LogBounds(5, 11), 3),
        (4, None, LogBounds(11, 11), 16),
    ],
)
def test_unread_offsets_that_are_not_there_are_counted(
    offset: int, here: LogBounds | None, there: LogBounds, missing: int
) -> None:
    offsets = OffsetMap.of([a_range(10, 20, [(10, 0, 10)])])
    route = Route(HERE, THERE, "id", preserved=False, map=offsets)
    assert translate_move(HERE, Committed(offset), route, logs=(here, there)).missing == missing


@pytest.mark.parametrize(
    ("offset", "log_start", "missing"),
    [(20, 11, 0), (20, 15, 4), (25, 15, 0), (12, 15, 12), (20, 22, 10), (30, 22, 0)],
)
def test_so_are_those_whose_copies_expired_before_they_were_proved(
    offset: int, log_start: int, missing: int
) -> None:
    proved, pending = a_range(10, 20, [(10, 0, 10)]), a_range(20, 30, [(20, 11, 10)])
    offsets = OffsetMap(RangeColumns.of([proved]), pending=RangeColumns.of([pending]))
    route = Route(HERE, THERE, "id", preserved=False, map=offsets)
    logs = LogBounds(0, 40), LogBounds(log_start, 22)
    assert translate_move(HERE, Committed(offset), route, logs=logs).missing == missing


@pytest.mark.parametrize(
    ("ranges", "left_out", "offset", "missing"),
    [
        # Of [0, 10) a backfill has copied [2, 5), and looked at two more.
        ([(2, 7, 3)], [2], 0, 7),
        ([(2, 7, 3)], [2], 2, 5),
        ([(2, 7, 3)], [2], 7, 3),
        ([(2, 7, 3)], [2], 10, 0),
        # The two others are markers.
        ([(2, 7, 3)], [0], 2, 3),
        # Another one has copied them since, with the rest.
        ([(2, 7, 3), (5, 10, 5)], [2, 0], 2, 0),
        ([(2, 7, 3), (5, 9, 4)], [2, 0], 2, 1),
    ],
)
def test_unread_offsets_that_no_backfill_has_copied_are_counted(
    ranges: list[tuple[int, int, int]], left_out: list[int], offset: int, missing: int
) -> None:
    backfilled = [
        a_range(start, end, [(start, 100 * start, records)]) for start, end, records in ranges
    ]
    columns = RangeColumns.of([a_range(10, 20, [(10, 0, 10)]), *backfilled])
    is_backfill = np.array([False, *(True for _ in ranges)])
    partly = tuple(
        BackfilledCounts("orders", "", 3, "", "", *it, reasons={Reason.OUTSIDE_WINDOW: count})
        for it, count in zip(ranges, left_out, strict=True)
        if count
    )
    offsets = OffsetMap(columns._replace(backfill=is_backfill))
    route = Route(HERE, THERE, "id", preserved=False, map=offsets, partly=partly)
    logs = LogBounds(0, 20), LogBounds(0, 2_000)
    assert translate_move(HERE, Committed(offset), route, logs=logs).missing == missing


@pytest.mark.parametrize(
    ("ranges", "offset", "starts", "missing"),
    [
        # The flow began at 20; a backfill has appended [0, 20) since, and 20 records at the start are gone there.
        ([(20, 0, 40), (0, 41, 20)], 0, (0, 20), 20),
        ([(20, 0, 40), (0, 41, 20)], 30, (0, 20), 10),
        ([(20, 0, 40), (0, 41, 20)], 40, (0, 20), 0),
        # Of the backfill's own, too.
        ([(20, 0, 40), (0, 41, 20)], 10, (0, 45), 40),
        # A repair has appended [10, 30), which was lost at its first place.
        ([(0, 0, 90), (10, 92, 20)], 5, (0, 50), 25),
        ([(0, 0, 90), (10, 92, 20)], 15, (0, 50), 20),
        ([(0, 0, 90), (10, 92, 20)], 40, (0, 50), 10),
        ([(0, 0, 90), (10, 92, 20)], 50, (0, 50), 0),
        # What the source has deleted too, a group could not read there either.
        ([(0, 0, 90), (10, 92, 20)], 5, (45, 50), 5),
    ],
)
def test_unread_records_that_have_expired_are_counted_in_whatever_order_they_were_copied(
    ranges: list[tuple[int, int, int]], offset: int, starts: tuple[int, int], missing: int
) -> None:
    offsets = OffsetMap.of(a_range(at, at + count, [(at, to, count)]) for at, to, count in ranges)
    ends = [max(row[side] + row[2] for row in ranges) for side in (0, 1)]
    here, there = (LogBounds(start, end) for start, end in zip(starts, ends, strict=True))
    route = Route(HERE, THERE, "id", preserved=False, map=offsets)
    assert translate_move(HERE, Committed(offset), route, logs=(here, there)).missing == missing


@pytest.mark.parametrize(("offset", "missing"), [(0, 20), (10, 20), (41, 20), (51, 10), (61, 0)])
def test_so_are_those_that_the_source_has_deleted_where_a_group_goes_home(
    offset: int, missing: int
) -> None:
    """The source's log starts at 20: what a backfill has copied, the group has on the target alone."""
    offsets = OffsetMap.of([a_range(20, 60, [(20, 0, 40)]), a_range(0, 20, [(0, 41, 20)])])
    route = Route(HERE, THERE, "id", preserved=False, map=offsets)
    logs = LogBounds(0, 61), LogBounds(20, 60)
    move = translate_move(THERE, Committed(offset), route, logs=logs, home=True)
    assert move.missing == missing
