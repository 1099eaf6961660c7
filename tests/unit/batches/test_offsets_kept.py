"""What becomes of a log whose records keep their offsets on the target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import (
    AbortFilter,
    ConvertedBatch,
    MalformedBatch,
    Reason,
    Rebuilt,
    TopicLimits,
    by_runs,
    converted_batches,
    fetch_response,
    for_producer,
    set_aside,
)
from kafka_ferry.batches.record_format.header import Batch
from kafka_ferry.batches.record_format.records import read_records, stream_records
from tests.support.examples import examples
from tests.support.records import batches as build
from tests.support.records.batches import (
    CODECS,
    NOW,
    Consumed,
    Record,
    a_batch,
    a_marker,
    consumed,
)
from tests.unit.batches.test_fetch_response import (
    accounts_for_itself,
    arrived,
    limits_by_topic,
    read_through,
)
from tests.unit.batches.test_rejected_records import all_of

from .logs import Log, logs

KEPT = TopicLimits(offsets_kept=True)
COMPACTED, CONTROL, DEAD = Reason.COMPACTED, Reason.CONTROL, Reason.DEAD_LETTERED

keeping = limits_by_topic.map(lambda topic_limits: replace(topic_limits, offsets_kept=True))


class Target:
    """A partition of a broker that numbers what it is sent, as brokers do.

    Attributes:
        end: its log's end.
        seen: what a consumer sees, by offset; None is a control record, that no consumer sees.
    """

    def __init__(self, end: int) -> None:
        self.end = end
        self.seen: dict[int, Consumed | None] = {}

    def write(self, found: Iterable[ConvertedBatch]) -> None:
        """Write converted batches as a writer does that fills what is absent before and after their batches."""
        for converted in found:
            assert converted.start == self.end
            assert len(converted.runs) == (converted.batch is not None)
            if converted.batch is not None:
                [(first, _)] = converted.runs
                self._fill(first)
                self._produce(converted.batch)
            self._fill(converted.end)

    def _fill(self, end: int) -> None:
        assert self.end <= end
        self.seen |= dict.fromkeys(range(self.end, end))
        self.end = end

    def _produce(self, batch: Batch) -> None:
        sent = for_producer(batch, producer_id=1, epoch=0, sequence=0, transactional=False)
        assert not build.header_of(sent)["attributes"] & build.TRANSACTIONAL
        read = consumed(sent)
        # LogValidator: offsets in a row, as many as the header says.
        assert [record.offset for record in read] == list(range(len(read)))
        assert build.header_of(sent)["last_offset_delta"] == len(read) - 1
        for record in read:
            self.seen[self.end] = record._replace(offset=self.end)
            self.end += 1


def committed_view(log: Log, start: int, end: int) -> dict[int, Consumed | None]:
    """What a read_committed consumer of the source sees at each offset."""
    fates = {offset: log.fate(offset) for offset in range(start, end)}
    return {at: fate if isinstance(fate, Consumed) else None for at, fate in fates.items()}


@examples(300)
@given(data=st.data(), log=logs(), topic_limits=keeping)
def test_the_target_shows_at_each_offset_what_the_source_shows_wherever_writers_took_turns(
    data: st.DataObject, log: Log, topic_limits: TopicLimits
) -> None:
    """Ranges end and begin anywhere, each is read in other responses, and by another's limits."""
    offsets = st.integers(log.start, log.end)
    turns = sorted({log.start, *data.draw(st.lists(offsets, max_size=3)), log.end})
    target = Target(log.start)
    for start, end in pairwise(turns):
        sizes = data.draw(st.lists(st.integers(1, 4)), label="batches in each response")
        cut = data.draw(st.integers(0, 60), label="bytes of a batch that is cut off")
        target.write(read_through(log, start, end, sizes, cut=cut, topic_limits=topic_limits))
    assert target.end == log.end
    assert target.seen == committed_view(log, log.start, log.end)


@examples(200)
@given(data=st.data(), log=logs(), first=keeping, second=keeping)
def test_who_begins_again_in_the_middle_writes_the_same_after_it(
    data: st.DataObject, log: Log, first: TopicLimits, second: TopicLimits
) -> None:
    at = data.draw(st.integers(log.start, log.end - 1))
    once, again = Target(log.start), Target(at)
    once.write(read_through(log, log.start, log.end, [], topic_limits=first))
    again.write(read_through(log, at, log.end, [1, 2], topic_limits=second))
    assert again.seen == {offset: seen for offset, seen in once.seen.items() if offset >= at}


@examples(200)
@given(log=logs(), topic_limits=keeping)
def test_each_absent_offset_has_its_reason(log: Log, topic_limits: TopicLimits) -> None:
    for converted in read_through(log, log.start, log.end, [], topic_limits=topic_limits):
        assert accounts_for_itself(converted)
        fates = [log.fate(offset) for offset in range(converted.start, converted.end)]
        assert converted.reasons == Counter(fate for fate in fates if isinstance(fate, Reason))


def opened_of(
    log: bytes, start: int, end: int, topic_limits: TopicLimits = KEPT
) -> tuple[list[ConvertedBatch], Counter[int]]:
    """The converted batches, and how often each batch was opened, by its base offset."""
    opened: Counter[int] = Counter()

    def counted(batch: Batch, *limit: int) -> list[tuple[int, int, bytes, bytes]]:
        # One that is larger than the limit is not opened whole.
        records = read_records(batch, *limit)
        opened[batch.header.base_offset] += 1
        return records

    def streamed(batch: Batch) -> Iterator[list[tuple[int, int, bytes, bytes]]]:
        opened[batch.header.base_offset] += 1
        return stream_records(batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch_response, "read_records", counted)
        patch.setattr(fetch_response, "stream_records", streamed)
        found = list(converted_batches(log, AbortFilter(()), start, end, topic_limits))
    return found, opened


@examples(200)
@given(log=logs(), topic_limits=keeping)
def test_no_batch_is_opened_twice(log: Log, topic_limits: TopicLimits) -> None:
    _, opened = opened_of(b"".join(log.batches), log.start, log.end, topic_limits)
    assert not opened or max(opened.values()) == 1


def test_a_batch_without_gaps_passes_unopened_whatever_is_around_it() -> None:
    """A marker before it, compacted offsets after it, and small batches that do not reach it."""
    batches = [
        a_batch(3, at=0),
        a_marker(at=3, producer_id=1, commit=True),
        a_batch(2, at=4),
        a_batch(2, at=8),
        a_batch([Record(value=b"x" * 40_000)], at=10),
    ]
    found, opened = opened_of(b"".join(batches), 0, 12)
    assert not opened
    assert [(converted.runs, converted.rebuilt) for converted in found] == [
        (((at, records),), {}) for at, records in ((0, 3), (4, 2), (8, 2), (10, 1))
    ]
    assert [converted.batch.encode() for converted in found if converted.batch] == [
        batch for i, batch in enumerate(batches) if i != 1
    ]


@pytest.mark.parametrize(
    "topic_limits", [KEPT, replace(KEPT, join_below=0)], ids=["small", "not small"]
)
@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_a_batch_with_gaps_becomes_one_of_each_run(topic_limits: TopicLimits, codec: int) -> None:
    batch = a_batch(4, at=10, deltas=[1, 2, 4, 7], last_offset_delta=8, codec=codec)
    found, opened = opened_of(batch, 10, 19, topic_limits)
    assert [(p.start, p.end, p.runs, p.rebuilt) for p in found] == [
        (10, 14, ((11, 2),), {Rebuilt.OFFSET_GAPS: 1}),
        (14, 17, ((14, 1),), {}),
        (17, 19, ((17, 1),), {}),
    ]
    assert [p.reasons for p in found] == [{COMPACTED: 2}, {COMPACTED: 2}, {COMPACTED: 1}]
    assert all(p.leader_epoch == 3 for p in found)
    assert {p.batch.header.codec for p in found if p.batch} == {codec}
    assert opened == {10: 1}


def test_small_batches_are_joined_as_far_as_their_offsets_join() -> None:
    log = b"".join(
        (
            *(a_batch(2, at=at) for at in (0, 2, 4)),
            a_marker(at=6, producer_id=1, commit=True),
            *(a_batch(2, at=at) for at in (7, 9)),
            *(a_batch(2, at=at) for at in (12, 14)),
        )
    )
    found, opened = opened_of(log, 0, 16)
    assert [(p.start, p.end, p.runs, p.rebuilt) for p in found] == [
        (0, 7, ((0, 6),), {Rebuilt.JOINED: 3}),
        (7, 11, ((7, 4),), {Rebuilt.JOINED: 2}),
        (11, 16, ((12, 4),), {Rebuilt.JOINED: 2}),
    ]
    assert [p.reasons for p in found] == [{CONTROL: 1}, {}, {COMPACTED: 1}]
    assert max(opened.values()) == 1


@pytest.mark.parametrize(
    ("first", "second", "runs", "rebuilt"),
    [
        ([0, 2, 3], [0, 1], [(0, 1), (2, 4)], {Rebuilt.OFFSET_GAPS: 1, Rebuilt.JOINED: 1}),
        ([0, 1, 2, 3], [0, 2], [(0, 5), (6, 1)], {Rebuilt.OFFSET_GAPS: 1, Rebuilt.JOINED: 1}),
        ([1, 3], [0, 3], [(1, 1), (3, 2), (7, 1)], {Rebuilt.OFFSET_GAPS: 2}),
    ],
    ids=["first", "second", "both"],
)
def test_batches_with_gaps_are_joined_where_their_ends_meet(
    first: list[int],
    second: list[int],
    runs: list[tuple[int, int]],
    rebuilt: dict[Rebuilt, int],
) -> None:
    log = a_batch(len(first), deltas=first) + a_batch(len(second), at=4, deltas=second)
    found, opened = opened_of(log, 0, 8)
    assert [p.runs for p in found if p.batch] == [(run,) for run in runs]
    assert found[0].rebuilt == rebuilt
    assert opened == {0: 1, 4: 1}


@pytest.mark.parametrize(
    ("log", "with_gaps"),
    [
        (a_batch(2) + a_batch(2, at=2, deltas=[1, 2]), 2),
        (a_batch(2, last_offset_delta=2) + a_batch(2, at=3), 0),
    ],
    ids=["the second begins with one", "the first ends with one"],
)
def test_a_compacted_record_at_the_edge_of_a_batch_keeps_its_neighbour_unopened(
    log: bytes, with_gaps: int
) -> None:
    found, opened = opened_of(log, 0, 5)
    assert sorted(sum(p.rebuilt.values()) for p in found) == [0, 1]
    assert opened == {with_gaps: 1}


def test_what_is_joined_and_too_large_is_divided_within_its_runs() -> None:
    log = b"".join(a_batch([Record(value=b"x" * 500)] * 2, at=at) for at in (0, 2, 4, 7, 9))
    topic_limits = replace(KEPT, max_batch_bytes=3_000)
    found, _ = opened_of(log, 0, 11, topic_limits)
    assert all(len(p.runs) == 1 for p in found)
    assert all(p.batch and p.batch.header.size <= 3_000 for p in found)
    assert sum(count for p in found for _, count in p.runs) == 10


def test_what_waited_comes_before_a_neighbour_with_gaps_that_cannot_be_read() -> None:
    bad = build.with_payload(a_batch(2, at=4, deltas=[0, 2]), b"garbage")
    found = converted_batches(a_batch(2) + a_batch(2, at=2) + bad, AbortFilter(()), 0, 7, KEPT)
    assert next(found).runs == ((0, 4),)
    with pytest.raises(MalformedBatch, match="batch at offset 4"):
        next(found)


# Converted batches that lost records on their way


@examples(200)
@given(data=st.data(), log=logs(), kept=st.booleans())
def test_any_converted_batch_is_divided_into_its_runs(
    data: st.DataObject, log: Log, kept: bool
) -> None:
    """Also one that was joined for a topic that does not keep offsets, or that lost records."""
    for whole in (
        read_through(log, log.start, log.end, [], topic_limits=KEPT) if kept else all_of(log)
    ):
        bad = data.draw(st.sets(st.integers(whole.start, whole.end - 1), max_size=3))
        converted, taken = set_aside(whole, bad)

        pieces = list(by_runs(converted))

        assert [p.start for p in pieces] == [converted.start, *(p.end for p in pieces[:-1])]
        assert pieces[-1].end == converted.end
        assert all(accounts_for_itself(p) for p in pieces)
        assert tuple(run for p in pieces for run in p.runs) == converted.runs
        assert [record for p in pieces for record in arrived(p)] == arrived(converted)
        assert sum((Counter(p.reasons) for p in pieces), Counter()) == converted.reasons
        assert sum((Counter(p.rebuilt) for p in pieces), Counter()) == converted.rebuilt
        assert {p.leader_epoch for p in pieces} == {converted.leader_epoch}
        assert sum(p.reasons.get(DEAD, 0) for p in pieces) == len(taken)
        target = Target(converted.start)
        target.write(pieces)


def test_a_converted_batch_of_one_run_stays_as_it_is() -> None:
    unreadable = build.with_payload(a_batch(3), b"garbage")
    [converted] = converted_batches(unreadable, AbortFilter(()), 0, 3, KEPT)
    [same] = by_runs(converted)
    assert same is converted


def test_a_record_that_was_taken_out_divides_its_run() -> None:
    records = [Record(NOW + i, b"%d" % i) for i in range(5)]
    [converted] = converted_batches(a_batch(records, at=10), AbortFilter(()), 8, 15, KEPT)
    pieces = list(by_runs(set_aside(converted, {12})[0]))
    assert [(p.start, p.end, p.runs, p.reasons, p.rebuilt) for p in pieces] == [
        (8, 13, ((10, 2),), {COMPACTED: 2, DEAD: 1}, {Rebuilt.REJECTED: 1}),
        (13, 15, ((13, 2),), {}, {}),
    ]
