"""What an independent read finds of records that keep their offsets, offset by offset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import Batch, MalformedBatch, RangeDigest, Segment, split_batches
from kafka_ferry.verify.claim import RangeClaim
from kafka_ferry.verify.recount_by_offset import count_by_offset
from kafka_ferry.verify.recount_result import PartitionRecount
from tests.support.records.batches import Record, a_batch, a_marker, an_empty_batch

OURS, THEIRS = 7, 8


def a_claim(start: int, end: int, *spans: tuple[int, int], **more: object) -> RangeClaim:
    """A range with records at the offsets ``spans``, ``[first, end)`` each."""
    segments = tuple(Segment(first, first, stop - first) for first, stop in spans)
    return RangeClaim(segments, start, end, **({"preserved": True, "producer_id": OURS} | more))


def batches(*encoded: bytes) -> list[Batch]:
    return list(split_batches(b"".join(encoded)))


def ours(at: int, records: int = 1, **more: object) -> bytes:
    return a_batch(records, at=at, **({"producer_id": OURS} | more))


def found(
    claims: RangeClaim | Sequence[RangeClaim], *log: bytes, log_start: int = 0
) -> PartitionRecount:
    claims = [claims] if isinstance(claims, RangeClaim) else claims
    return count_by_offset(claims, log_start, batches(*log))


def digest_of(*encoded: bytes) -> str:
    digest = RangeDigest()
    for batch in batches(*encoded):
        digest.add(batch)
    return digest.hexdigest()


# Offsets 100 to 107 and 110 to 119 hold records, 108 and 109 are gaps.
RANGE = a_claim(100, 120, (100, 108), (110, 120))
FIRST, MARKERS, SECOND = (
    ours(100, 8),
    [a_marker(at=108, producer_id=3, commit=True), a_marker(at=109, producer_id=OURS, commit=True)],
    ours(110, 10),
)


class TestARange:
    def test_as_the_ledger_has_it_holds_all_its_records_and_nothing_else(self) -> None:
        recount = found(RANGE, FIRST, *MARKERS, SECOND)
        (it,) = recount.ranges
        assert (it.records, it.foreign, it.expired, it.rewritten, it.across) == (18, 0, 0, 0, 0)
        assert it.digest == digest_of(FIRST, SECOND)
        assert recount[1:] == (0, 0, 0, "", 3, ())

    def test_of_several_are_counted_each_with_its_own_batches(self) -> None:
        claims = [a_claim(110, 120, (110, 120)), a_claim(100, 110, (100, 108))]
        second, first = found(claims, FIRST, *MARKERS, SECOND).ranges
        assert (first.records, second.records) == (8, 10)
        assert (first.digest, second.digest) == (digest_of(FIRST), digest_of(SECOND))

    @pytest.mark.parametrize(
        ("log", "records", "foreign"),
        [
            ([FIRST, *MARKERS, ours(110, 6)], 14, 0),
            ([FIRST, *MARKERS], 8, 0),
            ([], 0, 0),
            ([FIRST, ours(108), MARKERS[1], SECOND], 18, 1),
            ([FIRST, ours(108), ours(109), SECOND], 18, 2),
            ([FIRST, ours(109), SECOND], 18, 1),
            ([FIRST, a_batch(1, at=108, producer_id=THEIRS), MARKERS[1], SECOND], 18, 1),
            ([FIRST, a_batch(1, at=108), MARKERS[1], SECOND], 18, 1),
            ([a_batch(8, at=100, producer_id=THEIRS), *MARKERS, SECOND], 10, 8),
            ([ours(100, 8, transactional=True), *MARKERS, SECOND], 10, 8),
            ([ours(101, 8), MARKERS[1], SECOND], 17, 1),
        ],
        ids=[
            "its end is missing",
            "a batch is missing",
            "everything is missing",
            "a record in a gap",
            "no gap at all",
            "a record in a gap after nothing",
            "another client's in a gap",
            "of a producer without an id in a gap",
            "another client's in the place of ours",
            "of a transaction in the place of ours",
            "shifted by one",
        ],
    )
    def test_shows_what_is_missing_and_what_is_foreign(self, log, records, foreign) -> None:
        (it,) = found(RANGE, *log).ranges
        assert (it.records, it.foreign) == (records, foreign)

    def test_has_no_record_that_a_cleaner_took_where_a_control_record_lies(self) -> None:
        """The writer has filled its place, since the target had refused it."""
        marker = a_marker(at=104, producer_id=OURS, commit=True)
        (it,) = found(RANGE, ours(100, 4), marker, ours(105, 2), *MARKERS, SECOND).ranges
        assert (it.records, it.uncleaned) == (16, 1)

    def test_of_other_bytes_at_the_same_offsets_has_another_digest(self) -> None:
        other = ours(110, [Record(key=b"k", value=b"other %d" % n) for n in range(10)])
        (it,) = found(RANGE, FIRST, *MARKERS, other).ranges
        assert (it.records, it.foreign) == (18, 0)
        assert it.digest != digest_of(FIRST, SECOND)

    def test_without_any_record_is_looked_at_too(self) -> None:
        recount = found(a_claim(100, 120), ours(105, 3))
        assert [(it.records, it.foreign) for it in recount.ranges] == [(0, 3)]

    def test_may_name_no_producer_where_it_has_no_record(self) -> None:
        claims = [a_claim(100, 110, producer_id=None), a_claim(110, 120, (110, 120))]
        assert [(it.records, it.foreign) for it in found(claims, SECOND).ranges] == [
            (0, 0),
            (10, 0),
        ]
        assert found(claims[0], a_batch(1, at=105)).ranges[0].foreign == 1

    def test_that_is_empty_holds_nothing(self) -> None:
        claims = [a_claim(105, 105), RANGE]
        empty, whole = found(claims, FIRST, *MARKERS, SECOND).ranges
        assert (empty.records, empty.foreign, empty.across) == (0, 0, 0)
        assert whole.records == 18

    def test_that_was_written_by_an_earlier_producer_of_ours_is_ours(self) -> None:
        claims = [a_claim(100, 110, (100, 108)), a_claim(110, 120, (110, 120), producer_id=9)]
        first, second = found(claims, FIRST, ours(110, 10)).ranges
        assert (first.records, second.records, second.foreign) == (8, 10, 0)


class TestABatchThatReachesAcrossAnEnd:
    def test_counts_in_both_ranges_and_is_in_no_digest(self) -> None:
        claims = [a_claim(100, 105, (100, 105)), a_claim(105, 120, (105, 120))]
        tail = ours(110, 10)
        first, second = found(claims, ours(100, 10), tail).ranges
        assert (first.records, first.across) == (5, 1)
        assert (second.records, second.across) == (15, 1)
        assert second.digest == digest_of(tail)

    def test_into_what_was_verified_before_counts_from_the_start_on(self) -> None:
        recount = found(a_claim(105, 110, (105, 110)), ours(100, 10))
        (it,) = recount.ranges
        assert (it.records, it.foreign, it.across, recount.before) == (5, 0, 1, 0)

    def test_after_the_last_range_is_partly_uncommitted(self) -> None:
        recount = found(a_claim(100, 105, (100, 105)), ours(100, 10))
        assert (recount.ranges[0].records, recount.uncommitted, recount.beyond) == (5, 5, 0)


class TestBehindTheLastRange:
    def test_records_of_our_producer_are_an_attempts_that_broke_off(self) -> None:
        recount = found(RANGE, FIRST, SECOND, ours(120, 6), ours(128, 2))
        assert (recount.uncommitted, recount.beyond) == (8, 0)

    @pytest.mark.parametrize(
        "batch",
        [
            a_batch(4, at=120, producer_id=THEIRS),
            a_batch(4, at=120),
            ours(120, 4, transactional=True),
        ],
        ids=["another producer", "no producer id", "in a transaction"],
    )
    def test_all_others_are_foreign(self, batch: bytes) -> None:
        recount = found(RANGE, FIRST, SECOND, batch, ours(124, 1))
        assert (recount.uncommitted, recount.beyond) == (1, 4)
        assert [stranger.offset for stranger in recount.strangers] == [120]
        assert recount.ranges[0].foreign == 0

    def test_control_records_are_nothing(self) -> None:
        marker = a_marker(at=120, producer_id=3, commit=True)
        assert found(RANGE, FIRST, SECOND, marker)[1:] == (0, 0, 0, "", 3, ())


class TestBeforeTheFirstRange:
    EMPTY = ours(40, 60)

    def test_nothing_may_be_seen_where_the_mirror_begins(self) -> None:
        begins = RANGE._replace(is_first=True)
        recount = found(begins, self.EMPTY, FIRST, SECOND, log_start=40)
        assert recount.before == 60
        assert recount.ranges[0].records == 18

    def test_what_stands_for_nothing_is_not_seen_once_it_is_deleted(self) -> None:
        begins = RANGE._replace(is_first=True)
        assert found(begins, self.EMPTY, FIRST, SECOND, log_start=100).before == 0
        assert found(begins, self.EMPTY, FIRST, SECOND, log_start=90).before == 10

    def test_lies_what_was_verified_before(self) -> None:
        assert found(RANGE, ours(90, 10), FIRST, SECOND).before == 0


class TestWhatTheTargetHasRemovedSince:
    def test_is_expired_below_the_logs_start(self) -> None:
        (it,) = found(RANGE, FIRST, *MARKERS, SECOND, log_start=105).ranges
        assert (it.records, it.expired, it.foreign) == (13, 5, 0)

    def test_is_expired_where_nothing_is_left(self) -> None:
        (it,) = found(RANGE, log_start=500).ranges
        assert (it.records, it.expired) == (0, 18)

    @pytest.mark.parametrize("codec", range(5))
    def test_by_its_cleaner_is_known_from_the_batch_itself(self, codec: int) -> None:
        cleaned = ours(110, 4, deltas=[0, 3, 4, 9], codec=codec)
        (it,) = found(RANGE, FIRST, *MARKERS, cleaned).ranges
        assert (it.records, it.foreign) == (12, 0)

    def test_leaves_no_room_for_a_record_where_none_was(self) -> None:
        """Opened, since the header of a batch with gaps does not tell where its records are."""
        cleaned = ours(104, 4, deltas=[0, 4, 5, 9], last_offset_delta=15)
        (it,) = found(RANGE, ours(100, 4), cleaned).ranges
        assert (it.records, it.foreign) == (6, 2)

    def test_may_have_been_a_whole_batch(self) -> None:
        emptied = an_empty_batch(at=110, last_offset_delta=9, producer_id=OURS)
        (it,) = found(RANGE, FIRST, emptied).ranges
        assert (it.records, it.foreign, it.across) == (8, 0, 0)

    def test_may_have_been_nothing_but_the_batch_was_rewritten(self) -> None:
        (it,) = found(RANGE, FIRST, ours(110, 10, attributes=0x40)).ranges
        assert (it.records, it.rewritten) == (18, 1)

    def test_is_not_guessed_from_a_batch_that_cannot_be_read(self) -> None:
        broken = ours(110, 4, deltas=[0, 3, 4, 9], count=5)
        with pytest.raises(MalformedBatch, match="at offset 110"):
            found(RANGE, FIRST, broken)


class TestALedgerThatContradictsItself:
    def test_never_counts_an_offset_twice(self) -> None:
        claim = a_claim(100, 120, (100, 108), (104, 108), (110, 120))
        (it,) = found(claim, FIRST, SECOND).ranges
        assert (it.records, it.foreign) == (18, 0)

    def test_finds_no_record_outside_of_the_range(self) -> None:
        claim = a_claim(100, 110, (100, 108), (110, 120))
        recount = found(claim, FIRST, SECOND)
        assert (recount.ranges[0].records, recount.uncommitted) == (8, 10)

    def test_looks_where_it_says_that_a_record_went(self) -> None:
        claim = RangeClaim((Segment(100, 101, 8), Segment(110, 110, 10)), 100, 120, True, OURS)
        (it,) = found(claim, FIRST, SECOND).ranges
        assert (it.records, it.foreign) == (17, 1)


offsets = st.integers(0, 59)


@st.composite
def cuts(draw: st.DrawFn) -> list[int]:
    """Where ranges join."""
    inner = draw(st.lists(st.integers(1, 59), unique=True, max_size=4))
    return [0, *sorted(inner), 60]


def runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if found and found[-1][1] == offset:
            found[-1] = (found[-1][0], offset + 1)
        else:
            found.append((offset, offset + 1))
    return found


@given(cuts(), st.sets(offsets), st.sets(offsets), st.sets(st.integers(0, 70)), st.integers(0, 60))
def test_every_offset_is_what_counting_one_by_one_says(
    ends: list[int], claimed: set[int], present: set[int], foreign: set[int], log_start: int
) -> None:
    foreign -= present
    claims = [
        a_claim(start, end, *runs(offset for offset in claimed if start <= offset < end))
        for start, end in pairwise(ends)
    ]
    log = sorted(
        [(first, end, OURS) for first, end in runs(present)]
        + [(first, end, THEIRS) for first, end in runs(foreign)]
    )
    encoded = [a_batch(end - first, at=first, producer_id=who) for first, end, who in log]

    recount = found(claims, *encoded, log_start=log_start)

    seen = {offset for offset in present if offset >= log_start}
    strange = {offset for offset in foreign if offset >= log_start}
    for claim, it in zip(claims, recount.ranges, strict=True):
        inside = set(range(claim.start, claim.end))
        assert it.records == len(inside & seen & claimed)
        assert it.foreign == len(inside & (strange | (seen - claimed)))
        assert it.expired == len({n for n in inside & claimed if n < log_start})
    assert recount.beyond == len({offset for offset in strange if offset >= 60})
    assert recount.uncommitted == 0
