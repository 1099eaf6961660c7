import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from kafka_ferry.batches import (
    TopicLimits,
    empty_batch,
    empty_batches,
    for_producer,
    is_empty_batch,
    single_record,
)
from kafka_ferry.batches.record_format.codecs import GZIP, LZ4, NONE, ZSTD
from tests.support.examples import examples
from tests.support.records.batches import NOW, Record, as_consumed, consumed

EMPTY = Record(timestamp=-1, key=b"", value=None)
DEFAULT = 1_048_588


# Where a delta's varint takes another byte, and where a block of the same lowest bytes ends.
@pytest.mark.parametrize(
    "records", [1, 2, 63, 64, 65, 8_191, 8_192, 8_193, 16_383, 16_384, 16_385, 30_000]
)
def test_an_empty_batch_holds_so_many_empty_records(records: int) -> None:
    batch = empty_batch(records)
    header = batch.header
    assert batch.crc_matches
    assert (header.records, header.last_offset_delta) == (records, records - 1)
    assert (header.base_timestamp, header.max_timestamp, header.attributes) == (-1, -1, ZSTD)
    assert consumed(batch.encode()) == as_consumed([EMPTY] * records, range(records))


def test_more_records_than_three_bytes_number_are_numbered_right() -> None:
    records = 2**20 + 70
    at = 0
    for at, record in enumerate(DefaultRecordBatch(empty_batch(records).encode())):
        assert record.offset == at
    assert at == records - 1


def test_a_million_of_them_fit_in_a_batch_and_are_made_in_no_time() -> None:
    empty_batch.cache_clear()
    begun = time.process_time()
    batch = empty_batch(1_000_000)
    assert time.process_time() - begun < 2
    assert batch.header.size < DEFAULT
    assert empty_batch(1_000_000) is batch


def test_any_topic_takes_them_whatever_keys_and_times_it_asks_for() -> None:
    sent = for_producer(empty_batch(3), producer_id=1, epoch=0, sequence=0, transactional=False)
    strict = TopicLimits(keys_required=True, before_max_ms=0, after_max_ms=0)
    for record in consumed(sent):
        assert record.key is not None
        assert strict.takes(record.timestamp, NOW)


@examples(50)
@given(records=st.integers(1, 5_000), codec=st.none() | st.sampled_from([NONE, GZIP, LZ4, ZSTD]))
def test_as_many_as_are_asked_for_come_in_batches_of_the_codec_that_the_topic_pins(
    records: int, codec: int | None
) -> None:
    batches = list(empty_batches(records, TopicLimits(codec=codec, max_batch_bytes=8_000)))
    assert sum(batch.header.records for batch in batches) == records
    assert {batch.header.codec for batch in batches} == {ZSTD if codec is None else codec}
    assert all(batch.header.size <= 8_000 for batch in batches)


@pytest.mark.parametrize(("codec", "batches"), [(None, 3), (ZSTD, 3), (GZIP, 5), (LZ4, 10)])
def test_few_batches_do_by_default(codec: int | None, batches: int) -> None:
    sizes = [batch.header.size for batch in empty_batches(2_500_000, TopicLimits(codec=codec))]
    assert len(sizes) == batches
    assert max(sizes) <= DEFAULT


@pytest.mark.parametrize("codec", [NONE, GZIP, LZ4, ZSTD])
def test_they_are_known_from_any_other_batch(codec: int) -> None:
    assert is_empty_batch(empty_batch(3, codec))
    for key, value, timestamp in (
        (b"", None, 0),
        (b"", b"", -1),
        (None, None, -1),
        (b"k", None, -1),
    ):
        assert not is_empty_batch(single_record(key, value, timestamp))


def test_none_are_none() -> None:
    assert list(empty_batches(0, TopicLimits())) == []
