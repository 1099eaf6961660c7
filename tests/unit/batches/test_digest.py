import struct
from itertools import permutations

import pytest

from kafka_ferry.batches import Batch, RangeDigest, for_producer, split_batches
from tests.support.records.batches import NOW, Record, a_batch, with_header, with_payload


def the_batch(encoded: bytes) -> Batch:
    [batch] = split_batches(encoded)
    return batch


def digest_of(*batches: bytes) -> str:
    digest = RangeDigest()
    for encoded in batches:
        digest.add(the_batch(encoded))
    return digest.hexdigest()


SENT = a_batch(3, codec=1)


def test_a_digest_is_128_bits_that_never_change() -> None:
    """Fixed values: ledgers hold such digests."""
    assert digest_of() == "99aa06d3014798d86001c324468d497f"
    assert digest_of(a_batch([Record(NOW, b"k", b"v")])) == "f967ef8ed51e9c0d920ede668fdee589"


def test_what_the_target_gives_back_has_the_digest_of_what_was_sent() -> None:
    batch = the_batch(SENT)
    ours = for_producer(batch, producer_id=4, epoch=5, sequence=6)
    stored = with_header(ours, base_offset=700, leader_epoch=8, max_timestamp=NOW + 9)
    assert digest_of(stored) == digest_of(ours) == digest_of(SENT)


@pytest.mark.parametrize(
    "other",
    [
        a_batch(3),
        a_batch(2, codec=1),
        a_batch([Record(NOW, b"key 0", b"value X")] * 3, codec=1),
        with_header(SENT, attributes=2),
        with_header(SENT, attributes=9),
        with_header(SENT, count=2),
        with_header(SENT, base_timestamp=NOW + 1),
        SENT[:-1] + bytes([SENT[-1] ^ 1]),
    ],
    ids=[
        "codec",
        "records",
        "values",
        "codec bits",
        "time by the broker",
        "count",
        "base timestamp",
        "a bit",
    ],
)
def test_every_difference_that_a_consumer_could_see_shows(other: bytes) -> None:
    assert digest_of(other) != digest_of(SENT)


def test_the_order_and_the_number_of_batches_count() -> None:
    batches = [a_batch(1), a_batch(2), a_batch(3)]
    digests = {digest_of(*order) for order in permutations(batches)}
    digests |= {digest_of(*batches[:count]) for count in range(3)}
    digests.add(digest_of(*batches, batches[-1]))
    assert len(digests) == 6 + 3 + 1


def test_a_border_between_batches_cannot_move_unseen() -> None:
    """One batch whose bytes are those of two, lead included, is still another one."""
    first, second = a_batch(1), a_batch(1)
    lead = struct.pack(">biqi", 0, 1, NOW, len(second[61:]))
    joined = with_payload(first, first[61:] + lead + second[61:])
    assert digest_of(joined) != digest_of(first, second)
