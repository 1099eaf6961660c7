"""How many of the offsets that an answer covers have a record."""

from __future__ import annotations

import pytest

from kafka_ferry.batches import AbortedTransaction
from kafka_ferry.model import TopicPartition
from kafka_ferry.runs.plan.log_density import _Sample
from kafka_ferry.wire import Fetched
from tests.support.records.batches import a_batch, a_marker, an_empty_batch, with_header

P0 = TopicPartition("orders", 0)
PLAIN = a_batch(10, at=0)
SPARSE = a_batch(5, at=10, deltas=(0, 2, 4, 6, 9))
ABORTED = a_batch(4, at=20, producer_id=7, transactional=True, producer_epoch=0)
ABORT = a_marker(at=24, producer_id=7, commit=False)
COMMITTED = a_batch(4, at=25, producer_id=7, transactional=True, producer_epoch=0)
COMMIT = a_marker(at=29, producer_id=7, commit=True)
EMPTY = an_empty_batch(at=30, last_offset_delta=9)
LOG = PLAIN + SPARSE + ABORTED + ABORT + COMMITTED + COMMIT + EMPTY


def seen(records: bytes, at: int = 0, end: int = 1000) -> tuple[float, int, int]:
    """Records, offsets, and up to where, of one answer for the offset ``at``."""
    sample = _Sample(0, end, 0)
    aborted = (AbortedTransaction(7, 20),)
    sample.add(Fetched(P0, records, aborted, 1000, 0, True), at)
    return sample.records, sample.offsets, sample.seen_to


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (PLAIN, (10, 10, 10)),
        (PLAIN + SPARSE, (15, 20, 20)),
        (LOG, (19, 40, 40)),
        (LOG[:-1], (19, 30, 30)),
        (b"", (0, 0, 0)),
        (PLAIN[:-1], (10, 10, 10)),
        (PLAIN + SPARSE[:61], (15, 20, 20)),
        (PLAIN + SPARSE[:60], (10, 10, 10)),
        (LOG[: -len(EMPTY) - 1], (19, 29, 29)),
        (SPARSE, (5, 20, 20)),
        (PLAIN + b"\0" * 40, (10, 10, 10)),
        (PLAIN + with_header(SPARSE, count=-1)[:-1], (10, 10, 10)),
    ],
    ids=[
        *("plain", "compacted", "all", "less than a header", "nothing", "all but a byte"),
        *("its header", "less than that", "a marker that is cut off", "a hole before", "no batch"),
        "a negative count",
    ],
)
def test_data_that_was_not_aborted_counts_and_offsets_between(
    records: bytes, expected: tuple[float, int, int]
) -> None:
    assert seen(records) == expected


def test_only_what_was_asked_for_counts() -> None:
    assert seen(PLAIN, at=4, end=8) == (4, 4, 8)
    assert seen(LOG, at=25, end=30) == (4, 5, 30)


def test_an_answer_without_records_says_nothing() -> None:
    assert seen(b"") == (0, 0, 0)


def test_what_was_seen_is_not_looked_at_again() -> None:
    sample = _Sample(100, 300, 100)
    assert [sample.place(share) for share in (0, 0.5, 0.9)] == [100, 200, 280]
    sample.seen_to = 250
    assert [sample.place(share) for share in (0, 0.5, 0.9)] == [250, 250, 280]
