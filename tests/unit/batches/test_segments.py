from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import Segment, SegmentList
from kafka_ferry.batches.segments import first_lost, without_overlaps

Runs = tuple[tuple[int, int], ...]


def segments_of(*added: tuple[Runs, int]) -> list[Segment]:
    segments = SegmentList()
    for runs, base_offset in added:
        segments.add(runs, base_offset)
    return list(segments)


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ([], []),
        ([((), 10)], []),
        ([(((0, 5),), 10)], [(0, 10, 5)]),
        ([(((0, 5),), 10), (((7, 2),), 15)], [(0, 10, 5), (7, 15, 2)]),
        ([(((0, 5),), 10), (((5, 2),), 15)], [(0, 10, 7)]),
        ([(((0, 5),), 10), (((5, 2),), 16)], [(0, 10, 5), (5, 16, 2)]),
        ([(((0, 2), (4, 3)), 10)], [(0, 10, 2), (4, 12, 3)]),
        ([(((0, 2), (2, 3)), 10)], [(0, 10, 5)]),
        ([(((0, 2), (4, 1)), 10), (((5, 1),), 13)], [(0, 10, 2), (4, 12, 2)]),
        ([(((2**40, 1),), 2**41), (((2**40 + 1, 1),), 2**41 + 1)], [(2**40, 2**41, 2)]),
    ],
    ids=[
        "nothing",
        "a batch without records",
        "a batch",
        "a gap on the source",
        "no gap",
        "a gap on the target",
        "a gap within a batch",
        "runs that join",
        "a run joins the last batch's last",
        "large offsets",
    ],
)
def test_segments_are_as_long_as_they_can_be(
    added: list[tuple[Runs, int]], expected: list[tuple[int, int, int]]
) -> None:
    assert segments_of(*added) == expected


_batches = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=3), st.integers(0, 2)
    ),
    max_size=6,
)


@given(_batches)
def test_each_offset_is_mapped_as_it_was_added(
    batches: list[tuple[list[tuple[int, int]], int]],
) -> None:
    expected: dict[int, int] = {}
    segments, source, target = SegmentList(), 100, 5_000
    for gaps_and_counts, skipped in batches:
        target += skipped
        runs = []
        for gap, count in gaps_and_counts:
            runs.append((source + gap, count))
            source += gap + count
        segments.add(runs, target)
        for first, count in runs:
            for offset in range(first, first + count):
                expected[offset] = target
                target += 1
    assert expected == {
        segment.source + i: segment.target + i
        for segment in segments
        for i in range(segment.records)
    }
    for one, following in pairwise(segments):
        ends = one.source + one.records, one.target + one.records
        assert ends != (following.source, following.target)
        assert ends[0] <= following.source and ends[1] <= following.target


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), min_size=1), st.integers(0, 45))
def test_the_first_record_that_a_restored_log_lacks_is_found(
    copied: list[tuple[int, int]], restored: int
) -> None:
    """A log that was restored has all before an offset, and other records from there on."""
    segments = list(without_overlaps(Segment(start, 100 + start, count) for start, count in copied))
    offsets = [it.source + at for it in segments for at in range(it.records)]
    assert offsets == sorted({start + at for start, count in copied for at in range(count)})
    restored = min(restored, offsets[-1])
    asked = list[int]()

    def has(offset: int, image: int) -> bool:
        assert image == offset + 100
        asked.append(offset)
        return offset < restored

    assert first_lost(segments, has) == next(it for it in offsets if it >= restored)
    assert len(asked) <= 6
    if len(offsets) > 1:
        assert first_lost(segments, lambda *_: None) is None
