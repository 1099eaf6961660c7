"""Formats v0 and v1: what kafka-python decodes of them is what arrives."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import (
    AbortFilter,
    MalformedBatch,
    Rebuilt,
    TopicLimits,
    converted_batches,
    split_batches,
)
from kafka_ferry.batches.record_format.codecs import compress
from tests.support.examples import examples
from tests.support.records import batches as build
from tests.support.records.batches import (
    NOW,
    Consumed,
    Record,
    a_message_set,
    consumed,
    consumed_of_messages,
    messages_of,
    with_message_crc,
)

old_records = build.records.map(lambda record: record._replace(headers=()))
kinds = pytest.mark.parametrize(("magic", "codec"), [(m, c) for m in (0, 1) for c in range(4)])


def read(log: bytes) -> list[Consumed]:
    """The records of the v2 batches that are made of a log."""
    return [record for batch in split_batches(log) for record in consumed(batch.encode())]


@examples(150)
@given(
    logged=st.dictionaries(st.integers(0, 30), old_records, min_size=1, max_size=6),
    at=st.integers(0, 2**60),
    magic=st.integers(0, 1),
    codec=st.integers(0, 3),
    append_time=st.none() | st.integers(1, NOW),
)
def test_messages_become_v2_batches_of_the_same_records(
    logged: dict[int, Record], at: int, magic: int, codec: int, append_time: int | None
) -> None:
    kept = dict(sorted(logged.items()))
    messages = a_message_set(
        list(kept.values()),
        at=at,
        deltas=list(kept),
        magic=magic,
        codec=codec,
        append_time=append_time,
    )
    [batch] = split_batches(messages)
    assert batch.crc_matches
    assert (batch.stored_format, batch.header.codec) == (magic, codec)
    assert consumed(batch.encode()) == consumed_of_messages(messages)


@kinds
def test_offsets_times_keys_and_values_are_those_that_were_written(magic: int, codec: int) -> None:
    """Said once more without kafka-python's decoder, which also read them for the other side."""
    logged = [Record(NOW, b"k", None), Record(NOW - 5, None, b""), Record(-1, b"", b"v")]
    found = read(a_message_set(logged, at=40, deltas=[0, 3, 4], magic=magic, codec=codec))
    times = [NOW, NOW - 5, -1] if magic else [-1] * 3
    assert [tuple(record[:4]) for record in found] == [
        (40, times[0], b"k", None),
        (43, times[1], None, b""),
        (44, times[2], b"", b"v"),
    ]


@pytest.mark.parametrize("codec", range(4))
def test_consumers_keep_the_append_time_that_they_saw(codec: int) -> None:
    logged = [Record(1), Record(2)]
    found = read(a_message_set(logged, magic=1, codec=codec, append_time=NOW))
    assert [record.timestamp for record in found] == [NOW, NOW]


def test_uncompressed_messages_in_a_row_are_one_batch_up_to_a_size() -> None:
    log = a_message_set([Record(value=b"x" * 1_000)] * 1_200, magic=0)
    batches = list(split_batches(log))
    assert sum(batch.header.records for batch in batches) == 1_200
    assert len(batches) == 3


@kinds
def test_they_arrive_as_dense_v2_batches_and_count_as_old(magic: int, codec: int) -> None:
    log = a_message_set([Record()] * 4, at=6, deltas=[0, 1, 2, 5], magic=magic, codec=codec)
    [converted] = converted_batches(log, AbortFilter(()), 7, 12, TopicLimits())
    assert converted.runs == ((7, 2), (11, 1))
    assert converted.rebuilt == {Rebuilt.OLD_FORMAT: 1}
    assert converted.batch
    assert converted.batch.header.records == converted.batch.header.last_offset_delta + 1 == 3


@kinds
def test_every_flipped_bit_after_the_offset_is_seen(magic: int, codec: int) -> None:
    log = a_message_set([Record(), Record()], magic=magic, codec=codec)
    last = len(messages_of(log)[0])
    for byte in range(8, last):
        changed = bytearray(log)
        changed[byte] ^= 1
        try:
            found = list(split_batches(bytes(changed)))
        except MalformedBatch:
            continue
        assert not found or not found[0].crc_matches, byte


@pytest.mark.parametrize(
    "inner",
    [
        b"",
        b"\0" * 40,
        a_message_set([Record()], magic=0),
        a_message_set([Record()], magic=1, codec=1),
        a_message_set([Record()], magic=1)[:-1],
        a_message_set([Record()] * 2, magic=1, deltas=[1, 0]),
        a_message_set([Record()] * 2, magic=1, deltas=[0, 2**40]),
    ],
    ids=["nothing", "zeros", "v0", "wrapped twice", "cut off", "backwards", "far apart"],
)
def test_a_wrapper_around_anything_but_its_messages_is_malformed(inner: bytes) -> None:
    carrier = a_message_set([Record(NOW, None, compress(inner, 1))], magic=1, at=5)
    wrapper = with_message_crc(carrier[:17] + b"\1" + carrier[18:])
    with pytest.raises(MalformedBatch):
        list(split_batches(wrapper))


def test_a_set_is_not_opened_beyond_64_mebibytes() -> None:
    carrier = a_message_set([Record(NOW, None, compress(bytes(2**26 + 1), 1))], magic=1)
    with pytest.raises(MalformedBatch, match="more than 67108864 bytes"):
        list(split_batches(with_message_crc(carrier[:17] + b"\1" + carrier[18:])))


@pytest.mark.parametrize("codec", [4, 5, 6, 7])
def test_a_codec_that_the_old_formats_do_not_have_is_malformed(codec: int) -> None:
    plain = a_message_set([Record()], magic=1)
    with pytest.raises(MalformedBatch, match="codec"):
        list(split_batches(with_message_crc(plain[:17] + bytes([codec]) + plain[18:])))


@examples(300)
@given(
    data=st.data(),
    magic=st.integers(0, 1),
    codec=st.integers(0, 3),
    fix_crc=st.booleans(),
)
def test_changed_messages_are_batches_or_malformed(
    data: st.DataObject, magic: int, codec: int, fix_crc: bool
) -> None:
    changed = bytearray(a_message_set([Record()] * 3, magic=magic, codec=codec))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at : at + data.draw(st.integers(0, 1))] = data.draw(st.binary(max_size=2))
    if fix_crc and len(changed) > 16:
        changed[8:12] = (len(changed) - 12).to_bytes(4)
        changed = bytearray(with_message_crc(bytes(changed)))
    with suppress(MalformedBatch):
        for batch in split_batches(bytes(changed)):
            if batch.crc_matches:
                consumed(batch.encode())


@examples(150)
@given(st.binary(max_size=60), st.integers(0, 1), st.integers(0, 7))
def test_any_message_under_a_right_crc_is_a_batch_or_malformed(
    content: bytes, magic: int, codec: int
) -> None:
    message = bytes(8) + (6 + len(content)).to_bytes(4) + bytes([0, 0, 0, 0, magic, codec])
    with suppress(MalformedBatch):
        list(split_batches(with_message_crc(message + content)))
