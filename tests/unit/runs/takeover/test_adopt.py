"""What another mirror has copied becomes ranges of the ledger that account for every offset."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from kafka_ferry.batches import Segment
from kafka_ferry.groups.alignment.align import Alignment, LogRecords
from kafka_ferry.model import Topic
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.runs.takeover.adopt import join_ranges, ranges_of

PAIR = Pair(
    topic="orders",
    source=Topic("orders", "source-id", 1),
    remote_topic="primary.orders",
    remote=Topic("primary.orders", "remote-id", 1),
    positions={},
)


def log(offsets: list[int], *, markers: list[int], aborted: list[int]) -> LogRecords:
    count = len(offsets)
    return LogRecords(
        0,
        max(offsets) + 1,
        np.array(offsets, np.int64),
        np.arange(count, dtype=np.uint64),
        np.isin(offsets, aborted),
        np.zeros(count, np.int64),
        markers=np.array(markers, np.int64),
    )


def test_each_offset_is_a_record_or_has_a_reason() -> None:
    source = log([0, 1, 2, 3, 5, 8], markers=[4, 9], aborted=[3])
    found = Alignment(0, 10, (Segment(0, 0, 3), Segment(5, 3, 1), Segment(8, 4, 1)), 5, aborted=1)

    (range_,) = ranges_of(PAIR, 0, found, source, None)

    assert range_.records == range_.adopted == 5
    assert range_.reasons == {"control": 2, "aborted": 1, "compacted": 2}
    assert range_.end - range_.start == range_.records + sum(range_.reasons.values())
    assert (range_.topic_id, range_.remote_topic_id) == ("source-id", "remote-id")


def test_a_history_of_many_segments_is_cut_so_that_each_record_of_the_ledger_fits() -> None:
    segments = tuple(Segment(2 * i, i, 1) for i in range(25_000))
    source = log([2 * i for i in range(25_000)], markers=list(range(1, 50_000, 2)), aborted=[])
    found = Alignment(0, 49_999, segments, 25_000)

    ranges = list(ranges_of(PAIR, 0, found, source, replace(source, end=60_000)))

    assert [len(range_.segments) for range_ in ranges] == [10_000, 10_000, 5_000]
    assert [range_.compared for range_ in ranges] == [(), (), ((0, 60_000),)]
    assert [range_.target_end for range_ in ranges] == [10_000, 20_000, 60_000]
    assert all(before.end == after.start for before, after in pairwise(ranges))
    assert (ranges[0].start, ranges[-1].end) == (0, 49_999)
    for range_ in ranges:
        assert range_.end - range_.start == range_.records + sum(range_.reasons.values())
    entries = list(join_ranges(ranges))
    assert [range_ for entry in entries for range_ in entry] == ranges
    assert all(sum(len(r.segments) for r in entry) <= 10_000 for entry in entries)


def test_small_ranges_share_a_record_of_the_ledger() -> None:
    source = log([0], markers=[], aborted=[])
    ranges = [
        next(ranges_of(PAIR, number, Alignment(0, 1, (Segment(0, 0, 1),), 1), source, None))
        for number in range(500)
    ]
    assert len(list(join_ranges(ranges))) == 1


def test_what_was_compared_stands_in_the_last_range_and_bytes_are_in_proportion() -> None:
    source = log([0, 1, 2, 3], markers=[], aborted=[])
    # Offsets 7 to 12 were read, and one of the six records is a duplicate.
    target = replace(log([7, 8, 9, 10, 11, 12], markers=[], aborted=[]), first=7, bytes=600)
    found = Alignment(0, 5, tuple(Segment(i, 7 + i, 1) for i in range(5)), 5, doubled=1)

    (range_,) = ranges_of(PAIR, 0, found, source, target)

    assert range_.compared == ((7, 13),)
    assert range_.bytes == 500
