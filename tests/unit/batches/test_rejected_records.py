from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import (
    AbortFilter,
    Absent,
    ConvertedBatch,
    MalformedBatch,
    Reason,
    Rebuilt,
    Rejected,
    TopicLimits,
    converted_batches,
    cut_at,
    dead_letter,
    gap,
    halves,
    in_parts,
    offsets_at,
    records_of,
    restore,
    set_aside,
    unfit,
)
from tests.support.examples import examples
from tests.support.records import batches as build
from tests.support.records.batches import NOW, Record, a_batch, a_marker, consumed
from tests.unit.batches.test_fetch_response import accounts_for_itself, arrived, judged

from .logs import Log, logs

DEAD = Reason.DEAD_LETTERED


def all_of(log: Log) -> list[ConvertedBatch]:
    records, aborted = next(log.responses(log.start, log.end, []))
    return list(converted_batches(records, AbortFilter(aborted), log.start, log.end, TopicLimits()))


def at_ten(records: list[Record]) -> ConvertedBatch:
    """A converted batch [8, 20) of records at 10, 11, 14 ..., a marker in between and a gap in front."""
    first = a_batch(records[:2], at=10, producer_id=1)
    log = first + a_marker(at=12, producer_id=1, commit=True) + a_batch(records[2:], at=14)
    [converted] = judged(log, 8, 14 + len(records) - 2, topic_limits=TopicLimits())
    return converted


def test_a_large_batch_comes_in_parts_that_hold_the_same() -> None:
    """Some kilobytes may decompress to half a gibibyte, which is not opened at once."""
    records = [Record(NOW + i, b"%d" % i, bytes(700_000)) for i in range(6)]
    records += [Record(NOW, b"", b"")] * 10_001
    [converted] = judged(a_batch(records, at=10, codec=4), 8, 10_018, topic_limits=TopicLimits())

    parts = list(in_parts(converted))

    assert len(parts) > 2
    assert all(len(records_of(part)) <= 10_000 for part in parts)
    assert [part.start for part in parts[1:]] == [part.end for part in parts[:-1]]
    assert (parts[0].start, parts[-1].end) == (converted.start, converted.end)
    assert [it for part in parts for it in records_of(part)] == records_of(converted)
    assert [part.rebuilt for part in parts] == [{Rebuilt.DIVIDED: 1}] + [{}] * (len(parts) - 1)
    assert [it for part in parts for it in part.absent] == [*converted.absent]


RECORDS = [Record(NOW + i, b"%d" % i, b"value", (("h", b"%d" % i),)) for i in range(5)]


@examples(150)
@given(data=st.data(), log=logs())
def test_the_other_records_stay_and_the_taken_ones_are_accounted_for(
    data: st.DataObject, log: Log
) -> None:
    for converted in all_of(log):
        before = arrived(converted)
        bad = data.draw(st.sets(st.integers(converted.start, converted.end - 1), max_size=3))
        rest, taken = set_aside(converted, bad)
        assert accounts_for_itself(rest)
        assert (rest.start, rest.end) == (converted.start, converted.end)
        assert arrived(rest) == [record for record in before if record.offset not in bad]
        letters = [consumed(dead_letter(record, ()).encode())[0] for record in taken]
        offsets = [record.offset for record in taken]
        assert [
            letter._replace(offset=at) for letter, at in zip(letters, offsets, strict=True)
        ] == [record for record in before if record.offset in bad]
        assert rest.reasons.get(DEAD, 0) == len(taken)


@examples(150)
@given(data=st.data(), log=logs())
def test_a_converted_batch_can_be_cut_anywhere(data: st.DataObject, log: Log) -> None:
    for converted in all_of(log):
        if converted.end - converted.start < 2:
            continue
        at = data.draw(st.integers(converted.start + 1, converted.end - 1))
        before, after = cut_at(converted, at)
        assert (before.start, before.end, after.start, after.end) == (
            *(converted.start, at, at, converted.end),
        )
        assert accounts_for_itself(before) and accounts_for_itself(after)
        assert arrived(before) + arrived(after) == arrived(converted)
        for first, end, reason in before.absent + after.absent:
            assert all(log.fate(offset) is reason for offset in range(first, end))


def test_a_converted_batch_that_loses_records_counts_as_rebuilt_for_it_or_as_it_did_before() -> (
    None
):
    [unopened] = judged(a_batch(3), 0, 3)
    assert set_aside(unopened, [1])[0].rebuilt == {Rebuilt.REJECTED: 1}
    assert set_aside(at_ten(RECORDS), [11])[0].rebuilt == {Rebuilt.JOINED: 2}
    assert set_aside(unopened, []) == (unopened, ())


def test_nothing_is_left_to_send_where_all_records_are_taken() -> None:
    rest, taken = set_aside(at_ten(RECORDS), range(8, 20))
    assert rest.batch is None
    assert rest.absent == (
        Absent(8, 10, Reason.COMPACTED),
        Absent(10, 12, DEAD),
        Absent(12, 13, Reason.CONTROL),
        Absent(13, 14, Reason.COMPACTED),
        Absent(14, 17, DEAD),
    )
    assert [record.offset for record in taken] == [10, 11, 14, 15, 16]


def test_halves_hold_half_of_the_records_each() -> None:
    one, other = halves(at_ten(RECORDS))
    assert (one.runs, other.runs) == (((10, 2),), ((14, 3),))
    assert (one.end, other.start) == (14, 14)
    assert other.rebuilt == {}


def test_halving_goes_on_until_each_record_is_alone() -> None:
    alone, ahead = [], [at_ten(RECORDS)]
    while ahead:
        converted = ahead.pop()
        if converted.batch and converted.batch.header.records > 1:
            ahead += halves(converted)
        else:
            alone.append(converted)
    assert sorted(converted.runs for converted in alone) == [
        ((at, 1),) for at in (10, 11, 14, 15, 16)
    ]


def test_a_cut_beside_the_records_leaves_the_batch_unopened() -> None:
    [converted] = judged(a_batch(3, at=5), 0, 8)
    before, after = cut_at(converted, 3)
    assert (before.batch, before.absent) == (None, gap(0, 3).absent)
    assert after.batch is converted.batch
    assert after.absent == gap(3, 5).absent
    assert after.rebuilt == {}


def test_a_brokers_indices_are_source_offsets() -> None:
    """KIP-467; an index that is not in the batch names no record."""
    assert offsets_at(at_ten(RECORDS), [3, 0, 2, 2, 9, -1]) == (10, 14, 15)


def test_records_without_a_key_do_not_fit_where_keys_are_required() -> None:
    records = [Record(NOW, None), Record(NOW, b""), Record(NOW, b"k"), Record(NOW, None, None)]
    converted = at_ten(records)
    assert unfit(converted, TopicLimits(keys_required=True), NOW) == {10, 15}
    assert unfit(converted, TopicLimits(), NOW) == frozenset()


def test_records_of_another_time_do_not_fit_where_time_is_bounded() -> None:
    records = [Record(NOW - 11), Record(NOW - 10), Record(-1), Record(NOW + 5), Record(NOW + 6)]
    topic_limits = TopicLimits(before_max_ms=10, after_max_ms=5)
    assert unfit(at_ten(records), topic_limits, NOW) == {10, 16}


def test_in_a_converted_batch_without_records_everything_fits() -> None:
    assert unfit(gap(0, 3), TopicLimits(keys_required=True), NOW) == frozenset()
    assert offsets_at(gap(0, 3), [0]) == ()


@given(records=st.lists(build.records, min_size=3, max_size=12), data=st.data())
def test_what_the_source_has_removed_since_can_be_put_back(
    records: list[Record], data: st.DataObject
) -> None:
    whole = at_ten(records)
    offsets = [record[0] for record in records_of(whole)]
    removed = data.draw(st.sets(st.sampled_from(offsets), min_size=1))
    rest, _ = set_aside(whole, removed)

    back = restore(rest, [record for record in records_of(whole) if record[0] in removed])

    assert records_of(back) == records_of(whole)
    assert (back.runs, back.absent) == (whole.runs, whole.absent)


@examples(100)
@given(
    record=build.records,
    added=st.lists(st.tuples(st.text(max_size=9), st.binary(max_size=200)), max_size=70),
)
def test_a_dead_letter_is_the_record_with_headers_after_its_own(
    record: Record, added: list[tuple[str, bytes]]
) -> None:
    [converted] = judged(a_batch([record], at=5, codec=3), 5, 6)
    _, [taken] = set_aside(converted, [5])
    assert (taken.offset, taken.timestamp) == (5, record.timestamp)
    letter = dead_letter(taken, added)
    assert letter.crc_matches
    [found] = consumed(letter.encode())
    assert found[1:] == record._replace(headers=(*record.headers, *added))


@pytest.mark.parametrize("content", [b"", b"\x01", b"\x01\x01", b"\x01\x01\x01", b"\x09a\x01\x00"])
def test_a_record_that_does_not_tell_where_its_headers_begin_is_no_letter(content: bytes) -> None:
    with pytest.raises(MalformedBatch):
        dead_letter(Rejected(0, NOW, content), [("name", b"value")])
