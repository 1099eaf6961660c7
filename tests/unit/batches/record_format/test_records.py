import random
import tracemalloc
from itertools import pairwise

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import Batch, MalformedBatch, single_record, split_batches
from kafka_ferry.batches.record_format import records as records_module
from kafka_ferry.batches.record_format.codecs import TooLarge
from kafka_ferry.batches.record_format.records import (
    dense_batch,
    each_record,
    fitting_batches,
    read_records,
    runs_of,
    stream_records,
)
from tests.support.examples import examples
from tests.support.records import batches as build
from tests.support.records.batches import CODECS, NOW, Record, a_batch, as_consumed, consumed


def the_batch(encoded: bytes) -> Batch:
    [batch] = split_batches(encoded)
    return batch


def rewritten(encoded: bytes) -> Batch:
    batch = the_batch(encoded)
    return dense_batch(read_records(batch), batch.header.codec)


# Sizes and distances at which a number takes another byte, where the fast path ends.
far_apart = st.sampled_from([0, 1, 63, 64, 127, 128, 8_191, 8_192, 16_383, 16_384, 2_097_152])
times = st.integers(-(2**41), 2**45) | far_apart.map(lambda ms: NOW + ms)
sizes = st.sampled_from([0, 1, 50, 52, 110, 130, 8_170, 8_190, 16_370, 16_390])


@examples(150)
@given(
    logged=st.dictionaries(
        st.integers(0, 20) | far_apart,
        build.records
        | st.builds(Record, timestamp=times, value=sizes.map(lambda size: b"x" * size)),
        min_size=1,
        max_size=6,
    ),
    codec=build.codecs,
    at=st.integers(0, 2**60),
    append_time=st.none() | st.integers(-1, 2**45),
    base_timestamp=st.none() | st.integers(0, 2**45),
)
def test_a_batch_rewritten_holds_the_records_as_consumers_saw_them(
    logged: dict[int, Record],
    codec: int,
    at: int,
    append_time: int | None,
    base_timestamp: int | None,
) -> None:
    kept = dict(sorted(logged.items()))
    source = a_batch(
        list(kept.values()),
        at=at,
        deltas=list(kept),
        codec=codec,
        append_time=append_time,
        base_timestamp=base_timestamp,
    )

    batch = rewritten(source)

    seen = consumed(source)
    assert [record[0] for record in read_records(the_batch(source))] == [at + d for d in kept]
    assert batch.crc_matches
    assert batch.header.records == batch.header.last_offset_delta + 1 == len(seen)
    assert batch.header.max_timestamp == max(record.timestamp for record in seen)
    assert consumed(batch.encode()) == as_consumed(
        [Record(*record[1:]) for record in seen], range(len(seen))
    )


def test_more_records_than_any_table_holds_are_numbered_right() -> None:
    source = a_batch([Record(NOW + i, None, b"") for i in range(20_000)])
    assert consumed(rewritten(source).encode()) == consumed(source)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_the_codec_stays(codec: int) -> None:
    assert rewritten(a_batch(100, codec=codec)).header.codec == codec


def test_flags_that_were_the_sources_own_do_not_stay() -> None:
    header = rewritten(a_batch(3, attributes=0x50, producer_id=9)).header
    assert (header.attributes, header.producer_id) == (0, -1)


def test_a_records_attributes_stay() -> None:
    source = a_batch(1)
    payload = bytearray(source[61:])
    payload[1] = 0x7F
    assert rewritten(build.with_payload(source, bytes(payload))).payload == payload


def test_a_zstandard_frame_may_be_long_and_need_not_tell_its_size() -> None:
    """librdkafka and Java write frames as streams, without the size in front."""
    source = a_batch([Record(value=b"x" * 3_000_000), Record()])
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(source[61:])
    batch = rewritten(build.with_payload(source, frame, attributes=4))
    assert consumed(batch.encode()) == consumed(source)


def test_a_zstandard_payload_may_be_several_frames() -> None:
    """RFC 8878, 3.1: decompressing concatenated frames gives the concatenated contents."""
    source = a_batch(2)
    halves = source[61:80], source[80:]
    frames = b"".join(zstandard.ZstdCompressor().compress(half) for half in halves)
    batch = rewritten(build.with_payload(source, frames, attributes=4))
    assert consumed(batch.encode()) == consumed(source)


def test_records_that_cannot_be_read_are_malformed_and_named_by_their_batch() -> None:
    with pytest.raises(MalformedBatch, match="batch at offset 5 that cannot be read"):
        read_records(the_batch(build.with_payload(a_batch(2, at=5), b"garbage")))


def test_a_header_may_have_a_name_that_is_no_utf_8() -> None:
    """Brokers take any bytes for a name, and librdkafka writes any; Java shows them replaced."""
    source = a_batch([Record(headers=(("n?me", b"x"),)), Record()])
    payload = source[61:].replace(b"n?me", b"n\xe9me")
    assert b"n\xe9me" in rewritten(build.with_payload(source, payload)).payload


@given(st.sets(st.integers(0, 40), max_size=30))
def test_runs_are_as_long_as_they_can_be_and_name_each_offset_once(offsets: set[int]) -> None:
    runs = runs_of([(offset, 0, b"", b"") for offset in sorted(offsets)])
    assert [first + i for first, count in runs for i in range(count)] == sorted(offsets)
    assert all(before + count < after for (before, count), (after, _) in pairwise(runs))


@examples(100)
@given(
    values=st.lists(st.binary(max_size=300), min_size=1, max_size=30),
    codec=build.codecs,
    max_bytes=st.integers(1, 1_500),
)
def test_records_are_divided_into_batches_that_fit_or_are_a_single_record(
    values: list[bytes], codec: int, max_bytes: int
) -> None:
    records = [Record(NOW + i, None, value) for i, value in enumerate(values)]
    source = read_records(the_batch(a_batch(records, at=7)))
    pieces = list(fitting_batches(source, codec, max_bytes))
    found = []
    for batch, runs in pieces:
        assert batch.header.size <= max_bytes or batch.header.records == 1
        [(first, count)] = runs
        assert count == batch.header.records
        found += [
            record._replace(offset=first + i) for i, record in enumerate(consumed(batch.encode()))
        ]
    assert found == as_consumed(records, range(7, 7 + len(records)))


def test_a_large_batch_becomes_few_batches_of_about_the_same_size() -> None:
    source = read_records(the_batch(a_batch([Record(value=b"x" * 1_000)] * 100)))
    sizes = [batch.header.size for batch, _ in fitting_batches(source, 0, 60_000)]
    assert len(sizes) == 2
    assert max(sizes) < 1.1 * min(sizes)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_single_record_that_its_producer_has_compressed_more_fits_again(codec: str) -> None:
    chance = random.Random(1)
    value = b" ".join(b"%d" % chance.randrange(5_000) for _ in range(60_000))
    if codec == "zstd":
        value += bytes(2_200_000) + value
    source = read_records(the_batch(a_batch([Record(value=value)])))
    (loose, _), *_ = fitting_batches(source, CODECS[codec], 2**24)
    (tight, runs), *more = fitting_batches(source, CODECS[codec], loose.header.size - 1)

    assert not more
    assert runs == ((0, 1),)
    assert tight.header.size < loose.header.size
    assert tight.crc_matches
    assert consumed(tight.encode())[0].value == value


def test_a_single_record_is_a_gzipped_dense_batch() -> None:
    value = b'{"a": 1}' * 50
    batch = single_record(b"flow", value, NOW)
    assert batch.crc_matches
    assert batch.header.codec == CODECS["gzip"]
    assert len(batch.payload) < len(value)
    assert consumed(batch.encode()) == as_consumed([Record(NOW, b"flow", value)], [0])


def test_a_stream_of_records_may_be_cut_into_chunks_anywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the middle of a number too: gzip's last bytes come as a chunk of their own."""
    batch = the_batch(a_batch([Record(value=b"x" * size) for size in (1, 70, 9_000, 80)]))
    whole = read_records(batch)
    for cut in range(1, len(batch.payload)):
        chunks = batch.payload[:cut], batch.payload[cut:]
        monkeypatch.setattr(records_module, "decompress_chunks", lambda *_, it=chunks: iter(it))
        assert [record for some in stream_records(batch) for record in some] == whole


@pytest.mark.parametrize(
    ("records", "mebibytes"), [(24, 10), (1, 56)], ids=["a mebibyte each", "one of 24 mebibytes"]
)
def test_few_records_are_in_memory_at_a_time(records: int, mebibytes: int) -> None:
    """Of 24 MiB in some kilobytes."""
    value = bytes(24 * 1024 * 1024 // records)
    batch = the_batch(a_batch([Record(value=value)] * records, codec=4))
    tracemalloc.start()
    try:
        assert sum(len(record[3]) for record in each_record(batch)) > 24 * 1024 * 1024
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < mebibytes * 1024 * 1024


@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_records_of_a_chunk_that_no_codec_divides_come_in_pieces(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_module, "_PIECE_BYTES", 1024)
    batch = the_batch(a_batch([Record(value=b"")] * 1_000, codec=CODECS[codec]))
    assert max(map(len, stream_records(batch))) < 200
    assert list(each_record(batch)) == read_records(batch)


def test_bytes_after_the_last_record_are_not_gathered() -> None:
    packed = zstandard.compress(bytes(16 * 1024 * 1024))
    batch = the_batch(build.with_payload(a_batch(0), packed, attributes=CODECS["zstd"]))
    with pytest.raises(MalformedBatch, match="bytes after the last record"):
        list(each_record(batch, 2_000_000))


def test_a_record_that_is_larger_than_wanted_is_not_read_to_its_end() -> None:
    batch = the_batch(a_batch([Record(value=bytes(8 * 1024 * 1024))], codec=4))
    with pytest.raises(TooLarge, match="a record of more than 2000000 bytes"):
        list(each_record(batch, 2_000_000))


def test_a_record_may_be_long_where_its_batch_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some kilobytes of a producer's may unpack to a record of half a gibibyte."""
    monkeypatch.setattr(records_module, "OPENED_AT_ONCE", 1_000_000)
    with pytest.raises(TooLarge, match="a record of more than 2000000 bytes"):
        list(each_record(the_batch(a_batch([Record(value=bytes(2_100_000))], codec=4))))
    for value in (bytes(1_900_000), random.Random(1).randbytes(2_100_000)):
        batch = the_batch(a_batch([Record(value=value)], codec=4))
        assert list(each_record(batch)) == read_records(batch)


def test_a_stream_that_ends_within_a_number_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = the_batch(a_batch([Record(value=b"x" * 70)] * 2))
    second = len(batch.payload) // 2
    monkeypatch.setattr(
        records_module, "decompress_chunks", lambda *_: iter([batch.payload[: second + 1]])
    )
    with pytest.raises(MalformedBatch, match="cut off"):
        list(stream_records(batch))


@given(
    times=st.lists(
        st.sampled_from([-(2**63), -(2**62) - 1, -1, 0, NOW, 2**62, 2**63 - 1]), min_size=1
    )
)
def test_times_further_apart_than_64_bits_wrap_as_clients_read_them(times: list[int]) -> None:
    records = [(offset, ms, b"\0", b"\1\1\0") for offset, ms in enumerate(times)]
    assert [ms for _, ms, _, _ in read_records(dense_batch(records, 0))] == times


def test_a_batch_of_the_source_with_such_times_is_read_as_its_consumers_do() -> None:
    encoded = dense_batch([(0, 2**63 - 1, b"\0", b"\1\1\0"), (1, 5, b"\0", b"\1\1\0")], 0)
    assert [ms for _, ms, _, _ in read_records(encoded)] == [2**63 - 1, 5]
