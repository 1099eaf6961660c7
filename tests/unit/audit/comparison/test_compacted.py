"""Compacted logs are compared by the latest record of each key, wherever their cleaners stand."""

from __future__ import annotations

import random
from itertools import count, islice

from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.audit.comparison.compacted import compare_keys
from kafka_ferry.audit.comparison.findings import Differing
from tests.unit.audit.comparison.logs import MemoryLog, Written, altered, hashed

Log = list[tuple[int, Written]]


def history(records: int, keys: int, seed: int) -> Log:
    chance = random.Random(seed)
    return [
        (
            offset,
            Written(
                b"%d" % chance.randrange(keys),
                b"%d" % offset if chance.random() < 0.8 else None,
                time=100 + offset,
            ),
        )
        for offset in range(records)
    ]


def cleaned(log: Log, seed: int, *, tombstones: bool = True) -> Log:
    """What a cleaner may leave of a log: any of the replaced records, and tombstones for a while."""
    chance = random.Random(seed)
    latest = {record.key: offset for offset, record in log}
    return [
        (offset, record)
        for offset, record in log
        if (
            latest[record.key] == offset
            and (record.value is not None or not tombstones or chance.random() < 0.5)
        )
        or (latest[record.key] != offset and chance.random() < 0.3)
    ]


def as_log(log: Log) -> MemoryLog:
    return MemoryLog([record for _, record in log], offsets=[offset for offset, _ in log])


@given(st.integers(0, 60), st.integers(1, 12), st.integers(), st.integers(1, 20))
def test_two_copies_at_any_state_of_cleaning_are_the_same(
    count: int, keys: int, seed: int, most: int
) -> None:
    log = history(count, keys, seed)
    ours, theirs = (cleaned(log, seed + n, tombstones=False) for n in (1, 2))
    found = compare_keys(as_log(ours), as_log(theirs), most_keys=most)
    assert found.differing == []
    assert found.matched == found.keys == len({record.key for _, record in log})
    assert (found.source_records, found.target_records) == (len(ours), len(theirs))
    assert found.superseded == len(ours) + len(theirs) - 2 * found.keys


def latest_values(log: Log) -> dict[bytes | None, int]:
    latest = {record.key: (offset, record) for offset, record in log}
    return {key: offset for key, (offset, record) in latest.items() if record.value is not None}


@given(
    st.integers(20, 60),
    st.integers(3, 12),
    st.integers(),
    st.sampled_from(["missing", "stale", "value", "headers", "timestamp", "foreign"]),
    st.integers(2, 20),
)
def test_each_fault_is_found_and_nothing_else(
    count: int, keys: int, seed: int, fault: str, most: int
) -> None:
    log = history(count, keys, seed)
    chosen = latest_values(log)
    if not chosen:
        return
    key, offset = sorted(chosen.items())[seed % len(chosen)]
    copy = list(log)
    place = next(n for n, (at, _) in enumerate(copy) if at == offset)
    match fault:
        case "missing":
            copy = [(at, record) for at, record in copy if record.key != key]
            expected = Differing("missing", offset, -1)
        case "stale":
            # An earlier record that the source has compacted away.
            copy[place] = (offset, Written(key, b"earlier", time=1))
            expected = Differing("missing", offset, -1)
        case "foreign":
            copy.append((count, Written(b"strange", b"x", time=1)))
            expected = Differing("foreign", -1, count)
        case aspect:
            copy[place] = (offset, altered(copy[place][1], [aspect]))
            expected = Differing("altered", offset, offset, (aspect,))
    ours = cleaned(log, seed + 1, tombstones=False)
    theirs = cleaned(copy, seed + 2, tombstones=False)
    assert compare_keys(as_log(ours), as_log(theirs), most_keys=most).differing == [expected]


def test_tombstones_may_be_gone_on_either_side() -> None:
    gone = Written(b"a", None, time=5)
    kept = Written(b"b", b"1", time=6)
    for ours, theirs in (([gone, kept], [kept]), ([kept], [gone, kept])):
        found = compare_keys(MemoryLog(ours), MemoryLog(theirs))
        assert found.differing == []
        assert found.matched == found.keys == 2


def test_a_tombstone_that_a_source_without_a_cleaner_does_not_have_is_foreign() -> None:
    gone, kept = Written(b"a", None, time=5), Written(b"b", b"1", time=6)
    found = compare_keys(MemoryLog([kept]), MemoryLog([kept, gone]), source_compacts=False)
    assert (found.differing, found.matched) == ([Differing("foreign", -1, 1)], 1)


def test_a_value_that_the_source_has_deleted_is_missing_its_tombstone() -> None:
    value, tombstone = Written(b"a", b"1", time=5), Written(b"a", None, time=6)
    found = compare_keys(MemoryLog([value, tombstone]), MemoryLog([value]))
    assert found.differing == [Differing("missing", 1, -1)]
    later = compare_keys(MemoryLog([value, tombstone]), MemoryLog([value]), recent=(6, 7))
    assert (later.differing, later.pending) == ([], 1)


def test_a_key_whose_record_is_stamped_far_ahead_is_missing_and_not_recent() -> None:
    source = MemoryLog([Written(b"a", b"1", time=5), Written(b"b", b"1", time=6)])
    found = compare_keys(source, MemoryLog([]), recent=(5, 6))
    assert (found.differing, found.pending) == ([Differing("missing", 1, -1)], 1)


def test_no_producer_chooses_keys_that_all_fall_to_one_pass() -> None:
    chosen = (key for n in count() if hashed(key := b"%d" % n) % 512 == 0)
    log = MemoryLog([Written(key, b"x") for key in islice(chosen, 60)])
    found = compare_keys(log, log, most_keys=20)
    assert found.keys == 60
    assert found.passes <= 64


def test_many_keys_take_more_passes() -> None:
    log = [Written(b"%d" % n, b"x", time=n) for n in range(100)]
    source, target = MemoryLog(log), MemoryLog(log[:50] + log[51:])
    found = compare_keys(source, target, most_keys=20)
    assert found.passes >= 8
    assert found.differing == [Differing("missing", 50, -1)]
    assert (found.keys, found.matched) == (100, 99)


def test_keys_that_retention_has_deleted_are_neither_missing_nor_foreign() -> None:
    log = [Written(b"%d" % n, b"x", time=n) for n in range(20)]
    found = compare_keys(
        MemoryLog(log[5:], since=5, lost_head=True), MemoryLog([*log[:7], *log[8:]])
    )
    assert (found.expired, found.differing) == (5, [Differing("missing", 7, -1)])
    found = compare_keys(MemoryLog(log), MemoryLog(log[5:], since=5, lost_head=True))
    assert (found.removed, found.differing) == (5, [])


def test_a_log_start_explains_no_key_after_one_that_both_have_whatever_its_time() -> None:
    log = [Written(b"%d" % n, b"x", time=1 if n == 6 else n + 10) for n in range(10)]
    start = {"since": 1, "lost_head": True}
    lacking, whole = MemoryLog(log[1:6] + log[7:], **start), MemoryLog(log[1:], **start)
    for most_keys in (4, 1_000):
        found = compare_keys(whole, lacking, most_keys=most_keys)
        assert (found.removed, found.differing) == (0, [Differing("missing", 6, -1)])
        found = compare_keys(lacking, whole, most_keys=most_keys)
        assert (found.expired, found.differing) == (0, [Differing("foreign", -1, 6)])


def test_records_that_later_ones_have_replaced_tell_the_place_of_a_logs_start_too() -> None:
    log = [Written(b"%d" % n, b"x", time=n) for n in range(10)]
    log += [Written(b"%d" % n, b"y", time=10 + n) for n in range(7)]
    start = {"since": 1, "lost_head": True}
    lacking, whole = MemoryLog(log[1:7] + log[8:], **start), MemoryLog(log[1:], **start)
    found = compare_keys(whole, lacking)
    assert (found.removed, found.differing) == (0, [Differing("missing", 7, -1)])
    found = compare_keys(lacking, whole)
    assert (found.expired, found.differing) == (0, [Differing("foreign", -1, 7)])


def test_a_log_start_explains_no_more_keys_than_its_offset() -> None:
    log = [Written(b"%d" % n, b"x", time=n) for n in range(100)]
    lacking = MemoryLog([log[99]], since=1, lost_head=True)
    for most_keys in (10, 1_000):
        found = compare_keys(MemoryLog(log), lacking, most_keys=most_keys)
        assert (found.matched, found.removed) == (1, 1)
        assert found.differing == [Differing("missing", n, -1) for n in range(1, 99)]
        found = compare_keys(lacking, MemoryLog(log), most_keys=most_keys)
        assert (found.matched, found.expired) == (1, 1)
        assert found.differing == [Differing("foreign", -1, n) for n in range(1, 99)]
    found = compare_keys(MemoryLog(log), MemoryLog([], since=3, lost_head=True))
    assert (found.removed, len(found.differing)) == (3, 97)
