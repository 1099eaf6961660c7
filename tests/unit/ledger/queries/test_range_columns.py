"""Ranges as columns: by where their records are on the target."""

from __future__ import annotations

from kafka_ferry.batches import Segment
from kafka_ferry.ledger.queries.range_columns import range_columns, target_ranges
from kafka_ferry.model import TopicPartition
from tests.unit.ledger.entries import a_backfill, a_copied_range, a_run, a_transaction
from tests.unit.ledger.queries.conftest import Ledger

ORDERS, CLICKS = (TopicPartition(f"primary.{name}", 0) for name in ("orders", "clicks"))
ENTRIES = [
    a_run(),
    a_transaction(a_copied_range(0, 10), a_copied_range(0, 5, topic="clicks", preserved=True)),
    a_backfill(a_copied_range(0, 2, segments=(Segment(0, 90, 1), Segment(1, 95, 1)))),
    a_transaction(a_copied_range(10, 12, records=0, segments=())),
]


def test_each_range_has_the_place_and_the_end_of_its_records(ledger: Ledger) -> None:
    found = target_ranges(ledger(*ENTRIES))
    names = [found.names[number] for number in found.partitions]
    orders, clicks = (ORDERS, "id of primary.orders"), (CLICKS, "id of primary.clicks")
    assert names == [orders, clicks, orders, orders]
    assert found.ledger_offsets.tolist() == [1, 1, 2, 3]
    assert found.target_ends.tolist() == [1010, 1005, 96, -1]
    assert found.source_ends.tolist() == [10, 5, 2, 12]
    assert found.preserved.tolist() == [False, True, False, False]
    assert found.bytes.tolist() == [1000, 500, 200, 200]
    # Where offsets are preserved, it is the range that ends, and not its last record.
    assert found.ends() == {orders: 1010, clicks: 5}


def test_only_some_topics_are_read_and_only_up_to_a_ledger_offset(ledger: Ledger) -> None:
    found = target_ranges(ledger(*ENTRIES), ["primary.orders"], before=3)
    assert found.ledger_offsets.tolist() == [1, 2]
    assert {tp for tp, _ in found.names} == {ORDERS}


def test_an_empty_ledger_has_no_ranges(ledger: Ledger) -> None:
    table = ledger(a_run())
    assert target_ranges(table).names == ()
    assert list(range_columns(table, ["id of orders"], ["id of primary.orders"])) == []


def test_a_partition_that_only_a_backfill_has_written_to_has_no_columns(ledger: Ledger) -> None:
    table = ledger(
        a_transaction(a_copied_range(0, 10)), a_backfill(a_copied_range(0, 2, topic="clicks"))
    )
    topics = ("orders", "clicks")
    ids = [f"id of {name}" for name in topics], [f"id of primary.{name}" for name in topics]
    ((partition, (last, columns)),) = range_columns(table, *ids)
    assert (partition.source, partition.target) == (TopicPartition("orders", 0), ORDERS)
    assert (last, columns.start.tolist(), columns.end.tolist()) == (0, [0], [10])
