import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import util

from kafka_ferry.batches.record_format.header import MalformedBatch
from kafka_ferry.batches.record_format.varint import (
    SMALL,
    decode_varint,
    decode_varlong,
    encode_varint,
)

int64 = st.integers(-(2**63), 2**63 - 1)


@given(int64 | st.integers(0, 62).map(lambda bits: 2**bits))
def test_a_number_is_written_as_kafka_python_writes_it_and_read_back(value: int) -> None:
    theirs = bytearray()
    util.encode_varint(value, theirs.append)
    assert encode_varint(value) == theirs
    assert decode_varlong(b"." + bytes(theirs) + b".", 1) == (value, 1 + len(theirs))
    if -(2**31) <= value < 2**31:
        assert decode_varint(b"." + bytes(theirs) + b".", 1) == (value, 1 + len(theirs))


def test_small_numbers_are_ready_made() -> None:
    assert all(decode_varint(SMALL[value], 0)[0] == value for value in (0, 63, 64, len(SMALL) - 1))


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_a_number_of_more_than_64_bits_is_not_written(value: int) -> None:
    with pytest.raises(MalformedBatch):
        encode_varint(value)


@pytest.mark.parametrize("encoded", [b"", b"\x80", b"\xff" * 4, b"\xff" * 10 + b"\1"])
def test_bytes_that_end_within_a_number_or_after_too_many_are_malformed(encoded: bytes) -> None:
    for decode in (decode_varint, decode_varlong):
        with pytest.raises(MalformedBatch):
            decode(encoded, 0)


def test_bits_for_which_a_number_has_no_room_are_dropped_as_java_drops_them() -> None:
    assert decode_varint(b"\x82\x80\x80\x80\x70", 0) == (1, 5)
    assert decode_varint(b"\x81\x80\x80\x80\x10", 0) == (-1, 5)
    assert decode_varlong(b"\x82" + b"\x80" * 8 + b"\x7e", 0) == (1, 10)
    with pytest.raises(MalformedBatch):
        decode_varint(b"\x82" + b"\x80" * 8 + b"\1", 0)
