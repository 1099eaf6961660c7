import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from kafka_ferry.batches import (
    AbortedTransaction,
    AbortFilter,
    ConvertedBatch,
    MalformedBatch,
    Reason,
    Rebuilt,
    TopicLimits,
    converted_batches,
    each_record,
    for_producer,
    read_records,
    split_batches,
)
from kafka_ferry.batches.record_format.codecs import compress
from tests.support.examples import examples
from tests.support.records import batches as build
from tests.support.records.batches import (
    CODECS,
    NOW,
    Consumed,
    Record,
    a_batch,
    a_marker,
    an_empty_batch,
    consumed,
)

from .logs import Log, logs

ABORTED, CONTROL, COMPACTED = Reason.ABORTED, Reason.CONTROL, Reason.COMPACTED
INT32, INT64 = 2**31 - 1, 2**63 - 1


EACH_ALONE = TopicLimits(join_below=0)


def judged(
    records: bytes,
    start: int,
    end: int,
    aborted: list[AbortedTransaction] | None = None,
    topic_limits: TopicLimits = EACH_ALONE,
) -> list[ConvertedBatch]:
    return list(converted_batches(records, AbortFilter(aborted or ()), start, end, topic_limits))


def arrived(converted: ConvertedBatch) -> list[Consumed]:
    """The records that the target gets, at their source offsets."""
    if converted.batch is None:
        assert converted.runs == ()
        return []
    sent = for_producer(converted.batch, producer_id=1, epoch=0, sequence=0)
    assert DefaultRecordBatch(sent).validate_crc()
    read = consumed(sent)
    header = converted.batch.header
    assert not header.is_log_append_time and not header.is_control
    assert header.records == header.last_offset_delta + 1 == len(read)
    assert [record.offset for record in read] == list(range(len(read)))
    offsets = [first + i for first, count in converted.runs for i in range(count)]
    return [record._replace(offset=at) for record, at in zip(read, offsets, strict=True)]


def accounts_for_itself(converted: ConvertedBatch) -> bool:
    """Each of its offsets is in one run or absent for one reason."""
    spans = [(first, first + count) for first, count in converted.runs]
    spans += [(first, end) for first, end, _ in converted.absent]
    at = converted.start
    for first, end in sorted(spans):
        if first != at or end <= first:
            return False
        at = end
    return at == converted.end


def read_through(
    log: Log,
    start: int,
    end: int,
    sizes: list[int],
    *,
    cut: int = 0,
    generous: bool = False,
    topic_limits: TopicLimits = EACH_ALONE,
) -> list[ConvertedBatch]:
    found: list[ConvertedBatch] = []
    for records, aborted in log.responses(start, end, sizes, cut=cut, generous=generous):
        at = found[-1].end if found else start
        found += judged(records, at, end, aborted, topic_limits)
    return found


limits_by_topic = st.builds(
    TopicLimits,
    max_batch_bytes=st.sampled_from([1, 90, 200, 1_048_588]),
    codec=st.none() | build.codecs,
    join_below=st.sampled_from([0, 90, 150, 32 * 1024]),
    join_up_to=st.sampled_from([1, 100, 1_000_000]),
    offsets_kept=st.booleans(),
)


@examples(300)
@given(data=st.data(), log=logs(), topic_limits=limits_by_topic)
def test_every_offset_of_a_range_is_accounted_for_once_as_a_consumer_would_see_it(
    data: st.DataObject, log: Log, topic_limits: TopicLimits
) -> None:
    start = data.draw(st.integers(log.start, log.end - 1), label="start")
    end = data.draw(st.integers(start + 1, log.end), label="end")
    sizes = data.draw(st.lists(st.integers(1, 4)), label="batches in each response")
    cut = data.draw(st.integers(0, 60), label="bytes of a batch that is cut off")
    generous = data.draw(st.booleans(), label="lists aborted transactions after the response")

    found = read_through(
        log, start, end, sizes, cut=cut, generous=generous, topic_limits=topic_limits
    )

    assert [converted.start for converted in found] == [start, *(p.end for p in found[:-1])]
    assert found[-1].end == end
    for converted in found:
        assert accounts_for_itself(converted)
        fates = [log.fate(offset) for offset in range(converted.start, converted.end)]
        assert arrived(converted) == [fate for fate in fates if isinstance(fate, Consumed)]
        assert converted.reasons == Counter(fate for fate in fates if isinstance(fate, Reason))
        assert all(
            log.fate(at) == why for first, to, why in converted.absent for at in range(first, to)
        )
        if converted.batch:
            header = converted.batch.header
            assert header.codec == topic_limits.codec or topic_limits.codec is None
            assert header.size <= topic_limits.max_batch_bytes or header.records == 1
            assert len(converted.runs) == 1 or not topic_limits.offsets_kept


@examples(60)
@given(log=logs())
def test_only_batches_that_are_whole_dense_and_in_create_time_pass_unopened(log: Log) -> None:
    stored = b"".join(log.batches)
    for converted in read_through(log, log.start, log.end, []):
        if converted.batch and not converted.rebuilt:
            assert converted.batch.encode() in stored
            assert converted.leader_epoch == 3


def test_what_lies_before_a_batch_after_the_range_is_of_that_ones_log() -> None:
    first, left = judged(a_batch(2, leader_epoch=3) + a_batch(at=6, leader_epoch=4), 0, 5)
    assert (first.end, first.leader_epoch) == (2, 3)
    assert (left.start, left.end, left.leader_epoch) == (2, 5, 4)


def test_the_source_batch_in_which_a_converted_batch_ends_is_known_by_its_crc() -> None:
    log = [
        a_batch(2),
        a_batch(2, at=2),
        a_marker(at=4, producer_id=5, commit=True),
        a_batch(2, at=8),
    ]
    records, crcs = b"".join(log), [int.from_bytes(batch[17:21], "big") for batch in log]
    assert [it.last_crc for it in judged(records, 0, 10)] == crcs
    assert [it.last_crc for it in judged(records, 0, 10, topic_limits=TopicLimits())] == crcs[-1:]
    assert [it.last_crc for it in judged(records, 3, 5)] == crcs[1:3]
    # No batch has the last offset of a range that ends in a gap.
    assert [it.last_crc for it in judged(records, 4, 6)] == [crcs[2], -1]


def converted_of(batch: bytes, start: int, end: int) -> ConvertedBatch:
    [converted] = judged(batch, start, end)
    return converted


@pytest.mark.parametrize(
    ("batch", "start", "end", "rebuilt", "runs", "reasons"),
    [
        (a_batch(4, at=10), 10, 14, None, ((10, 4),), {}),
        (a_batch(4, at=10, transactional=True, producer_id=5), 10, 14, None, ((10, 4),), {}),
        (a_batch(4, at=10, attributes=0x40), 10, 14, None, ((10, 4),), {}),
        (a_batch(4, at=10), 7, 14, None, ((10, 4),), {COMPACTED: 3}),
        (a_batch(4, at=10), 12, 14, Rebuilt.RANGE_EDGE, ((12, 2),), {}),
        (a_batch(4, at=10), 10, 13, Rebuilt.RANGE_EDGE, ((10, 3),), {}),
        (a_batch(4, at=10), 11, 12, Rebuilt.RANGE_EDGE, ((11, 1),), {}),
        (a_batch(4, at=10), 8, 12, Rebuilt.RANGE_EDGE, ((10, 2),), {COMPACTED: 2}),
        (
            a_batch(3, at=10, deltas=[0, 1, 3]),
            10,
            14,
            Rebuilt.OFFSET_GAPS,
            ((10, 2), (13, 1)),
            {COMPACTED: 1},
        ),
        (
            a_batch(1, at=10, deltas=[1], last_offset_delta=3),
            10,
            14,
            Rebuilt.OFFSET_GAPS,
            ((11, 1),),
            {COMPACTED: 3},
        ),
        (
            a_batch(2, at=10, deltas=[0, 3]),
            11,
            13,
            Rebuilt.RANGE_EDGE,
            (),
            {COMPACTED: 2},
        ),
        (a_batch(2, at=10, append_time=NOW), 10, 12, Rebuilt.LOG_APPEND_TIME, ((10, 2),), {}),
        (an_empty_batch(at=10, last_offset_delta=3), 10, 14, None, (), {COMPACTED: 4}),
        (an_empty_batch(at=10, last_offset_delta=3), 12, 13, None, (), {COMPACTED: 1}),
        (a_marker(at=10, producer_id=5, commit=True), 10, 11, None, (), {CONTROL: 1}),
        (a_marker(at=10, producer_id=5, commit=False), 8, 11, None, (), {COMPACTED: 2, CONTROL: 1}),
        (a_batch(4, at=10), 6, 10, None, (), {COMPACTED: 4}),
        (a_batch(4, at=10), 6, 8, None, (), {COMPACTED: 2}),
    ],
)
def test_each_kind_of_batch_passes_is_rebuilt_or_is_dropped(
    batch: bytes,
    start: int,
    end: int,
    rebuilt: Rebuilt | None,
    runs: tuple[tuple[int, int], ...],
    reasons: dict[Reason, int],
) -> None:
    converted = converted_of(batch, start, end)
    assert (converted.start, converted.end) == (start, end)
    assert converted.rebuilt == ({rebuilt: 1} if rebuilt else {})
    assert (converted.runs, converted.reasons) == (runs, reasons)
    assert (converted.batch is None) == (not runs)


def test_a_batch_before_the_range_is_passed_over() -> None:
    records = a_batch(4, at=0) + a_batch(4, at=4)
    assert [(p.start, p.end) for p in judged(records, 4, 8)] == [(4, 8)]


def test_nothing_is_read_after_the_end_of_the_range() -> None:
    after = build.with_header(a_batch(4, at=4), crc=0)
    assert [(p.start, p.end) for p in judged(a_batch(4) + after, 0, 4)] == [(0, 4)]


@pytest.mark.parametrize("records", [b"", a_batch(2, at=5)[:70]])
def test_a_response_without_a_whole_batch_accounts_for_nothing(records: bytes) -> None:
    assert judged(records, 5, 10) == []


def test_consumers_keep_the_append_time_that_they_saw() -> None:
    source = a_batch([Record(timestamp=1), Record(timestamp=2)], append_time=NOW)
    assert [record.timestamp for record in arrived(converted_of(source, 0, 2))] == [NOW, NOW]


def test_an_aborted_transaction_that_began_before_the_response_is_dropped() -> None:
    records = a_batch(2, at=10, producer_id=5, transactional=True)
    records += a_batch(2, at=12, producer_id=6, transactional=True)
    records += a_marker(at=14, producer_id=5, commit=False)
    found = judged(records, 10, 15, [AbortedTransaction(5, 3)])
    assert [converted.reasons for converted in found] == [{ABORTED: 2}, {}, {CONTROL: 1}]


def test_a_marker_before_the_range_ends_its_transaction_all_the_same() -> None:
    records = a_batch(2, at=0, producer_id=5, transactional=True)
    records += a_marker(at=2, producer_id=5, commit=False)
    records += a_batch(2, at=3, producer_id=5, transactional=True)
    [converted] = judged(records, 3, 5, [AbortedTransaction(5, 0)])
    assert (converted.runs, converted.reasons) == (((3, 2),), {})


def test_the_offsets_of_an_aborted_batch_are_counted_as_aborted_within_the_range_only() -> None:
    records = a_batch(4, at=10, producer_id=5, transactional=True)
    [converted] = judged(records, 8, 12, [AbortedTransaction(5, 10)])
    assert converted.reasons == {COMPACTED: 2, ABORTED: 2}


# Small batches


def joined(
    records: bytes,
    end: int,
    topic_limits: TopicLimits = TopicLimits(),  # noqa: B008
    **more: Any,
) -> list[ConvertedBatch]:
    return judged(records, 0, end, topic_limits=topic_limits, **more)


def test_small_batches_in_a_row_become_one() -> None:
    records = b"".join(a_batch(2, at=at, codec=3) for at in range(0, 200, 2))
    [converted] = joined(records, 200)
    assert converted.runs == ((0, 200),)
    assert converted.rebuilt == {Rebuilt.JOINED: 100}
    assert converted.batch and converted.batch.header.codec == 3
    assert len(arrived(converted)) == 200


def test_a_lone_small_batch_passes_unopened() -> None:
    batch = a_batch(2)
    large = a_batch([Record(value=b"x" * 40_000)], at=2)
    found = joined(batch + large + a_batch(2, at=3), 5)
    assert [converted.rebuilt for converted in found] == [{}, {}, {}]
    assert found[0].batch and found[0].batch.encode() == batch


def test_what_is_dropped_between_small_batches_travels_with_them() -> None:
    records = b"".join(
        a_batch(2, at=at, producer_id=5, transactional=True)
        + a_marker(at=at + 2, producer_id=5, commit=True)
        for at in (0, 3, 8)
    )
    [converted] = joined(records, 11)
    assert converted.runs == ((0, 2), (3, 2), (8, 2))
    assert converted.absent == (
        *((2, 3, CONTROL), (5, 6, CONTROL), (6, 8, COMPACTED), (10, 11, CONTROL)),
    )


def test_each_joined_batch_counts_under_its_own_first_reason() -> None:
    records = a_batch(2) + a_batch(2, at=2, append_time=NOW) + a_batch(2, at=4, deltas=[0, 3])
    [converted] = joined(records, 8)
    assert converted.rebuilt == {
        Rebuilt.JOINED: 1,
        Rebuilt.LOG_APPEND_TIME: 1,
        Rebuilt.OFFSET_GAPS: 1,
    }


@pytest.mark.parametrize(
    ("second", "topic_limits"),
    [
        (a_batch(2, at=2, leader_epoch=4), TopicLimits()),
        (a_batch(2, at=2), TopicLimits(join_up_to=60)),
        (a_batch(2, at=2), TopicLimits(join_below=10)),
        (a_batch(2, at=2), TopicLimits(join_below=0)),
    ],
    ids=["leader epoch", "enough bytes", "not small", "joining is off"],
)
def test_batches_that_do_not_go_together_pass_alone(
    second: bytes, topic_limits: TopicLimits
) -> None:
    found = joined(a_batch(2) + second, 4, topic_limits)
    assert [(converted.runs, converted.rebuilt) for converted in found] == [
        (((0, 2),), {}),
        (((2, 2),), {}),
    ]


def test_batches_of_two_codecs_pass_alone() -> None:
    found = joined(a_batch(2, codec=3) + a_batch(2, at=2, codec=1), 4, TopicLimits())
    assert [(converted.runs, converted.rebuilt) for converted in found] == [
        (((0, 2),), {}),
        (((2, 2),), {}),
    ]


@pytest.mark.parametrize("codecs", [(0, 3, 0), (3, 0, 0), (0, 0, 3), (3, 3, 0)])
def test_batches_that_compressing_did_not_shrink_travel_with_their_neighbours(
    codecs: tuple[int, ...],
) -> None:
    stored = b"".join(a_batch(2, at=2 * i, codec=codec) for i, codec in enumerate(codecs))
    (converted,) = joined(stored, 6, TopicLimits())
    assert converted.batch is not None
    assert (converted.runs, converted.batch.header.codec) == (((0, 6),), 3)
    assert [record.offset for record in consumed(converted.batch.encode())] == list(range(6))


def test_batches_of_several_codecs_go_together_where_the_target_pins_one() -> None:
    [converted] = joined(a_batch(2) + a_batch(2, at=2, codec=1), 4, TopicLimits(codec=4))
    assert converted.rebuilt == {Rebuilt.OTHER_CODEC: 2}
    assert converted.batch and converted.batch.header.codec == 4


def test_joined_batches_are_of_about_the_size_that_is_asked_for() -> None:
    records = b"".join(a_batch([Record(value=b"x" * 1_000)], at=at) for at in range(100))
    sizes = [
        p.batch.header.records
        for p in joined(records, 100, TopicLimits(join_up_to=30_000))
        if p.batch
    ]
    assert sum(sizes) == 100
    assert min(sizes[:-1]) >= 28


def test_a_batch_that_is_too_large_counts_once_and_its_gaps_stay_where_they_are() -> None:
    source = a_batch([Record(value=b"x" * 1_000)] * 8, at=10, deltas=[*range(4), *range(6, 10)])
    found = judged(
        a_marker(at=9, producer_id=1, commit=True) + source,
        9,
        22,
        topic_limits=TopicLimits(max_batch_bytes=4_500, join_below=0),
    )
    assert [converted.rebuilt for converted in found] == [{}, {Rebuilt.OFFSET_GAPS: 1}, {}]
    assert [(converted.start, converted.end, converted.runs) for converted in found[1:]] == [
        (10, 16, ((10, 4),)),
        (16, 20, ((16, 4),)),
    ]
    assert [converted.reasons for converted in found[1:]] == [{COMPACTED: 2}, {}]


def test_a_single_record_that_is_too_large_is_for_the_broker_to_refuse() -> None:
    source = a_batch([Record(value=b"x" * 1_000)])
    [converted] = judged(source, 0, 1, topic_limits=TopicLimits(max_batch_bytes=500))
    assert converted.batch and converted.batch.encode() == source


def test_what_waited_for_neighbours_comes_before_the_error() -> None:
    records = a_batch(2) + a_batch(2, at=2) + build.with_header(a_batch(2, at=4), crc=1)
    found = converted_batches(records, AbortFilter(()), 0, 6)
    assert next(found).end == 4
    with pytest.raises(MalformedBatch, match="CRC of the batch at offset 4"):
        next(found)


def test_what_waited_comes_before_a_neighbour_that_cannot_be_read() -> None:
    bad = build.with_payload(a_batch(2, at=4), b"garbage")
    found = converted_batches(a_batch(2) + a_batch(2, at=2) + bad, AbortFilter(()), 0, 6)
    assert next(found).end == 4
    with pytest.raises(MalformedBatch, match="batch at offset 4"):
        next(found)


# What a few bytes unpack to

MIB = 1024 * 1024


def traced(work: Callable[[], None]) -> int:
    """The most memory that it takes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("offsets_kept", [False, True])
def test_small_batches_that_unpack_to_much_pass_unopened(offsets_kept: bool) -> None:
    records = build.a_bomb(60) + build.a_bomb(60, at=60) + a_batch(2, at=120) + a_batch(2, at=122)
    topic_limits = TopicLimits(join_below=32 * 1024, offsets_kept=offsets_kept)
    found: list[ConvertedBatch] = []

    peak = traced(
        lambda: found.extend(converted_batches(records, AbortFilter(()), 0, 124, topic_limits))
    )

    assert [(it.start, it.end, dict(it.rebuilt)) for it in found] == [
        (0, 60, {}),
        (60, 120, {}),
        (120, 124, {Rebuilt.JOINED: 2}),
    ]
    assert peak < 12 * MIB


def test_more_than_can_be_rebuilt_passes_unopened_too() -> None:
    records = b"".join(build.a_bomb(520, at=at) for at in (0, 520))
    found = converted_batches(records, AbortFilter(()), 0, 1040, TopicLimits(join_below=100 * 1024))
    assert [dict(it.rebuilt) for it in found] == [{}, {}]


@pytest.mark.parametrize("cut", [1, 10])
def test_compressed_neighbours_that_cannot_be_read_are_for_the_broker_to_judge(cut: int) -> None:
    records = build.a_bomb(1, cut=cut) + build.a_bomb(1, at=1, cut=cut)
    found = converted_batches(records, AbortFilter(()), 0, 2, TopicLimits(join_up_to=4 * MIB))
    assert [dict(it.rebuilt) for it in found] == [{}, {}]


@pytest.mark.parametrize(
    ("start", "end", "topic_limits", "why"),
    [
        (0, 100, TopicLimits(codec=1), Rebuilt.OTHER_CODEC),
        (0, 100, TopicLimits(codec=0, max_batch_bytes=4 * MIB), Rebuilt.OTHER_CODEC),
        (0, 100, TopicLimits(max_batch_bytes=1000), Rebuilt.TOO_LARGE),
        (7, 93, TopicLimits(), Rebuilt.RANGE_EDGE),
        (7, 93, TopicLimits(offsets_kept=True), Rebuilt.RANGE_EDGE),
    ],
)
def test_what_must_be_opened_is_unpacked_piece_by_piece(
    start: int, end: int, topic_limits: TopicLimits, why: Rebuilt
) -> None:
    bomb = build.a_bomb(100)
    at, rebuilt = start, Counter[Rebuilt]()

    def work() -> None:
        nonlocal at
        for converted in converted_batches(bomb, AbortFilter(()), start, end, topic_limits):
            assert converted.start == at
            assert converted.runs == ((converted.start, converted.end - converted.start),)
            at = converted.end
            rebuilt.update(converted.rebuilt)

    peak = traced(work)

    assert (at, rebuilt) == (end, {why: 1})
    assert peak < 64 * MIB


# What is malformed


def test_a_crc_that_does_not_match_ends_the_converted_batches_but_takes_none_back() -> None:
    records = a_batch(2) + build.with_header(a_batch(2, at=2), crc=1)
    found = converted_batches(records, AbortFilter(()), 0, 4)
    assert next(found).end == 2
    with pytest.raises(MalformedBatch, match="CRC of the batch at offset 2"):
        next(found)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda batch: an_empty_batch(at=0, last_offset_delta=1, crc=1),
        lambda batch: build.with_header(a_marker(at=0, producer_id=1, commit=True), crc=1),
        lambda batch: build.with_header(batch, crc=1),
    ],
    ids=["empty", "marker", "before the range"],
)
def test_the_crc_of_batches_that_are_dropped_counts_too(wrap: Callable[[bytes], bytes]) -> None:
    with pytest.raises(MalformedBatch, match="CRC"):
        judged(wrap(a_batch(2)), 1, 5)


def in_need_of_rebuilding(payload: bytes, codec: int = 0, count: int = 2) -> bytes:
    """A batch of two offsets and a right CRC of which only the second is asked for below."""
    return build.with_payload(a_batch(2), payload, attributes=codec, count=count)


@pytest.mark.parametrize("codec", range(8))
@pytest.mark.parametrize("payload", [b"", b"\0", b"\xff" * 40, b"not a record", b"\x1f\x8b\x08\0"])
def test_records_that_cannot_be_read_are_malformed_where_they_must_be(
    payload: bytes, codec: int
) -> None:
    with pytest.raises(MalformedBatch):
        judged(in_need_of_rebuilding(payload, codec), 1, 2)


@pytest.mark.parametrize("codec", list(CODECS.values()), ids=list(CODECS))
def test_a_compressed_payload_that_is_cut_off_is_malformed(codec: int) -> None:
    payload = a_batch(2, codec=codec)[61:]
    for cut in range(1, len(payload)):
        with pytest.raises(MalformedBatch):
            judged(in_need_of_rebuilding(payload[:-cut], codec), 1, 2)


@pytest.mark.parametrize("count", [1, 3, 1_000, INT32])
def test_a_count_that_the_records_do_not_bear_out_is_malformed_and_takes_no_memory(
    count: int,
) -> None:
    batch = in_need_of_rebuilding(a_batch(2)[61:], count=count)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedBatch):
            judged(batch, 1, 2)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


ABSURD = b"\xfe\xff\xff\xff\x0f"  # 2^31 - 1 as a varint
TOO_LONG = b"\xff" * 10 + b"\x01"  # no number has so many


@pytest.mark.parametrize(
    "record",
    [
        ABSURD + b"\0\0\2\1\1\0",
        b"\x15" + b"\0\0\2\1\1\0",
        b"\x0e" + b"\0\0\2\1\1\0",
        b"\x0a" + b"\0\0\2\1\1\0",
        b"\4" + b"\0\0",
        b"\x20" + b"\0" + TOO_LONG + b"\2\1\1\0",
    ],
    ids=["absurd", "negative", "too long", "too short", "without offset", "varint"],
)
def test_a_record_that_does_not_fit_in_its_batch_is_malformed(record: bytes) -> None:
    with pytest.raises(MalformedBatch):
        judged(in_need_of_rebuilding(a_batch(1)[61:] + record), 1, 2)


@pytest.mark.parametrize(
    "content",
    [ABSURD + b"\1\0", b"\1" + ABSURD + b"\0", b"\1\1" + ABSURD, b"\1\1\2" + ABSURD + b"\1"],
    ids=["key", "value", "number of headers", "header's name"],
)
def test_an_absurd_length_within_a_record_takes_no_memory(content: bytes) -> None:
    """The broker judges what is in a record; nothing is allocated for what it says of itself."""
    body = b"\0\0\2" + content
    batch = in_need_of_rebuilding(a_batch(1)[61:] + bytes([2 * len(body)]) + body)
    tracemalloc.start()
    try:
        well_formed_or_malformed(batch, 1, 2)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("base", [INT64, -INT64 - 1, INT64 - 1])
def test_timestamps_that_no_64_bits_hold_wrap_as_consumers_see_them(base: int) -> None:
    step = 2 if base > 0 else -2
    logged = [Record(NOW), Record(NOW + step), Record(NOW)]
    batch = build.with_header(a_batch(logged), base_timestamp=base)
    (found,) = judged(batch, 1, 3)
    assert found.batch
    wrapped = (base + step + 2**63) % 2**64 - 2**63
    assert [ms for _, ms, _, _ in read_records(found.batch)] == [wrapped, base]


@pytest.mark.parametrize(
    ("deltas", "last_offset_delta", "offsets"),
    [
        ([0, 0], 1, [0, 1]),
        ([1, 0], 1, [0, 1]),
        ([1, 0], 2, [1, 2]),
        ([0, 5], 1, [0, 1]),
        ([0, 5], 3, [0, 3]),
        ([5, 9, 1], 4, [2, 3, 4]),
        ([-1, INT32], 1, [0, 1]),
    ],
)
def test_records_at_offsets_that_they_cannot_have_are_at_the_next_ones(
    deltas: list[int], last_offset_delta: int, offsets: list[int]
) -> None:
    """Brokers take any from a producer, as long as the batch is not compressed: no partition stops at them."""
    source = a_batch(len(deltas), deltas=deltas, last_offset_delta=last_offset_delta)
    [batch] = split_batches(source)
    assert [offset for offset, *_ in read_records(batch)] == offsets
    assert list(each_record(batch)) == read_records(batch)
    [first] = judged(source, 0, offsets[1])
    assert first.runs == ((offsets[0], 1),)
    assert accounts_for_itself(first)


def test_more_records_than_offsets_are_malformed() -> None:
    with pytest.raises(MalformedBatch, match="2 records at 1 offsets"):
        judged(a_batch(2, deltas=[0, 0], last_offset_delta=0), 0, 1)


def well_formed_or_malformed(
    records: bytes, start: int, end: int, topic_limits: TopicLimits = EACH_ALONE
) -> None:
    """Whatever comes: converted batches that join and add up, or the one error that says what is wrong."""
    at = start
    aborted = AbortFilter([AbortedTransaction(7, 0)])
    try:
        for converted in converted_batches(records, aborted, start, end, topic_limits):
            assert converted.start == at < converted.end <= end
            assert accounts_for_itself(converted)
            at = converted.end
    except MalformedBatch:
        pass


@examples(150)
@given(st.binary(max_size=150))
def test_any_bytes_are_converted_batches_or_malformed(some: bytes) -> None:
    well_formed_or_malformed(some, 0, 1_000)


@examples(300)
@given(data=st.data(), log=logs(), topic_limits=limits_by_topic)
def test_a_log_with_changed_bytes_is_converted_batches_or_malformed(
    data: st.DataObject, log: Log, topic_limits: TopicLimits
) -> None:
    changed = bytearray(b"".join(log.batches))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
        if not changed:
            break
    well_formed_or_malformed(bytes(changed), log.start, log.end, topic_limits)


@examples(300)
@given(data=st.data(), source=st.binary() | st.just(a_batch(9)[61:]), codec=build.codecs)
def test_a_changed_payload_under_a_right_crc_is_converted_batches_or_malformed(
    data: st.DataObject, source: bytes, codec: int
) -> None:
    """What is wrong before the CRC was made, by a producer that brokers did not look through."""
    payload = bytearray(compress(source, codec))
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(payload)))
        payload[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    batch = build.with_payload(a_batch(9), bytes(payload), attributes=codec)
    well_formed_or_malformed(batch, 1, 9)
    well_formed_or_malformed(batch + build.with_header(batch, base_offset=9), 0, 18, TopicLimits())


@examples(300)
@given(
    payload=st.binary(max_size=60),
    codec=st.integers(0, 7),
    count=st.integers(0, 4),
    last_offset_delta=st.integers(0, 4),
    flags=st.sampled_from([0, build.LOG_APPEND_TIME, build.TRANSACTIONAL, build.CONTROL]),
    base_timestamp=st.sampled_from([NOW, INT64, -INT64 - 1]),
    start=st.integers(0, 3),
)
def test_any_payload_under_a_right_crc_is_a_converted_batch_or_malformed(
    payload: bytes,
    codec: int,
    count: int,
    last_offset_delta: int,
    flags: int,
    base_timestamp: int,
    start: int,
) -> None:
    batch = build.with_payload(
        a_batch(1, producer_id=7),
        payload,
        count=count,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        attributes=codec | flags,
    )
    well_formed_or_malformed(batch, start, start + 2)
