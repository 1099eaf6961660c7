"""A topic whose records lie in other partitions is compared as a whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kafka_ferry.groups.alignment.align import LogRecords, Misaligned
from kafka_ferry.groups.alignment.spread import align_spread


def log(records: Sequence[int], start: int = 0) -> LogRecords:
    """A log; a record is a number, its offset counts from ``start``."""
    count = len(records)
    return LogRecords(
        start,
        start + count,
        np.arange(start, start + count, dtype=np.int64),
        np.array(records, np.uint64),
        np.zeros(count, np.bool_),
        np.full(count, 2, np.int64),
    )


def test_copying_goes_on_after_the_records_that_are_there_in_a_row() -> None:
    sources = {0: log([1, 2, 3, 4]), 1: log([11, 12, 13])}
    targets = [log([1, 11, 2]), log([3, 12])]

    found = align_spread(sources, targets, {0: 2, 1: 2})

    assert {number: (a.start, a.end, a.leader_epoch) for number, a in found.items()} == {
        0: (3, 3, 2),
        1: (2, 2, 2),
    }
    assert all(not a.segments for a in found.values())


def test_what_was_copied_out_of_order_is_counted() -> None:
    found = align_spread({0: log([1, 2, 3, 4, 5])}, [log([1, 2, 4, 5])], {0: 1})
    assert (found[0].end, found[0].doubled) == (2, 2)


def test_a_compacted_topic_is_copied_again_from_the_position_on() -> None:
    # The first one was written again in a replay, and may be the newest of its key.
    found = align_spread({0: log([1, 2, 3])}, [log([1, 2, 3, 2])], {0: 1}, compacted=True)
    assert (found[0].end, found[0].doubled) == (1, 2)
    assert align_spread({0: log([1, 2])}, [log([1, 2])], {0: None}, compacted=True) == {}


def test_a_partition_of_which_nothing_was_copied_begins_at_its_start() -> None:
    assert align_spread({0: log([1, 2])}, [log([])], {0: None}) == {}


def test_records_that_the_position_speaks_of_must_be_there() -> None:
    with pytest.raises(Misaligned, match="partition 0 is 3, but 1 of the source's"):
        align_spread({0: log([1, 2, 3])}, [log([1, 3])], {0: 3})


def test_what_the_target_has_lost_is_not_missed() -> None:
    found = align_spread({0: log([1, 2, 3])}, [log([3], start=2)], {0: 3})
    assert (found[0].end, found[0].is_compared) == (3, True)
    found = align_spread({0: log([1, 2, 3])}, [log([], start=3)], {0: 3})
    assert (found[0].end, found[0].is_compared) == (3, False)


def test_more_than_the_target_ever_had_cannot_be_lost_there() -> None:
    with pytest.raises(Misaligned, match="2 of the source's records are not there"):
        align_spread({0: log([1, 2, 3])}, [log([3], start=1)], {0: 3})


def test_records_of_another_client_are_refused_unless_the_source_may_have_lost_them() -> None:
    with pytest.raises(
        Misaligned,
        match=r"1 of its .* the source's, such as the one at offset 1 of its partition 0",
    ):
        align_spread({0: log([1, 2])}, [log([1, 77])], {0: 1})
    assert align_spread({0: log([5, 6], start=4)}, [log([1, 5])], {0: 5})[0].end == 5
    lost = [log([1, 2, 5]), log([1, 2])]
    assert align_spread({0: log([5, 6], start=2)}, lost, {0: 3})[0].end == 3
    with pytest.raises(Misaligned, match="2 of its records are not the source's"):
        align_spread({0: log([5, 6], start=1)}, lost, {0: 2})


def test_records_that_are_alike_are_counted_one_by_one() -> None:
    assert align_spread({0: log([7, 7, 7, 7])}, [log([7, 7]), log([7])], {0: 2})[0].end == 3
    with pytest.raises(Misaligned, match="the first at offset 2"):
        align_spread({0: log([7, 7, 7])}, [log([7, 7])], {0: 3})
