import time
import tracemalloc
from contextlib import suppress

import pytest
import snappy
from hypothesis import given
from hypothesis import strategies as st
from kafka import codec as theirs

from kafka_ferry.batches import MalformedBatch
from kafka_ferry.batches.record_format.codecs import compress, decompress, decompress_chunks
from tests.support.examples import examples
from tests.support.records.batches import CODECS, codecs

all_codecs = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
compressing = pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=list(CODECS)[1:])
KAFKA_PYTHONS = {
    0: (bytes, bytes),
    1: (theirs.gzip_encode, theirs.gzip_decode),
    2: (theirs.snappy_encode, theirs.snappy_decode),
    3: (theirs.lz4_encode, theirs.lz4_decode),
    4: (theirs.zstd_encode, theirs.zstd_decode),
}


@examples(100)
@given(
    st.binary(min_size=1, max_size=300)
    | st.binary(min_size=1, max_size=9).map(lambda some: some * 20_000),
    codecs,
)
def test_kafka_python_reads_what_is_compressed_here_and_the_other_way_round(
    plain: bytes, codec: int
) -> None:
    encode, decode = KAFKA_PYTHONS[codec]
    assert decode(compress(plain, codec)) == plain
    assert decompress(encode(plain), codec) == plain


@all_codecs
@pytest.mark.parametrize("size", [0, 1, 2**20 - 1, 2**20, 2**20 + 1, 3_000_000])
def test_any_size_comes_back(codec: int, size: int) -> None:
    assert decompress(compress(bytes(size), codec), codec) == bytes(size)


def test_snappy_is_read_as_a_raw_block_too() -> None:
    """As librdkafka writes it."""
    plain = b"some text " * 10_000
    assert decompress(snappy.compress(plain), 2) == plain


def test_the_version_in_xerials_header_does_not_matter() -> None:
    """Some producers write it in the other byte order (dpkp/kafka-python#2414)."""
    packed = compress(b"some text", 2)
    assert decompress(packed[:8] + b"\1\0\0\0\1\0\0\0" + packed[16:], 2) == b"some text"


@compressing
def test_the_limit_may_be_reached_and_not_passed(codec: int) -> None:
    packed = compress(bytes(100_000), codec)
    assert len(decompress(packed, codec, 100_000)) == 100_000
    with pytest.raises(MalformedBatch):
        decompress(packed, codec, 99_999)


@compressing
def test_a_bomb_takes_little_memory_beyond_the_limit(codec: int) -> None:
    packed = compress(bytes(64_000_000), codec)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedBatch):
            decompress(packed, codec, 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", [1, 2, 4])
@pytest.mark.parametrize("streams", [2, 65, 1_000])
def test_a_payload_may_be_several_streams(codec: int, streams: int) -> None:
    packed = compress(b"some text", codec) * streams
    assert decompress(packed, codec) == b"some text" * streams


def test_of_lz4_the_first_frame_counts_as_in_java() -> None:
    assert decompress(compress(b"some ", 3) + compress(b"text", 3), 3) == b"some "


@pytest.mark.parametrize("codec", [1, 2, 4])
def test_a_great_many_streams_take_little_time(codec: int) -> None:
    began = time.monotonic()
    assert decompress(compress(b"", codec) * 20_000, codec) == b""
    assert time.monotonic() - began < 10


@compressing
@pytest.mark.parametrize("size", [0, 1, 2**20, 2**20 + 1, 5 * 2**20])
def test_chunks_are_all_of_it_and_none_is_large(codec: int, size: int) -> None:
    packed = compress(bytes(size), codec)
    chunks = list(decompress_chunks(packed, codec))
    assert b"".join(chunks) == bytes(size)
    assert max(map(len, chunks), default=0) <= 2**20


@pytest.mark.parametrize("promised", [2**20, 2**31, 2**34])
def test_a_snappy_block_is_not_believed(promised: int) -> None:
    length = b""
    while promised > 0x7F:
        length += bytes([promised & 0x7F | 0x80])
        promised >>= 7
    with pytest.raises(MalformedBatch, match="promises"):
        decompress(length + bytes([promised]) + b"\0a" * 20, 2)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_kafka_does_not_have_is_malformed(codec: int) -> None:
    with pytest.raises(MalformedBatch, match="codec"):
        decompress(b"", codec)


@examples(400)
@given(st.data(), codecs, st.binary(max_size=40) | st.just(b"some text " * 50))
def test_changed_bytes_are_decompressed_or_malformed(
    data: st.DataObject, codec: int, plain: bytes
) -> None:
    packed = bytearray(compress(plain, codec))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(packed)))
        packed[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    with suppress(MalformedBatch):
        assert len(decompress(bytes(packed), codec, 10_000)) <= 10_000


@compressing
def test_what_is_compressed_keeps_no_more_memory_than_its_bytes(codec: int) -> None:
    plain = bytes(1024 * 1024)
    tracemalloc.start()
    try:
        packed = compress(plain, codec)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2 * len(packed) + 10_000
