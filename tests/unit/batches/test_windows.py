"""What a backfill copies of any log: the records of its window that are not settled, and no others."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import (
    AbortFilter,
    ConvertedBatch,
    Reason,
    Rebuilt,
    SettledSpan,
    TimeWindow,
    TopicLimits,
    converted_batches,
    fetch_response,
)
from tests.support.examples import examples
from tests.support.records.batches import NOW, Consumed, Record, a_batch, with_payload
from tests.unit.batches.test_fetch_response import accounts_for_itself, arrived

from .logs import Log, logs

# Before 1970 there is but -1, for no time at all.
_times = st.integers(1, NOW + 1)
_spans = st.lists(_times, min_size=2, max_size=2, unique=True).map(lambda two: (min(two), max(two)))


@st.composite
def _settled(draw: st.DrawFn, log: Log) -> list[SettledSpan]:
    offsets = st.integers(log.start, log.end)
    found = draw(st.lists(st.tuples(offsets, offsets, st.none() | _spans), max_size=4))
    return [
        SettledSpan(min(a, b), max(a, b), *(times or (-(2**63), 2**63 - 1)))
        for a, b, times in found
        if a != b
    ]


@st.composite
def _cases(draw: st.DrawFn) -> tuple[Log, tuple[int, int], list[SettledSpan], int, int]:
    log = draw(logs())
    seen = sorted(
        {it.timestamp for it in log.fates.values() if isinstance(it, Consumed) and it.timestamp > 0}
    )
    # Edges that are times of records are the interesting ones.
    edge = st.sampled_from(seen) if seen else _times
    since = draw(edge | _times)
    until = draw((edge | _times).filter(lambda time: time != since))
    start = draw(st.integers(log.start, log.end))
    return (
        log,
        (min(since, until), max(since, until)),
        draw(_settled(log)),
        start,
        draw(st.sampled_from([0, 10_000])),
    )


@examples(150)
@given(_cases())
def test_exactly_the_records_of_the_window_that_are_not_settled_are_copied(
    case: tuple[Log, tuple[int, int], list[SettledSpan], int, int],
) -> None:
    log, (since, until), settled, start, join_below = case
    window = TimeWindow(since, until, settled)
    at, found, absent = start, list[Consumed](), dict[int, Reason]()
    for records, aborted in log.responses(start, log.end, [2, 3]):
        for converted in converted_batches(
            records,
            AbortFilter(aborted),
            at,
            log.end,
            TopicLimits(join_below=join_below),
            filters=[window],
        ):
            assert converted.start == at
            assert accounts_for_itself(converted)
            at = converted.end
            found += arrived(converted)
            for first, end, reason in converted.absent:
                absent |= dict.fromkeys(range(first, end), reason)

    def is_settled(offset: int, time: int) -> bool:
        return any(s.start <= offset < s.end and s.since <= time < s.until for s in settled)

    wanted = []
    for offset in range(start, at):
        fate = log.fate(offset)
        if not isinstance(fate, Consumed):
            allowed = {fate}
            if fate == Reason.COMPACTED:
                # It has gone with its batch, which was not opened.
                allowed |= {Reason.OUTSIDE_WINDOW, Reason.COPIED_BEFORE}
            assert absent[offset] in allowed
            continue
        inside = since <= fate.timestamp < until
        if inside and not is_settled(offset, fate.timestamp):
            wanted.append(fate)
            assert offset not in absent
        elif inside:
            assert absent[offset] == Reason.COPIED_BEFORE
        else:
            assert absent[offset] in (Reason.OUTSIDE_WINDOW, Reason.COPIED_BEFORE)
    assert found == wanted


def _one(*times: int, **options: int) -> bytes:
    return a_batch([Record(time, b"k", b"v", ()) for time in times], at=10, **options)


def _converted(batch: bytes, window: TimeWindow, end: int = 13) -> object:
    (converted,) = converted_batches(
        batch, AbortFilter(()), 10, end, TopicLimits(join_below=0), filters=[window]
    )
    return converted


def test_a_batch_that_is_wholly_inside_passes_as_it_is_once_it_was_looked_into() -> None:
    converted = _converted(_one(3, 1, 2), TimeWindow(1, 4))
    assert converted.batch and not converted.rebuilt  # type: ignore[attr-defined]


def test_an_older_record_after_the_first_one_is_seen_although_no_header_tells() -> None:
    converted = _converted(_one(3, 1, 2), TimeWindow(2, 4))
    assert converted.runs == ((10, 1), (12, 1))  # type: ignore[attr-defined]
    assert converted.reasons == {Reason.OUTSIDE_WINDOW: 1}  # type: ignore[attr-defined]
    assert converted.rebuilt == {Rebuilt.WINDOW_EDGE: 1}  # type: ignore[attr-defined]


def test_what_the_header_tells_for_certain_is_decided_unopened() -> None:
    """The payload is no batch's: code that opened it would fail."""
    broken = with_payload(_one(1, 1, 1), b"broken")
    assert _converted(broken, TimeWindow(2, 4)).reasons == {Reason.OUTSIDE_WINDOW: 3}  # type: ignore[attr-defined]
    stamped = with_payload(_one(1, 1, 1, append_time=5), b"broken")
    assert _converted(stamped, TimeWindow(2, 4)).reasons == {Reason.OUTSIDE_WINDOW: 3}  # type: ignore[attr-defined]
    settled = TimeWindow(0, 4, [SettledSpan(0, 20, 0, 4)])
    assert _converted(broken, settled).reasons == {Reason.COPIED_BEFORE: 3}  # type: ignore[attr-defined]


def test_settled_offsets_are_passed_over_only_where_that_holds_for_the_whole_window() -> None:
    window = TimeWindow(
        0, 10, [SettledSpan(0, 5, 0, 10), SettledSpan(5, 9, 0, 20), SettledSpan(9, 12, 0, 9)]
    )
    assert [window.settled_end(at) for at in (0, 4, 8, 9, 12)] == [9, 9, 9, 9, 12]


def test_what_few_kilobytes_make_large_is_opened_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer chooses its records' times, and so whether a backfill looks into their batch."""
    records = [Record(NOW + i, b"%d" % i, bytes(700_000)) for i in range(20)]
    batch = a_batch(records, at=10, codec=4)
    windows = [TimeWindow(NOW + 1, NOW + 18), TimeWindow(NOW + 3, NOW + 30)]

    def found() -> list[ConvertedBatch]:
        return list(converted_batches(batch, AbortFilter(()), 10, 30, TopicLimits(), windows))

    def reasons(all_converted: list[ConvertedBatch]) -> dict[int, Reason]:
        absent = (it for one in all_converted for it in one.absent)
        return {at: reason for first, end, reason in absent for at in range(first, end)}

    at_once = found()
    monkeypatch.setattr(fetch_response, "OPENED_AT_ONCE", 1_500_000)
    monkeypatch.setattr(fetch_response, "_STRETCH_BYTES", 1_500_000)
    tracemalloc.start()
    in_parts = found()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert [it for one in in_parts for it in arrived(one)] == arrived(at_once[0])
    assert reasons(in_parts) == reasons(at_once)
    assert in_parts[0].rebuilt == at_once[0].rebuilt
    assert peak < 8_000_000
    outside = list(
        converted_batches(
            batch, AbortFilter(()), 10, 30, TopicLimits(), [TimeWindow(NOW - 2, NOW - 1)]
        )
    )
    assert [one.reasons for one in outside] == [{Reason.OUTSIDE_WINDOW: 20}]
