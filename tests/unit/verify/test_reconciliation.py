from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import Segment
from kafka_ferry.ledger import AcceptedRange, CopiedRange, LedgerRange
from kafka_ferry.model.cluster_state import LogBounds
from kafka_ferry.model.positions import ProducerState
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.verify import (
    PartitionRecount,
    PartitionRow,
    RangeRow,
    Recount,
    partition_rows,
    range_row,
)
from tests.support.runs.reports import changed

SOURCE = TopicPartition("orders", 3)
TARGET = TopicPartition("eu.orders", 3)
COPIED = CopiedRange(
    topic="orders",
    topic_id="source-id",
    partition=3,
    remote_topic="eu.orders",
    remote_topic_id="target-id",
    start=100,
    end=200,
    records=90,
    bytes=9000,
    batches=4,
    reasons={"aborted": 5, "control": 2, "compacted": 1, "lost to retention": 2},
    digest="d1",
)


def row_of(recount: Recount, *, compacted: bool = False) -> RangeRow:
    return range_row(LedgerRange(7, "r", COPIED), recount, target_is_compacted=compacted)


def tile(start: int, end: int, ledger_offset: int = 0, **changes: object) -> RangeRow:
    copied = COPIED.model_copy(
        update={"start": start, "end": end, "records": end - start, "reasons": {}}
    )
    recount = Recount(end - start, "d1")
    row = range_row(
        LedgerRange(ledger_offset, "r", copied),
        recount,
    )
    return changed(row, **changes)


def planned(start: int, end: int, **more: object) -> Range:
    return replace(Range("orders", 3, start, end, "source-id", "eu.orders", 0), **more)


def beyond(records: int) -> PartitionRecount:
    return PartitionRecount((), records)


def only_row(*ranges: RangeRow, plan=(), positions=None, recounts=None, logs=None) -> PartitionRow:
    (row,) = partition_rows(ranges, plan, positions or {}, recounts or {}, logs or {})
    return row


class TestARange:
    def test_counts_every_reason_and_those_without_a_column_too(self) -> None:
        row = row_of(Recount(90, "d1"))
        assert row.ledger.reasons == {"aborted": 5, "control": 2, "compacted": 1}
        assert row.ledger.other_reasons == 2
        assert row.ledger.accounted == row.source_offsets == 100

    def test_says_which_offsets_were_lost_and_how_many_records_are_dead_letters(self) -> None:
        copied = COPIED.model_copy(
            update={"reasons": {"lost": 7, "dead-lettered": 3}, "lost": ((100, 105), (110, 112))}
        )
        row = range_row(
            LedgerRange(7, "r", copied),
            Recount(90, "d1"),
        )
        assert row.ledger.reasons == {"lost": 7, "dead-lettered": 3}
        assert row.ledger.other_reasons == 0
        assert row.ledger.lost_intervals == ((100, 105), (110, 112))
        assert row.ledger.accounted == row.source_offsets

    def test_says_how_far_the_sources_log_was_cut_back(self) -> None:
        assert tile(100, 200).rewound == 0
        assert tile(100, 200, rewound_from=140).rewound == 40

    def test_of_a_topic_that_is_gone_has_nothing_to_count_and_nothing_to_compare(self) -> None:
        row = range_row(LedgerRange(7, "r", COPIED), None)
        assert (row.recount.gone, row.recount.target_records, row.recount.target_compacted) == (
            90,
            0,
            0,
        )
        assert row.recount.found == row.ledger.copied
        assert not row.recount.digest_comparable

    def test_without_records_of_a_topic_that_is_gone_has_nothing_to_compare_either(self) -> None:
        # The digest of no batches is one all the same.
        copied = COPIED.model_copy(update={"records": 0, "reasons": {"aborted": 100}})
        row = range_row(LedgerRange(7, "r", copied), None)
        assert row.recount.found == row.ledger.copied == 0
        assert not row.recount.digest_comparable

    def test_compares_digests_where_the_target_still_holds_everything(self) -> None:
        row = row_of(Recount(90, "d2"))
        assert row.recount.digest_comparable
        assert (row.ledger.digest_sent, row.recount.digest_read) == ("d1", "d2")

    def test_explains_expired_records_and_does_not_compare_the_rest(self) -> None:
        row = row_of(Recount(60, "d2", expired=30))
        assert row.recount.found == row.ledger.copied
        assert not row.recount.digest_comparable

    def test_explains_missing_records_by_the_cleaner_of_a_compacted_target(self) -> None:
        row = row_of(Recount(50, "d2", expired=30), compacted=True)
        assert row.recount.target_compacted == 10
        assert row.recount.found == row.ledger.copied
        assert not row.recount.digest_comparable

    def test_does_not_compare_what_the_cleaner_has_left(self) -> None:
        assert not row_of(Recount(80, "d2"), compacted=True).recount.digest_comparable
        assert row_of(Recount(90, "d2"), compacted=True).recount.digest_comparable

    def test_does_not_explain_missing_records_of_another_target(self) -> None:
        row = row_of(Recount(80, "d2"))
        assert row.recount.target_compacted == 0
        assert row.recount.found == row.ledger.copied - 10

    def test_never_explains_more_records_than_were_copied(self) -> None:
        row = row_of(Recount(91, "d2"), compacted=True)
        assert row.recount.target_compacted == 0
        assert row.recount.found == row.ledger.copied + 1

    def test_is_called_by_its_source_offsets(self) -> None:
        assert str(row_of(Recount(90, "d1"))) == "orders-3 [100, 200)"


@st.composite
def tiles(draw: st.DrawFn) -> list[RangeRow]:
    """Ranges that join without gap and overlap, in any order."""
    start = draw(st.integers(0, 2**62))
    lengths = draw(st.lists(st.integers(1, 10_000), min_size=1, max_size=12))
    edges = list(accumulate(lengths, initial=start))
    joined = [tile(*edge, ledger_offset=n) for n, edge in enumerate(pairwise(edges))]
    return draw(st.permutations(joined))


def covered_one_by_one(spans: list[tuple[int, int]]) -> tuple[int, int]:
    """Gap and overlap by counting each offset."""
    counts = dict.fromkeys(range(min(s for s, _ in spans), max(e for _, e in spans)), 0)
    for start, end in spans:
        for offset in range(start, end):
            counts[offset] += 1
    values = list(counts.values())
    return values.count(0), sum(n - 1 for n in values if n > 1)


class TestRangesOfAPartition:
    @given(tiles())
    def test_that_join_have_neither_gap_nor_overlap(self, ranges: list[RangeRow]) -> None:
        row = only_row(*ranges)
        assert (row.coverage.gap_offsets, row.coverage.overlap_offsets) == (0, 0)
        assert row.coverage.covered_end - row.coverage.covered_start == sum(
            r.source_offsets for r in ranges
        )

    @given(tiles(), st.data())
    def test_leave_exactly_the_missing_range_as_gap(
        self, ranges: list[RangeRow], data: st.DataObject
    ) -> None:
        ordered = sorted(ranges, key=lambda r: r.start)
        if len(ordered) < 3:
            return
        missing = data.draw(st.sampled_from(ordered[1:-1]))
        row = only_row(*(r for r in ranges if r is not missing))
        assert (row.coverage.gap_offsets, row.coverage.overlap_offsets) == (
            missing.source_offsets,
            0,
        )

    @given(tiles(), st.data())
    def test_that_are_there_twice_overlap_by_their_length(
        self, ranges: list[RangeRow], data: st.DataObject
    ) -> None:
        again = data.draw(st.sampled_from(ranges))
        row = only_row(*ranges, changed(again, ledger_offset=99))
        assert (row.coverage.gap_offsets, row.coverage.overlap_offsets) == (0, again.source_offsets)

    @given(
        st.lists(
            st.tuples(st.integers(0, 40), st.integers(1, 10)).map(lambda p: (p[0], p[0] + p[1])),
            min_size=1,
            max_size=8,
        )
    )
    def test_give_the_same_gap_and_overlap_as_counting(self, spans: list[tuple[int, int]]) -> None:
        row = only_row(*(tile(start, end) for start, end in spans))
        assert (row.coverage.gap_offsets, row.coverage.overlap_offsets) == covered_one_by_one(spans)

    def test_that_are_empty_cover_nothing(self) -> None:
        row = only_row(tile(0, 10), tile(10, 20), tile(50, 50))
        assert (row.coverage.covered_start, row.coverage.covered_end, row.coverage.gap_offsets) == (
            0,
            20,
            0,
        )

    def test_of_a_topic_recreated_are_not_taken_for_copied_twice(self) -> None:
        old = [tile(0, 100, 1), tile(100, 200, 2)]
        new = [tile(0, 150, 3, topic_id="another")]
        rows = partition_rows(
            [*new, *old], [planned(0, 150)], {TARGET: 150}, {TARGET: beyond(4)}, {}
        )
        assert [
            (r.coverage.covered_end, r.coverage.overlap_offsets, r.beyond_position) for r in rows
        ] == [
            (200, 0, 0),
            (150, 0, 0),
        ]
        assert [(r.planned_end, r.position, r.log.target_beyond) for r in rows] == [
            (-1, -1, 0),
            (150, 150, 4),
        ]

    def test_of_a_remote_topic_recreated_are_not_taken_for_copied_twice(self) -> None:
        rows = partition_rows([tile(0, 9, 1), tile(0, 9, 2, remote_topic_id="x")], [], {}, {}, {})
        assert [row.coverage.overlap_offsets for row in rows] == [0, 0]


class TestALogThatWasCutBack:
    """Copied up to 100, then truncated to 60 by an unclean leader election."""

    BEFORE = (tile(0, 40, 1), tile(40, 100, 2))
    SINCE = (tile(60, 75, 3, rewound_from=100), tile(75, 120, 4))

    def test_is_not_taken_for_copied_twice(self) -> None:
        rows = partition_rows(self.BEFORE + self.SINCE, [], {TARGET: 120}, {}, {})
        assert [
            (r.coverage.overlap_offsets, r.coverage.gap_offsets, r.beyond_position) for r in rows
        ] == [
            (0, 0, 0),
            (0, 0, 0),
        ]

    def test_keeps_what_lies_below_the_cut_and_has_the_lost_branch_beside_it(self) -> None:
        branch, row = partition_rows(
            self.BEFORE + self.SINCE, [], {TARGET: 120}, {TARGET: beyond(4)}, {}
        )
        assert (str(branch), branch.position, branch.log.target_beyond) == (
            "orders-3 [60, 100)",
            100,
            0,
        )
        assert (str(row), row.position, row.log.target_beyond) == ("orders-3 [0, 120)", 120, 4)

    def test_covers_a_plan_of_which_the_cut_went_through_the_middle(self) -> None:
        """The first attempt of a run copied to 100; the second one found the cut at 60."""
        ranges = (*self.BEFORE, *self.SINCE)
        _, row = partition_rows(ranges, [planned(40, 120)], {TARGET: 120}, {}, {})
        assert (row.planned_start, row.uncovered, row.coverage.gap_offsets) == (40, 0, 0)

    @pytest.mark.parametrize(
        ("twice", "where"),
        [
            (tile(10, 20, 2), "orders-3 [0, 120)"),
            (tile(80, 90, 2), "orders-3 [60, 100)"),
            (tile(75, 85, 5), "orders-3 [0, 120)"),
            (tile(50, 60, 5), "orders-3 [0, 120)"),
        ],
        ids=["before, below the cut", "before, above it", "since", "since, below the cut"],
    )
    def test_still_shows_what_really_was_copied_twice(self, twice: RangeRow, where: str) -> None:
        rows = partition_rows((*self.BEFORE, *self.SINCE, twice), [], {TARGET: 120}, {}, {})
        found = {
            str(row): row.coverage.overlap_offsets for row in rows if row.coverage.overlap_offsets
        }
        assert found == {where: 10}

    def test_still_shows_a_gap_below_the_cut(self) -> None:
        rows = partition_rows((tile(0, 40, 1), *self.SINCE), [], {TARGET: 120}, {}, {})
        assert [(str(row), row.coverage.gap_offsets) for row in rows] == [("orders-3 [0, 120)", 20)]

    def test_shows_a_position_that_was_not_where_the_ledger_ended(self) -> None:
        since = changed(self.SINCE[0], rewound_from=110)
        branch, _ = partition_rows((*self.BEFORE, since), [], {TARGET: 75}, {}, {})
        assert branch.beyond_position == 10

    def test_has_one_life_where_what_was_before_is_verified_already(self) -> None:
        row = only_row(*self.SINCE, plan=[planned(60, 120)], positions={TARGET: 120})
        assert (row.coverage.covered_start, row.uncovered, row.beyond_position) == (60, 0, 0)

    def test_may_hold_nothing_new_yet(self) -> None:
        empty = tile(60, 60, 3, rewound_from=100)
        _, row = partition_rows((*self.BEFORE, empty), [planned(60, 60)], {TARGET: 60}, {}, {})
        assert (row.coverage.covered_end, row.beyond_position, row.uncovered) == (60, 0, 0)

    def test_may_be_cut_back_again(self) -> None:
        again = tile(65, 70, 5, rewound_from=120)
        rows = partition_rows((*self.BEFORE, *self.SINCE, again), [], {TARGET: 70}, {}, {})
        assert [str(row) for row in rows] == [
            "orders-3 [60, 100)",
            "orders-3 [65, 120)",
            "orders-3 [0, 70)",
        ]
        assert {
            (r.coverage.overlap_offsets, r.coverage.gap_offsets, r.beyond_position) for r in rows
        } == {(0, 0, 0)}

    def test_leaves_the_branches_of_other_partitions_alone(self) -> None:
        other = replace(tile(0, 100, 2), partition=4)
        rows = partition_rows((*self.BEFORE, *self.SINCE, other), [], {}, {}, {})
        assert [str(row) for row in rows if row.partition == 4] == ["orders-4 [0, 100)"]


class TestAPlannedPartition:
    @pytest.mark.parametrize(
        ("ends", "uncovered"),
        [((100, 200), 0), ((100, 230), 30), ((90, 200), 10), ((0, 100), 100), ((120, 180), 0)],
    )
    def test_is_covered_where_its_ranges_reach(self, ends: tuple[int, int], uncovered: int) -> None:
        row = only_row(tile(100, 160), tile(160, 200), plan=[planned(*ends)])
        assert row.uncovered == uncovered
        assert row.coverage.gap_offsets == 0

    def test_without_any_range_is_one_gap(self) -> None:
        row = only_row(plan=[planned(40, 100)])
        assert (row.coverage.gap_offsets, row.uncovered) == (60, 60)
        assert str(row) == "orders-3 [40, 100)"

    def test_with_nothing_to_copy_is_fine_without_a_range(self) -> None:
        row = only_row(plan=[planned(40, 40)])
        assert (row.coverage.gap_offsets, row.uncovered, row.beyond_position) == (0, 0, 0)

    def test_finds_its_position_by_its_remote_topic(self) -> None:
        (row,) = partition_rows([], [planned(40, 40)], {TARGET: 45}, {}, {})
        assert (row.remote_topic, row.position, row.beyond_position) == ("eu.orders", 45, 5)


class TestThePosition:
    @pytest.mark.parametrize(("position", "apart"), [(200, 0), (180, 20), (230, 30)])
    def test_is_compared_with_the_end_of_the_ledger(self, position: int, apart: int) -> None:
        assert only_row(tile(100, 200), positions={TARGET: position}).beyond_position == apart

    def test_that_is_missing_after_a_copy_is_not_passed_over(self) -> None:
        row = only_row(tile(100, 200))
        assert (row.position, row.beyond_position) == (-1, 200)


class TestRecordsBeyondTheLedger:
    def test_are_counted_for_their_partition(self) -> None:
        assert only_row(tile(0, 9), recounts={TARGET: beyond(3)}).log.target_beyond == 3

    def test_of_a_partition_that_was_not_copied_are_a_row_of_their_own(self) -> None:
        stray = TopicPartition("eu.other", 0)
        first, second = partition_rows([tile(0, 9)], [], {}, {stray: beyond(2)}, {})
        assert (first.topic, first.remote_topic, first.log.target_beyond) == ("", "eu.other", 2)
        assert str(first) == "eu.other-0 on the target"
        assert second.log.target_beyond == 0


KEPT = COPIED.model_copy(
    update={
        "segments": (Segment(100, 100, 60), Segment(170, 170, 30)),
        "preserved": True,
        "producer": ProducerState(7, 0, 90),
    }
)


def kept_row(**changes: object) -> RangeRow:
    copied = KEPT.model_copy(update=changes)
    return range_row(LedgerRange(7, "r", copied), Recount(90, "d1"))


class TestARangeWithPreservedOffsets:
    def test_says_so_and_has_no_record_at_another_offset(self) -> None:
        row = kept_row()
        assert (row.preserved, row.ledger.misplaced, row.ledger.adopted) == (True, 0, 0)
        assert row.recount.digest_comparable
        assert not row_of(Recount(90, "d1")).preserved

    @pytest.mark.parametrize(
        "segment",
        [
            Segment(170, 171, 30),
            Segment(170, 5_000, 30),
            Segment(90, 90, 30),
            Segment(171, 171, 30),
        ],
        ids=["one off", "far off", "before the range", "across its end"],
    )
    def test_counts_records_that_the_ledger_has_elsewhere(self, segment: Segment) -> None:
        assert kept_row(segments=(Segment(100, 100, 60), segment)).ledger.misplaced == 30

    def test_of_translated_offsets_has_none_elsewhere(self) -> None:
        assert kept_row(segments=(Segment(100, 7, 90),), preserved=False).ledger.misplaced == 0

    @pytest.mark.parametrize(("second", "displaced"), [(67, 0), (90, 0), (47, 20), (7, 30)])
    def test_counts_records_of_translated_offsets_that_the_ledger_has_where_others_are(
        self, second: int, displaced: int
    ) -> None:
        segments = Segment(100, 7, 60), Segment(160, second, 30)
        assert kept_row(segments=segments, preserved=False).ledger.displaced == displaced

    def test_says_how_many_records_were_adopted(self) -> None:
        row = kept_row(adopted=40)
        assert row.ledger.adopted == 40
        assert row.recount.found == row.ledger.copied
        assert row.recount.digest_comparable

    def test_compares_no_digest_where_a_batch_reaches_across_an_end(self) -> None:
        found = Recount(90, "d2", across=1)
        row = range_row(LedgerRange(7, "r", KEPT), found)
        assert not row.recount.digest_comparable


class TestAPartitionWithPreservedOffsets:
    RANGE = replace(tile(100, 200), preserved=True)

    def row(self, *, log=(100, 200), log_start: int = -1, position: int = 200, **found: int):
        return only_row(
            self.RANGE,
            plan=[planned(100, 200, preserved=True, log_start=log_start)],
            positions={TARGET: position},
            recounts={TARGET: PartitionRecount((), 0, **found)},
            logs={TARGET: LogBounds(*log)},
        )

    def test_says_so_by_its_ranges_or_by_the_plan(self) -> None:
        assert self.row().preserved
        assert only_row(plan=[planned(0, 9, preserved=True)]).preserved
        assert not only_row(tile(0, 9), plan=[planned(0, 9)]).preserved

    def test_hands_on_what_lies_around_the_ledgers_ranges(self) -> None:
        row = self.row(uncommitted=5, before=3)
        assert (row.log.uncommitted, row.log.target_before, row.log.target_beyond) == (5, 3, 0)

    @pytest.mark.parametrize(("log_end", "unreached"), [(200, 0), (230, 0), (170, 30), (0, 200)])
    def test_is_to_be_readable_up_to_the_ledgers_end(self, log_end: int, unreached: int) -> None:
        assert self.row(log=(0, log_end)).log.unreached == unreached

    @pytest.mark.parametrize(
        ("log_start", "position", "found", "exposed"),
        [
            (-1, 200, 0, 0),
            (100, 200, 100, 0),
            (100, 200, 120, 0),
            (100, 200, 40, 60),
            (150, 200, 100, 50),
            (190, 160, 100, 60),
            (100, -1, 0, 0),
        ],
        ids=[
            "left as it is",
            "as planned",
            "later, by retention",
            "not at the mirror's start",
            "the source's has moved",
            "no further than the position",
            "nothing was copied",
        ],
    )
    def test_is_to_start_where_the_plan_says(self, log_start, position, found, exposed) -> None:
        row = self.row(log_start=log_start, position=position, log=(found, 200))
        assert row.log.exposed == exposed

    def test_is_to_start_there_even_where_nothing_was_copied(self) -> None:
        plan = planned(200, 200, preserved=True, log_start=130)
        row = only_row(plan=[plan], positions={TARGET: 200}, logs={TARGET: LogBounds(100, 200)})
        assert row.log.exposed == 30

    def test_of_translated_offsets_is_asked_for_neither(self) -> None:
        row = only_row(tile(100, 200), positions={TARGET: 200}, recounts={TARGET: beyond(0)})
        assert (row.log.unreached, row.log.exposed) == (0, 0)


# --- ranges that are left as they are

LEFT = AcceptedRange(
    ledger_offset=7,
    topic="orders",
    partition=3,
    start=100,
    records=60,
    digest="d9",
    missing=((1_010, 1_020), (1_040, 1_060)),
)


@pytest.mark.parametrize(
    ("recount", "accepted_missing", "is_compared", "holds"),
    [
        # Exactly what was accepted.
        (Recount(60, "d9"), 30, False, True),
        # More is lost since, or something else is there.
        (Recount(59, "d8"), 0, True, False),
        (Recount(60, "d8"), 0, True, False),
        # It was found after all.
        (Recount(90, "d1"), 0, True, True),
        # A part of it has expired since: no more may be missing than was in the rest.
        (Recount(50, "d7", expired=10, log_start=1_010), 30, False, True),
        (Recount(40, "d7", expired=30, log_start=1_030), 20, False, True),
        (Recount(45, "d7", expired=30, log_start=1_030), 15, False, True),
        (Recount(30, "d7", expired=30, log_start=1_030), 20, False, False),
        (Recount(24, "d7", expired=55, log_start=1_055), 5, False, False),
        (Recount(20, "d7", expired=60, log_start=1_060), 0, False, False),
        # All of it has expired.
        (Recount(0, "d0", expired=90, log_start=1_090), 0, False, True),
    ],
)
def test_a_range_that_is_left_as_it_is_must_stay_so(
    recount: Recount, accepted_missing: int, is_compared: bool, holds: bool
) -> None:
    row = range_row(LedgerRange(7, "r", COPIED), recount, accepted=LEFT)
    assert row.recount.accepted_missing == accepted_missing
    assert row.recount.digest_comparable is is_compared
    assert (row.recount.found == row.ledger.copied) is holds
