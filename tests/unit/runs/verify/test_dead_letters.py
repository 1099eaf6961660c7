"""What counts as a dead letter that the dead letter topic has, has no more, or never had."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping

import pytest

from kafka_ferry.batches import AbortFilter, Segment, converted_batches
from kafka_ferry.ledger import LedgerRange
from kafka_ferry.runs.verify.dead_letters import Coordinates, _letters, find_letters
from kafka_ferry.verify.rows import DeadLetters
from tests.support.records.batches import Record, a_batch
from tests.unit.ledger.entries import a_copied_range

# The records 3, 4 and 9 of orders-1 went to the offsets 20, 21 and 30.
ENTRY = LedgerRange(
    7,
    "run-1",
    a_copied_range(
        0, 10, topic="orders", partition=1, letters=(Segment(3, 20, 2), Segment(9, 30, 1))
    ),
)


def of(offset: int, partition: bytes = b"1") -> Coordinates:
    return b"orders", partition, str(offset).encode()


ALL = {20: of(3), 21: of(4), 30: of(9)}


@pytest.mark.parametrize(
    ("start", "there", "found"),
    [
        (0, ALL, DeadLetters()),
        (0, {}, DeadLetters(3)),
        (0, ALL | {21: of(5)}, DeadLetters(1)),
        (0, ALL | {30: of(9, b"2")}, DeadLetters(1)),
        (0, ALL | {20: (None, None, None)}, DeadLetters(1)),
        (21, {21: of(4), 30: of(9)}, DeadLetters(0, 1)),
        (31, {}, DeadLetters(0, 3)),
    ],
)
def test_a_letter_is_there_if_it_is_of_that_record(
    start: int, there: Mapping[int, Coordinates], found: DeadLetters
) -> None:
    assert find_letters(ENTRY, start, there) == found


def test_a_letter_of_very_many_headers_is_read_without_all_of_them_in_memory() -> None:
    own = [("ferry.topic", b"orders"), ("ferry.partition", b"1"), ("ferry.offset", b"3")]
    headers = [("ferry.offset", b"9"), *[(f"{at}", b"value") for at in range(30_000)], *own]
    log = a_batch([Record(value=b"v", headers=headers)], at=20)
    [converted] = converted_batches(log, AbortFilter(()), 20, 21)
    batch = converted.batch
    assert batch
    tracemalloc.start()
    try:
        assert dict(_letters(batch)) == {20: of(3)}
        assert tracemalloc.get_traced_memory()[1] < 3 * len(batch.payload)
    finally:
        tracemalloc.stop()
