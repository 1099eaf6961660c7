"""The records that were copied last."""

from __future__ import annotations

from kafka_ferry.batches import Segment
from kafka_ferry.ledger.queries.last_records import (
    LastRecord,
    last_records,
    newest_record_to,
    newest_records,
)
from kafka_ferry.ledger.rows import CopiedPartition
from kafka_ferry.model import TopicPartition
from tests.unit.ledger.entries import a_backfill, a_copied_range, a_run, a_transaction
from tests.unit.ledger.queries.conftest import Ledger

ORDERS, CLICKS, RULED = (
    CopiedPartition(name, f"id of {name}", 0, f"primary.{name}", f"id of primary.{name}")
    for name in ("orders", "clicks", "ruled")
)
ENTRIES = [
    a_run(),
    a_transaction(a_copied_range(0, 10), a_copied_range(0, 5, topic="clicks")),
    a_transaction(a_copied_range(10, 20, segments=(Segment(10, 1010, 3), Segment(15, 1013, 2)))),
    a_transaction(a_copied_range(0, 9, topic="ruled", transform="a rule")),
    a_transaction(a_copied_range(20, 30, records=0, segments=())),
    a_backfill(a_copied_range(0, 5, topic="clicks", segments=(Segment(0, 1005, 5),))),
]


def test_the_newest_ordinary_range_with_records_has_the_last_one(ledger: Ledger) -> None:
    table = ledger(*ENTRIES)
    names = ["primary.orders", "primary.clicks", "primary.ruled"]
    newest = dict(newest_records(table, names))
    assert newest == {ORDERS: 2, CLICKS: 1, RULED: 3}
    assert dict(newest_records(table, names[:1])) == {ORDERS: 2}

    chosen = {(at, partition) for partition, at in newest.items()}
    # What a rule has changed is another record on the target.
    assert last_records(table, chosen) == [
        LastRecord(RULED.source, 8, RULED.target, 1008, is_changed=True),
        LastRecord(ORDERS.source, 16, ORDERS.target, 1014),
        LastRecord(CLICKS.source, 4, CLICKS.target, 1004),
    ]
    assert last_records(table, []) == []


def test_the_newest_range_up_to_a_target_offset_may_be_a_backfills(ledger: Ledger) -> None:
    table = ledger(*ENTRIES, a_transaction(a_copied_range(0, 10)))
    ends = [(ORDERS.target, 1010), (ORDERS.target, 1015), (CLICKS.target, 1010)]
    assert [newest_record_to(table, *end) for end in ends] == [6, 2, 5]
    assert newest_record_to(table, TopicPartition("primary.orders", 1), 1010) is None
