import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import MalformedBatch, split_batches
from tests.support.examples import examples
from tests.support.records import batches as build
from tests.support.records.batches import Record, a_batch, a_message_set, consumed

INT32 = 2**31 - 1


@examples(60)
@given(counts=st.lists(st.integers(1, 3), max_size=5), cut=st.integers(0, 200))
def test_the_batches_of_a_response_come_in_order_without_the_one_that_is_cut_off(
    counts: list[int], cut: int
) -> None:
    logged = [a_batch(count, at=10 * i) for i, count in enumerate(counts)]
    whole, last = b"".join(logged), a_batch(3, at=900)
    cut = min(cut, len(last) - 1)
    found = [batch.encode() for batch in split_batches(whole + last[:cut])]
    assert found == logged


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ({"length": -1}, "a batch of 11 bytes"),
        ({"length": -(2**31)}, "bytes at byte 0"),
        ({"length": 0}, "a batch of 12 bytes"),
        ({"length": 4}, "a batch of 16 bytes"),
        ({"length": 40}, "shorter than its header"),
        ({"length": 48}, "a batch of 60 bytes"),
        ({"magic": 0}, "CRC of the message"),
        ({"magic": 1}, "CRC of the message"),
        ({"magic": 3}, "message format v3"),
        ({"count": -1}, "negative"),
        ({"last_offset_delta": -1}, "negative"),
        ({"base_offset": -1}, "negative"),
    ],
)
def test_what_no_broker_writes_is_malformed(header: dict[str, int], why: str) -> None:
    with pytest.raises(MalformedBatch, match=why):
        list(split_batches(build.with_header(a_batch(2), **header)))


@pytest.mark.parametrize("epoch", [-2, -(2**31)])
def test_a_leader_epoch_below_zero_is_one_that_is_not_known(epoch: int) -> None:
    """No checksum covers it, and consumers do not look at it."""
    (batch,) = split_batches(build.with_header(a_batch(2), leader_epoch=epoch))
    assert batch.header.leader_epoch == -1
    assert batch.crc_matches


@pytest.mark.parametrize("size", [13, 16, 17, 60])
def test_a_length_of_nothing_is_malformed_however_little_follows(size: int) -> None:
    with pytest.raises(MalformedBatch, match="a batch of 12 bytes"):
        list(split_batches(bytes(size)))


def test_what_came_before_a_malformed_batch_is_given_out() -> None:
    good = a_batch(2)
    found = split_batches(good + build.with_header(a_batch(2, at=2), magic=3))
    assert next(found).encode() == good
    with pytest.raises(MalformedBatch, match=f"at byte {len(good)}"):
        next(found)


@pytest.mark.parametrize("field", ["length", "count", "last_offset_delta"])
def test_an_absurd_number_in_a_header_takes_no_memory(field: str) -> None:
    batch = build.with_header(a_batch(1), **{field: INT32})
    tracemalloc.start()
    try:
        list(split_batches(batch))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@examples(200)
@given(st.binary(max_size=200))
def test_any_bytes_are_batches_or_malformed(some: bytes) -> None:
    try:
        found = list(split_batches(some))
    except MalformedBatch:
        return
    assert all(batch.stored_format == 2 for batch in found)  # no CRC-32 is right by chance
    assert b"".join(batch.encode() for batch in found) == some[: sum(b.header.size for b in found)]


def test_a_batch_after_which_an_earlier_one_comes_is_malformed() -> None:
    """The base offset is not under the CRC; that brokers' logs ascend is what there is to check."""
    with pytest.raises(MalformedBatch, match="offset 1 after offset 4"):
        list(split_batches(a_batch(2, at=3) + a_batch(2, at=1)))


def test_message_formats_may_be_mixed() -> None:
    old = [Record(5, b"k", b"v"), Record(6, None, b"w")]
    log = a_message_set(old, at=3, magic=0) + a_message_set(old, at=5, codec=1) + a_batch(2, at=7)
    found = list(split_batches(log + a_message_set(old, at=9)[:-1]))
    assert [batch.stored_format for batch in found] == [0, 1, 2, 1]
    assert [record.offset for batch in found for record in consumed(batch.encode())] == [
        *range(3, 10)
    ]
