"""What another mirror has copied is found in the records, whatever became of it on the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import Segment
from kafka_ferry.groups.alignment.align import Alignment, LogRecords, Misaligned, align, begins_late
from kafka_ferry.groups.alignment.record_digests import NO_KEY


def log(
    records: Sequence[int],
    *,
    offsets: Sequence[int] | None = None,
    start: int | None = None,
    aborted: Sequence[int] = (),
    keys: Sequence[int] = (),
    tombstones: Sequence[int] = (),
) -> LogRecords:
    """A log; a record is a number. ``aborted`` and ``tombstones`` are records."""
    where = list(range(len(records))) if offsets is None else list(offsets)
    first = (where[0] if where else 0) if start is None else start
    return LogRecords(
        first,
        where[-1] + 1 if where else first,
        np.array(where, np.int64),
        np.array(records, np.uint64),
        np.isin(np.array(records, np.int64), np.array(aborted, np.int64)),
        np.full(len(records), 3, np.int64),
        np.array(keys, np.uint64),
        np.isin(np.array(records, np.int64), np.array(tombstones, np.int64)),
    )


def aligned(
    source: LogRecords,
    target: LogRecords,
    position: int | None = None,
    *,
    compacted: bool = False,
    is_cleaned: bool = False,
    joined: int | None = None,
) -> Alignment:
    found = align(
        source, target, position, compacted=compacted, is_cleaned=is_cleaned, joined=joined
    )
    assert found is not None
    return found


def test_a_copy_that_ends_early_is_gone_on_with_where_it_ends() -> None:
    found = aligned(log(range(100, 110)), log(range(100, 106)), 4)
    assert (found.start, found.end, found.records, found.doubled) == (0, 6, 6, 0)
    assert found.segments == (Segment(0, 0, 6),)
    assert found.leader_epoch == 3


def test_offsets_without_a_record_are_no_gap() -> None:
    source = log([10, 11, 12, 13], offsets=[5, 6, 9, 10])
    found = aligned(source, log([10, 11, 12]), 10)
    assert (found.start, found.end) == (5, 10)
    assert found.segments == (Segment(5, 0, 2), Segment(9, 2, 1))


def test_records_that_the_mirror_has_written_twice_count_where_they_came_last() -> None:
    found = aligned(log(range(8)), log([0, 1, 2, 3, 4, 2, 3, 4, 5]), 2)
    assert (found.end, found.records, found.doubled) == (6, 6, 3)
    assert found.segments == (Segment(0, 0, 2), Segment(2, 5, 4))


def test_a_mirror_that_died_before_it_caught_up_has_copied_what_it_had_before() -> None:
    found = aligned(log(range(8)), log([0, 1, 2, 3, 4, 1, 2]), 1)
    assert (found.end, found.records, found.doubled) == (5, 5, 2)
    assert found.segments == (Segment(0, 0, 5),)


def test_what_the_source_has_lost_meanwhile_is_not_compared() -> None:
    source = log([3, 4, 5, 6], offsets=[3, 4, 5, 6])
    found = aligned(source, log([1, 2, 3, 4, 5]), 6)
    assert (found.start, found.end, found.unknown) == (3, 6, 2)
    assert found.segments == (Segment(3, 2, 3),)


def test_the_source_has_lost_no_more_records_than_its_start_says() -> None:
    source = log([3, 4, 5, 6], offsets=[3, 4, 5, 6])
    # A mirror that crashed may have written some of them twice.
    assert aligned(source, log([0, 1, 2, 1, 2, 3, 4]), 5).unknown == 5
    with pytest.raises(Misaligned, match="its record 0 is not one of the source's"):
        align(source, log([0, 1, 2, 77, 3, 4]), 5)
    assert aligned(source, log([0, 1, 2, 77, 3, 4]), 5, compacted=True).unknown == 4


def test_what_the_target_has_lost_is_not_missed() -> None:
    found = aligned(log(range(6)), log([2, 3], offsets=[12, 13]), 4)
    assert (found.start, found.end, found.segments) == (2, 4, (Segment(2, 12, 2),))


@pytest.mark.parametrize(
    ("target", "position"),
    [
        ([0, 1, 77, 2], None),  # another client's
        ([77, 0, 1], None),
        ([0, 1, 3], None),  # a gap
        ([0, 1], 4),  # less than the mirror says
        ([1, 0], None),  # another order
        ([77, 78], None),  # all of it another client's
    ],
)
def test_what_does_not_follow_is_refused(target: list[int], position: int | None) -> None:
    with pytest.raises(Misaligned):
        align(log(range(6)), log(target), position)


def test_a_position_that_the_source_never_reached_is_refused() -> None:
    with pytest.raises(Misaligned, match="the source ends at 6"):
        align(log(range(6)), log([]), 7)


def test_of_an_empty_target_nothing_is_said_without_a_position() -> None:
    assert align(log(range(6)), log([]), None) is None


@pytest.mark.parametrize(
    ("target", "aborted"), [([0, 1, 2, 3], 0), ([0, 3], 2)], ids=["uncommitted", "committed"]
)
def test_aborted_records_may_have_been_copied_or_not(target: list[int], aborted: int) -> None:
    found = aligned(log(range(5), aborted=[1, 2]), log(target), 4)
    assert (found.end, found.aborted, found.skipped) == (4, aborted, aborted)


def test_records_that_are_all_alike_are_counted() -> None:
    found = aligned(log([7] * 9), log([7] * 5), 3)
    assert found.segments == (Segment(0, 0, 5),)


@pytest.mark.parametrize(
    ("source", "deleted", "position", "is_trusted"),
    [
        # All that is missing must have been there.
        (log(range(6)), 6, 6, True),
        (log(range(6)), 9, 4, True),
        (log(range(6)), 5, 6, False),
        (log(range(6)), 0, 1, False),
        # The source has lost others, or had aborted them.
        (log([7, 9], offsets=[40, 90]), 2, 91, True),
        (log([7, 9], offsets=[40, 90]), 1, 91, False),
        (log([7, 9], offsets=[40, 90], aborted=[9]), 1, 91, True),
        # Nothing is left of what the mirror says that it has copied.
        (log([7], offsets=[40]), 0, 40, True),
        (log([], start=40), 0, 40, True),
    ],
)
@pytest.mark.parametrize("visible_end", [0, 50], ids=["empty", "of markers"])
def test_a_position_is_trusted_only_as_far_as_records_may_have_been_deleted(
    source: LogRecords, deleted: int, position: int, is_trusted: bool, visible_end: int
) -> None:
    nothing = replace(log([], start=deleted), end=deleted + visible_end)
    if is_trusted:
        found = aligned(source, nothing, position)
        assert (found.start, found.end, found.is_compared) == (position, position, False)
    else:
        with pytest.raises(Misaligned, match=f"not there, and at most {deleted} were deleted"):
            align(source, nothing, position)


def test_what_compaction_keeps_must_be_there() -> None:
    source = log([1, 2, 3, 4], keys=[7, 7, 8, 9], tombstones=[3])
    nothing = replace(log([]), end=4)
    with pytest.raises(Misaligned, match="2 of the source's records before it"):
        align(source, nothing, 4, compacted=True)
    assert aligned(source, replace(log([], start=2), end=4), 4, compacted=True).end == 4


def test_where_several_answers_would_fit_the_position_decides_or_none_is_given() -> None:
    source, target = log([7] * 9), log([7] * 3, offsets=[20, 21, 22])
    assert aligned(source, target, 6).segments == (Segment(3, 20, 3),)
    with pytest.raises(Misaligned, match="cannot be decided"):
        align(source, target, None)


def test_a_compacted_log_may_lack_what_a_later_record_stands_for() -> None:
    source = log(range(8), keys=[1, 2, 1, 3, 1, 2, 4, 5], tombstones=[3])
    target = log([1, 4, 5], offsets=[1, 4, 5], keys=[2, 1, 2])
    found = aligned(source, target, 6, compacted=True)
    assert (found.start, found.end, found.records, found.skipped) == (1, 6, 3, 2)


def test_the_newest_record_of_a_key_must_be_there_even_in_a_compacted_log() -> None:
    source = log(range(6), keys=[1, 2, 1, 3, 1, 2])
    target = log([0, 1, 2, 4, 5], keys=[1, 2, 1, 1, 2])
    with pytest.raises(Misaligned, match="the first at offset 3"):
        align(source, target, 6, compacted=True)


@pytest.mark.parametrize(
    ("target", "is_cleaned", "unkeyed"),
    [
        # The cleaner has left their offsets.
        (log([0, 1, 4], offsets=[0, 1, 4], keys=[1, NO_KEY, 2]), True, 2),
        (log([0, 4], offsets=[0, 4], keys=[1, 2]), True, 3),
        # Markers took some of these.
        (
            replace(
                log([0, 1, 4], offsets=[0, 1, 4], keys=[1, NO_KEY, 2]), markers=np.array([2, 3])
            ),
            True,
            None,
        ),
        # No offset is free that they could have had.
        (log([0, 1, 4], keys=[1, NO_KEY, 2]), True, None),
        (log([0, 3, 4], keys=[1, NO_KEY, 2]), True, None),
        (log([0, 2, 4], offsets=[0, 1, 3], keys=[1, NO_KEY, 2]), True, None),
        # Only the source's cleaner may have been at work.
        (log([0, 1, 4], offsets=[0, 1, 4], keys=[1, NO_KEY, 2]), False, None),
        (log([0, 1, 2, 3, 4], keys=[1, *[NO_KEY] * 3, 2]), False, 0),
    ],
)
def test_records_without_a_key_are_missing_only_where_a_cleaner_may_have_removed_as_many(
    target: LogRecords, is_cleaned: bool, unkeyed: int | None
) -> None:
    source = log(range(5), keys=[1, *[NO_KEY] * 3, 2])
    if unkeyed is None:
        with pytest.raises(Misaligned, match="of the source's records are not there"):
            align(source, target, 5, compacted=True, is_cleaned=is_cleaned)
    else:
        found = aligned(source, target, 5, compacted=True, is_cleaned=is_cleaned)
        assert (found.end, found.unkeyed) == (5, unkeyed)


@pytest.mark.parametrize(
    ("end", "is_cleaned", "is_trusted"), [(2, True, True), (1, True, False), (2, False, False)]
)
def test_where_nothing_is_left_records_without_a_key_count_as_removed_only_by_the_targets_cleaner(
    end: int, is_cleaned: bool, is_trusted: bool
) -> None:
    source, nothing = log([1, 2], keys=[NO_KEY] * 2), replace(log([]), end=end)
    if is_trusted:
        found = aligned(source, nothing, 2, compacted=True, is_cleaned=is_cleaned)
        assert not found.is_compared
    else:
        with pytest.raises(Misaligned, match="2 of the source's records before it"):
            align(source, nothing, 2, compacted=True, is_cleaned=is_cleaned)


@pytest.mark.parametrize(
    ("there", "keys", "is_lost"),
    [
        ([4, 0, 3], [6, 7, 9], True),
        ([4, 5, 3], [6, 7, 9], True),
        ([4, 3], [6, 9], False),
        ([4, 0, 1, 3], [6, 7, 7, 9], False),
    ],
    ids=["its value is there", "an older one is there", "both are gone", "both are there"],
)
def test_a_tombstone_may_be_gone_only_with_all_that_it_deletes(
    there: list[int], keys: list[int], is_lost: bool
) -> None:
    source = log([4, 0, 1, 2, 3], keys=[6, 7, 7, 8, 9], tombstones=[1, 2])
    target = log(there, keys=keys)
    if is_lost:
        with pytest.raises(Misaligned, match=r"1 of the source's records .* the first at offset 2"):
            align(source, target, 5, compacted=True)
    else:
        assert aligned(source, target, 5, compacted=True).end == 5


@pytest.mark.parametrize(
    ("source", "target", "end"),
    [
        # Killed while it wrote the first ones again: 2 would be the newest of its key for ever.
        (log([1, 2, 3], keys=[7, 7, 7]), log([1, 2, 3, 1, 2], keys=[7] * 5), 2),
        (log([1, 2, 3, 4], keys=[7, 8, 7, 8]), log([1, 2, 3, 4, 1], keys=[7, 8, 7, 8, 7]), 2),
        # The target's cleaner has been there.
        (log([1, 2, 3, 4], keys=[7, 8, 7, 9]), log([2, 4, 1], start=1, keys=[8, 9, 7]), 2),
        # Nothing newer of their keys was there.
        (log([1, 2, 3], keys=[7, 8, 9]), log([1, 2, 3, 1, 2], keys=[7, 8, 9, 7, 8]), 3),
        (log([1, 2, 3], keys=[7, 7, 7]), log([1, 2, 3, 1, 2, 3], keys=[7] * 6), 3),
        # What was aborted is the newest of its key there: the source's cleaner keeps the one before it.
        (log([1, 2, 3], keys=[7, 8, 7], aborted=[3]), log([1, 2, 3], keys=[7, 8, 7]), 0),
        (
            log([9, 1, 2, 3], keys=[6, 7, 8, 7], aborted=[3]),
            log([9, 1, 2, 3], keys=[6, 7, 8, 7]),
            1,
        ),
        (log([1, 2, 3], keys=[7, 7, 7], aborted=[2]), log([1, 2, 3], keys=[7, 7, 7]), 3),
        (log([1, 2], keys=[7, 8], aborted=[2]), log([1, 2], keys=[7, 8]), 2),
        # The target's cleaner has removed what another producer's record has replaced.
        (log([1, 2], keys=[7, 8]), log([99, 2], keys=[7, 8]), 0),
        # Records without a key replace none.
        (log([1, 2, 3], keys=[NO_KEY] * 3), log([1, 2, 3, 1], keys=[NO_KEY] * 4), 3),
    ],
)
def test_of_a_compacted_topic_what_an_older_record_has_replaced_is_copied_again(
    source: LogRecords, target: LogRecords, end: int
) -> None:
    assert aligned(source, target, 0, compacted=True).end == end


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("start", [0, 1, 2])
def test_a_position_at_the_sources_start_explains_no_more_than_the_source_has_lost(
    start: int, compacted: bool
) -> None:
    source = log([1], keys=[7], offsets=[start])
    # As a mirror commits it that has found nothing; the last one was written twice.
    strange = log([97, 98, 98], keys=[8, 9, 9])
    if start < 2:
        with pytest.raises(Misaligned, match="none of its records is one of the source's"):
            align(source, strange, start, compacted=compacted)
    else:
        assert aligned(source, strange, start, compacted=compacted).unknown == 3


@pytest.mark.parametrize(
    ("there", "keys", "start", "end"),
    [
        ([1, 2, 99], [7, 8, 7], 0, 1),
        ([1, 2, 98], [7, 8, 7], 0, 1),
        ([1, 2, 99], [7, 8, 6], 0, None),
        ([1, 99, 2], [7, 8, 8], 0, 3),
        ([1, 2, 99], [7, 8, 9], 0, 3),
        ([1, 2, 98], [7, 8, 6], 0, 3),
        ([99, 1, 2], [6, 7, 8], 0, None),
        ([99, 1, 2], [6, 7, 8], 1, 3),
        ([1, 2, 99], [7, 8, NO_KEY], 0, 3),
    ],
    ids=[
        *("newer than the source's", "a tombstone of a value", "of no key of the source"),
        *("replaced there", "to be replaced", "a tombstone"),
        *("first", "first, as the source has lost some", "without a key"),
    ],
)
def test_what_the_source_does_not_have_is_the_newest_of_no_key(
    there: list[int], keys: list[int], start: int, end: int | None
) -> None:
    source = log([1, 2, 3], keys=[7, 8, 9], offsets=[1, 2, 3], start=start)
    target = log(there, keys=keys, tombstones=[98])
    if end is None:
        with pytest.raises(Misaligned, match="is the newest of its key there"):
            align(source, target, 3, compacted=True)
    else:
        found = aligned(source, target, 3, compacted=True)
        assert (found.unknown, found.end) == (1, end)


def test_what_joins_the_flows_own_records_begins_where_they_end() -> None:
    source = log(range(10))
    found = aligned(source, log([4, 5, 6], offsets=[40, 41, 42]), 7, joined=4)
    assert (found.start, found.end, found.segments) == (4, 7, (Segment(4, 40, 3),))
    back = aligned(source, log([2, 3, 4, 5], offsets=[40, 41, 42, 43]), 6, joined=4)
    assert (back.start, back.segments, back.doubled) == (4, (Segment(4, 42, 2),), 2)
    with pytest.raises(Misaligned):
        align(source, log([5, 6]), None, joined=4)


@st.composite
def mirrored(draw: st.DrawFn) -> tuple[list[int], list[int], int, int]:
    """Source offsets, what a mirror that crashes wrote of them, how far it came, and its position."""
    offsets = sorted(draw(st.sets(st.integers(0, 60), min_size=1, max_size=40)))
    written: list[int] = []
    top = 0
    begin = 0
    for _ in range(draw(st.integers(1, 5))):
        end = draw(st.integers(begin, len(offsets)))
        written += offsets[begin:end]
        top = max(top, end)
        begin = draw(st.integers(0, end))
    return offsets, written, top, begin


@given(mirrored())
def test_however_often_it_crashed_nothing_is_missed_or_copied_again(
    case: tuple[list[int], list[int], int, int],
) -> None:
    offsets, written, top, begin = case
    # A record's content is its source offset, so that each is another.
    source = log(offsets, offsets=offsets)
    position = offsets[begin - 1] + 1 if begin else None
    found = align(source, log(written), position)
    if found is None or not written:
        assert not written
        return
    assert found.end == offsets[top - 1] + 1
    assert found.records == top
    assert found.doubled == len(written) - top
    mapped = {s + i: t + i for s, t, count in found.segments for i in range(count)}
    assert sorted(mapped) == offsets[:top]
    for source_offset, target_offset in mapped.items():
        assert written[target_offset] == source_offset
        unread = {offset for offset in offsets[:top] if offset >= source_offset}
        assert unread <= set(written[target_offset:])


@given(mirrored(), st.lists(st.integers(0, 4), min_size=61, max_size=61))
def test_however_often_it_crashed_the_newest_record_of_each_key_comes_last(
    case: tuple[list[int], list[int], int, int], key_of: list[int]
) -> None:
    offsets, written, _, begin = case
    source = log(offsets, offsets=offsets, keys=[key_of[it] for it in offsets])
    target = log(written, keys=[key_of[it] for it in written])
    position = offsets[begin - 1] + 1 if begin else None
    found = align(source, target, position, compacted=True)
    end = found.end if found else 0
    whole = [*written, *(it for it in offsets if it >= end)]
    assert {key_of[it]: it for it in whole} == {key_of[it]: it for it in offsets}


class Entry(NamedTuple):
    """A record of a compacted topic: its offset, what it is, its key, and whether it deletes it."""

    offset: int
    number: int
    key: int
    deletes: bool


def cleaned(entries: list[Entry], count: int, *, with_tombstones: bool) -> list[Entry]:
    """What the cleaner leaves of a log whose first ``count`` records it has looked at."""
    newest = {it.key: it.offset for it in entries[:count]}
    return [
        it
        for number, it in enumerate(entries)
        if number >= count or (newest[it.key] == it.offset and not (with_tombstones and it.deletes))
    ]


def as_log(entries: list[Entry]) -> LogRecords:
    return log(
        [it.number for it in entries],
        offsets=[it.offset for it in entries],
        start=0,
        keys=[it.key for it in entries],
        tombstones=[it.number for it in entries if it.deletes],
    )


def values(entries: Iterable[Entry]) -> dict[int, int]:
    """The newest value of each key that is not deleted."""
    newest = {it.key: it for it in entries}
    return {key: it.number for key, it in newest.items() if not it.deletes}


@given(mirrored(), st.randoms(use_true_random=False))
def test_wherever_cleaners_stand_the_newest_record_of_each_key_is_the_sources(
    case: tuple[list[int], list[int], int, int], chance: Random
) -> None:
    offsets, copied, _, begin = case
    of = {it: Entry(it, 100 + it, chance.randrange(5), chance.random() < 0.2) for it in offsets}
    written = [of[it] for it in copied]
    if chance.random() < 0.2:
        strange = Entry(0, 999, chance.randrange(6), chance.random() < 0.3)
        written.insert(chance.randrange(len(written) + 1), strange)
    there = [it._replace(offset=at) for at, it in enumerate(written)]
    whole = list(of.values())
    source, target = (
        cleaned(it, chance.randrange(len(it) + 1), with_tombstones=chance.random() < 0.3)
        for it in (whole, there)
    )
    position = offsets[begin - 1] + 1 if begin else None

    try:
        found = align(as_log(source), as_log(target), position, compacted=True)
    except Misaligned:
        return  # It is not taken over.

    end = found.end if found else 0
    assert values([*target, *(it for it in source if it.offset >= end)]) == values(whole)


def test_a_copy_that_lacks_more_of_the_beginning_than_retention_can_have_taken_is_told() -> None:
    for aborted, start, is_late in (
        ([], 0, True),
        ([], 2, True),
        ([], 3, False),
        ([0, 1, 2], 0, False),
        ([0], 2, False),
    ):
        source = log(list(range(6)), aborted=aborted)
        target = log([3, 4], offsets=[start, start + 1], start=start)
        found = align(source, target, 5)
        assert found
        assert begins_late(found, source, target) == is_late


def test_a_compacted_copy_that_lacks_keys_of_the_beginning_is_taken_over_only_where_retention_may_have_them() -> (
    None
):
    source = log([0, 1, 2], keys=[1, 0, 2])
    for start in (0, 1):
        target = log([1, 2], offsets=[1, 2], start=start, keys=[0, 2])
        if start:
            found = align(source, target, 3, compacted=True)
            assert found and found.start == 1
        else:
            with pytest.raises(Misaligned, match="1 of the source's records are not there"):
                align(source, target, 3, compacted=True)
