"""The named property: our rewriting of a batch's header against kafka-python's decoder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record._crc32c import crc as crc32c_in_python
from kafka.record.default_records import DefaultRecordBatch

from kafka_ferry.batches import MalformedBatch, for_producer, next_sequence, split_batches
from tests.support.examples import examples
from tests.support.records import batches as build
from tests.support.records.batches import CODECS, a_batch, as_consumed, consumed, header_of

INT16, INT32, INT64 = 2**15 - 1, 2**31 - 1, 2**63 - 1

batch_strategies = {
    "logged": st.lists(build.records, min_size=1, max_size=8),
    "codec": build.codecs,
    "base_offset": st.integers(0, 2**62),
    "leader_epoch": st.integers(-1, INT32),
    "base_timestamp": st.none() | st.integers(0, 2**45),
    "flags": st.sampled_from([0, build.TRANSACTIONAL, build.DELETE_HORIZON, 0x50]),
    "source_producer": st.tuples(
        st.integers(-1, INT64), st.integers(-1, INT16), st.integers(-1, INT32)
    ),
}


@examples(150)
@given(
    **batch_strategies,
    producer_id=st.integers(0, INT64),
    epoch=st.integers(0, INT16),
    sequence=st.integers(0, INT32),
    transactional=st.booleans(),
)
def test_a_batch_given_to_another_producer_holds_the_same_records_and_is_ours(
    logged,
    codec,
    base_offset,
    leader_epoch,
    base_timestamp,
    flags,
    source_producer,
    producer_id,
    epoch,
    sequence,
    transactional,
):
    source = a_batch(
        logged,
        at=base_offset,
        codec=codec,
        base_timestamp=base_timestamp,
        leader_epoch=leader_epoch,
        attributes=codec | flags,
        producer_id=source_producer[0],
        producer_epoch=source_producer[1],
        base_sequence=source_producer[2],
    )
    [batch] = split_batches(source)
    assert batch.crc_matches
    assert batch.encode() == source

    sent = for_producer(
        batch,
        producer_id=producer_id,
        epoch=epoch,
        sequence=sequence,
        transactional=transactional,
    )

    read = DefaultRecordBatch(sent)
    assert read.validate_crc()
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == (
        producer_id,
        epoch,
        sequence,
    )
    assert (read.base_offset, read.leader_epoch, read.magic) == (0, -1, 2)
    assert read.attributes == codec | build.TRANSACTIONAL * transactional
    before = header_of(source)
    for kept in ("length", "last_offset_delta", "base_timestamp", "max_timestamp", "count"):
        assert header_of(sent)[kept] == before[kept]
    assert consumed(sent) == as_consumed(logged, range(len(logged)))


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_the_crc_is_that_of_another_implementation(codec: int) -> None:
    [batch] = split_batches(a_batch(3, codec=codec))
    sent = for_producer(batch, producer_id=1, epoch=2, sequence=3)
    assert header_of(sent)["crc"] == crc32c_in_python(sent[21:])


def test_the_bytes_after_the_header_are_not_touched() -> None:
    source = a_batch(5, codec=CODECS["lz4"])
    [batch] = split_batches(source)
    assert for_producer(batch, producer_id=1, epoch=0, sequence=0)[61:] == source[61:]


@pytest.mark.parametrize(
    ("attributes", "codec", "log_append_time", "transactional", "control"),
    [
        (0x00, 0, False, False, False),
        (0x03, 3, False, False, False),
        (0x0C, 4, True, False, False),
        (0x11, 1, False, True, False),
        (0x30, 0, False, True, True),
        (0x42, 2, False, False, False),
    ],
)
def test_a_header_says_what_kind_of_batch_it_is(
    attributes: int, codec: int, log_append_time: bool, transactional: bool, control: bool
) -> None:
    [batch] = split_batches(a_batch(1, attributes=attributes))
    header = batch.header
    assert header.codec == codec
    assert header.is_log_append_time == log_append_time
    assert header.is_transactional == transactional
    assert header.is_control == control


def test_a_batch_stands_for_its_compacted_offsets_too() -> None:
    encoded = a_batch(1, at=100, last_offset_delta=9)
    [batch] = split_batches(encoded)
    assert (batch.header.next_offset, batch.header.records) == (110, 1)
    assert batch.header.size == len(encoded)


@pytest.mark.parametrize(
    ("sequence", "count", "following"),
    [
        (0, 1, 1),
        (0, 0, 0),
        (41, 100, 141),
        (INT32 - 1, 1, INT32),
        (INT32, 1, 0),
        (INT32 - 1, 5, 3),
        (INT32, INT32, INT32 - 1),
    ],
)
def test_the_sequence_begins_again_after_two_to_the_31st(
    sequence: int, count: int, following: int
) -> None:
    assert next_sequence(sequence, count) == following


@given(sequence=st.integers(0, INT32), count=st.integers(1, INT32))
def test_the_next_sequence_is_the_one_after_kafka_pythons_last(sequence: int, count: int) -> None:
    batch = a_batch(1, last_offset_delta=count - 1, base_sequence=sequence)
    last = DefaultRecordBatch(batch).last_sequence
    assert next_sequence(sequence, count) == next_sequence(last, 1)
    assert 0 <= next_sequence(sequence, count) <= INT32


def incremented(sequence: int, increment: int) -> int:
    """``DefaultRecordBatch.incrementSequence``, as it is in Java."""
    if sequence > INT32 - increment:
        return increment - (INT32 - sequence) - 1
    return sequence + increment


near_the_wrap = st.integers(0, INT32) | st.integers(INT32 - 3, INT32) | st.integers(0, 3)


@given(sequence=near_the_wrap, count=near_the_wrap)
def test_sequences_are_counted_as_the_broker_counts_them(sequence: int, count: int) -> None:
    following = next_sequence(sequence, count)
    assert following == incremented(sequence, count) == (sequence + count) % 2**31
    assert 0 <= following <= INT32


@given(sequence=near_the_wrap, counts=st.lists(near_the_wrap, max_size=5), data=st.data())
def test_counting_in_pieces_is_counting_at_once(
    sequence: int, counts: list[int], data: st.DataObject
) -> None:
    following = sequence
    for count in counts:
        following = next_sequence(following, count)
    assert following == (sequence + sum(counts)) % 2**31

    total = data.draw(near_the_wrap)
    part = data.draw(st.integers(0, total))
    in_pieces = next_sequence(next_sequence(sequence, part), total - part)
    assert in_pieces == next_sequence(sequence, total)


def test_a_flipped_bit_after_the_magic_byte_is_seen() -> None:
    for bit in range(17 * 8, 61 * 8):
        changed = bytearray(a_batch(2))
        changed[bit // 8] ^= 1 << bit % 8
        try:
            [batch] = split_batches(bytes(changed))
        except MalformedBatch:
            continue
        assert not batch.crc_matches, f"bit {bit % 8} of byte {bit // 8}"
