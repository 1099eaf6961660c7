"""Records in other partitions of the target are found there, by their digests alone."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.audit.comparison.across_partitions import Elsewhere
from kafka_ferry.audit.comparison.entries import chunks, locate_first
from kafka_ferry.audit.comparison.findings import Differing
from kafka_ferry.audit.comparison.unordered import Unordered, compare_unordered
from tests.unit.audit.comparison.logs import MemoryLog, Written, many
from tests.unit.audit.comparison.test_unmatched import compared


def partitions(count: int) -> dict[int, list[Written]]:
    return {n: many(count, since=1_000 * n) for n in range(3)}


def test_moved_and_doubled_records_are_told_with_both_partitions() -> None:
    sources = partitions(20)
    targets = {n: list(records) for n, records in sources.items()}
    targets[2].insert(5, targets[0].pop(7))
    targets[1].append(sources[0][3])
    targets[1].append(Written(b"x", b"strange", time=1))
    del targets[1][10]
    found = {n: compared(sources[n], targets[n])[1] for n in sources}

    this = Elsewhere.of(
        {n: one.missing for n, one in found.items()}, {n: one.foreign for n, one in found.items()}
    )
    everywhere = {
        n: locate_first(chunks(MemoryLog(records), 0), this.unknown)[1]
        for n, records in sources.items()
    }
    this.locate(everywhere)

    assert dict(this.moved) == {0: [Differing("altered", 7, 5, ("partition",), 2)]}
    assert dict(this.doubled) == {0: [Differing("doubled", 3, 19, (), 1)]}
    assert {n: entries.offsets.tolist() for n, entries in this.missing.items()} == {
        0: [],
        1: [10],
        2: [],
    }
    assert this.foreign[1].offsets.tolist() == [20]


@given(st.integers(0, 30), st.integers(), st.integers(1, 12))
def test_a_shuffled_topic_is_whole_and_each_record_counts_once(
    count: int, seed: int, at_once: int
) -> None:
    chance = random.Random(seed)
    sources = partitions(count)
    everything = [record for records in sources.values() for record in records]
    chance.shuffle(everything)
    targets: dict[int, list[Written]] = {n: [] for n in range(4)}
    for record in everything:
        targets[chance.randrange(4)].append(record)
    found = compare_unordered(logs(sources), logs(targets), 6 * count, at_once)
    kept = sum(len(set(sources[n]) & set(targets[n])) for n in sources)
    assert sum(one.matched for one in found.values()) == kept
    assert counts(found) == Counter(altered=3 * count - kept)


@pytest.mark.parametrize("at_once", [5, 1_000])
def test_faults_in_a_shuffled_topic_are_found_and_nothing_else(at_once: int) -> None:
    sources = partitions(30)
    targets = {n: list(reversed(records)) for n, records in sources.items()}
    targets[0].remove(sources[0][4])
    targets[1] += [sources[2][6], Written(None, b"strange")]
    targets[2].append(targets[2][0])
    found = compare_unordered(logs(sources), logs(targets), 180, at_once)
    assert counts(found) == {"missing": 1, "doubled": 2, "foreign": 1}
    listed = {(n, one) for n, some in found.items() for one in some.differing}
    assert listed == {
        (0, Differing("missing", 4, -1)),
        (2, Differing("doubled", 6, 30, (), 1)),
        (2, Differing("doubled", 29, 30, (), 2)),
        (1, Differing("foreign", -1, 31)),
    }
    assert {n: one.source_records for n, one in found.items()} == {0: 30, 1: 30, 2: 30}


def test_what_retention_has_deleted_is_not_told() -> None:
    records = many(40)
    source = {0: MemoryLog(records[10:], since=10, lost_head=True)}
    found = compare_unordered(source, {0: MemoryLog(records[::-1])}, 80)[0]
    assert (found.matched, found.expired, found.counts) == (30, 10, {})
    target = {0: MemoryLog([*records[12:20], *records[21:]][::-1], since=2, lost_head=True)}
    found = compare_unordered(source, target, 80)[0]
    assert (found.removed, found.counts) == (2, {"missing": 1})


@pytest.mark.parametrize("at_once", [7, 1_000])
def test_a_log_start_explains_no_more_records_than_its_offset_without_order_either(
    at_once: int,
) -> None:
    records = many(40)
    whole = {0: MemoryLog(records), 1: MemoryLog(many(5, since=900))}
    lacking = {0: MemoryLog(records[30:][::-1], since=4, lost_head=True), 1: whole[1]}
    found = compare_unordered(whole, lacking, 90, at_once)[0]
    assert (found.removed, found.counts) == (4, {"missing": 26})
    assert {one.source for one in found.differing} == set(range(4, 30))
    found = compare_unordered(lacking, whole, 90, at_once)[0]
    assert (found.expired, found.counts) == (4, {"foreign": 26})
    assert {one.target for one in found.differing} == set(range(4, 30))


def test_where_records_have_changed_partitions_the_log_starts_of_all_explain_them() -> None:
    records = many(40)
    target = {
        0: MemoryLog(records[12:26][::-1], since=2, lost_head=True),
        1: MemoryLog(records[26:][::-1], since=10, lost_head=True),
    }
    found = compare_unordered({0: MemoryLog(records)}, target, 80)
    assert (found[0].removed, counts(found)["missing"]) == (12, 0)


def counts(found: Unordered) -> Counter[str]:
    return sum((one.counts for one in found.values()), Counter())


def logs(partitions: dict[int, list[Written]]) -> dict[int, MemoryLog]:
    return {n: MemoryLog(records) for n, records in partitions.items()}


def test_nothing_is_searched_where_nothing_is_foreign() -> None:
    this = Elsewhere.of({}, {})
    assert this.unknown.dtype == np.uint64
    assert not len(this.unknown)
