from itertools import pairwise

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_ferry.batches import Batch, MalformedBatch, single_record, split_batches
from kafka_ferry.batches.records import rebuild
from tests.support import batches as build
from tests.support.batches import CODECS, NOW, Record, a_batch, as_consumed, consumed


def the_batch(encoded: bytes) -> Batch:
    [batch] = split_batches(encoded)
    return batch


@settings(max_examples=100)
@given(
    logged=st.dictionaries(st.integers(0, 20), build.records, min_size=1, max_size=6),
    codec=build.codecs,
    at=st.integers(0, 2**60),
    edges=st.tuples(st.integers(0, 22), st.integers(0, 22)).map(sorted),
    append_time=st.none() | st.integers(-1, 2**45),
    base_timestamp=st.none() | st.integers(0, 2**45),
)
def test_a_rebuilt_batch_holds_the_records_of_the_interval_as_consumers_saw_them(
    logged: dict[int, Record],
    codec: int,
    at: int,
    edges: list[int],
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
    start, end = at + edges[0], at + edges[1]

    dense, runs = rebuild(the_batch(source), start, end)

    wanted = [record for record in consumed(source) if start <= record.offset < end]
    assert [first + i for first, count in runs for i in range(count)] == [
        record.offset for record in wanted
    ]
    assert all(before + count < after for (before, count), (after, _) in pairwise(runs))
    assert (dense is None) == (not wanted)
    if dense:
        assert dense.crc_matches
        assert dense.header.records == dense.header.last_offset_delta + 1 == len(wanted)
        assert consumed(dense.encode()) == as_consumed(
            [Record(*record[1:]) for record in wanted], range(len(wanted))
        )


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_the_codec_stays(codec: int) -> None:
    dense, _ = rebuild(the_batch(a_batch(100, codec=codec)), 0, 99)
    assert dense
    assert dense.header.codec == codec


def test_flags_that_were_the_sources_own_do_not_stay() -> None:
    dense, _ = rebuild(the_batch(a_batch(3, attributes=0x50, producer_id=9)), 0, 2)
    assert dense
    assert dense.header.attributes == 0
    assert dense.header.producer_id == -1


def test_a_zstandard_frame_may_be_long_and_need_not_tell_its_size() -> None:
    """librdkafka and Java write frames as streams, without the size in front."""
    logged = [Record(value=b"x" * 3_000_000), Record()]
    source = a_batch(logged)
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(source[61:])
    batch = the_batch(build.with_payload(source, frame, attributes=4))
    dense, _ = rebuild(batch, 0, 1)
    assert dense
    assert consumed(dense.encode()) == as_consumed(logged[:1], [0])


def test_a_zstandard_payload_may_be_several_frames() -> None:
    """RFC 8878, 3.1: decompressing concatenated frames gives the concatenated contents."""
    source = a_batch(2)
    halves = source[61:80], source[80:]
    frames = b"".join(zstandard.ZstdCompressor().compress(half) for half in halves)
    dense, runs = rebuild(the_batch(build.with_payload(source, frames, attributes=4)), 0, 2)
    assert dense
    assert runs == ((0, 2),)
    assert consumed(dense.encode()) == consumed(source)


def test_records_that_cannot_be_read_are_malformed() -> None:
    with pytest.raises(MalformedBatch, match="records that cannot be read"):
        rebuild(the_batch(build.with_payload(a_batch(2), b"garbage")), 0, 1)


def test_a_header_may_have_a_name_that_is_no_utf_8() -> None:
    """Brokers take any bytes for a name, and librdkafka writes any; Java shows them replaced."""
    source = a_batch([Record(headers=(("n?me", b"x"),)), Record()])
    payload = source[61:].replace(b"n?me", b"n\xe9me")
    dense, runs = rebuild(the_batch(build.with_payload(source, payload)), 0, 1)
    assert dense
    assert runs == ((0, 1),)
    assert b"n\xe9me" in dense.payload


def test_a_single_record_is_a_gzipped_dense_batch() -> None:
    value = b'{"a": 1}' * 50
    batch = single_record(b"flow", value, NOW)
    assert batch.crc_matches
    assert batch.header.codec == CODECS["gzip"]
    assert len(batch.payload) < len(value)
    assert consumed(batch.encode()) == as_consumed([Record(NOW, b"flow", value)], [0])
