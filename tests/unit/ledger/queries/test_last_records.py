"""The records that were copied last."""

from __future__ import annotations

import pytest

from kafka_ferry.batches import Segment
from kafka_ferry.ledger import CopiedRange
from kafka_ferry.ledger.queries.last_records import (
    CopyEnd,
    LastRecord,
    copy_ends,
    displaced_partitions,
    last_records,
    newest_ranges,
    newest_record_to,
)
from kafka_ferry.ledger.rows import CopiedPartition
from kafka_ferry.model import Topic, TopicPartition
from tests.unit.ledger.entries import (
    a_backfill,
    a_copied_range,
    a_run,
    a_transaction,
    a_verification,
)
from tests.unit.ledger.queries.conftest import Ledger

ORDERS, CLICKS, RULED = (
    CopiedPartition(name, f"id of {name}", 0, f"primary.{name}", f"id of primary.{name}")
    for name in ("orders", "clicks", "ruled")
)
TWO_SEGMENTS = (Segment(10, 1010, 3), Segment(15, 1013, 2))
TO_TEN = (Segment(0, 1000, 10),)
ENTRIES = [
    a_run(),
    a_transaction(a_copied_range(0, 10), a_copied_range(0, 5, topic="clicks")),
    a_transaction(a_copied_range(10, 20, segments=TWO_SEGMENTS)),
    a_transaction(a_copied_range(0, 9, topic="ruled", transform="a rule")),
    a_transaction(a_copied_range(20, 30, records=0, segments=())),
    a_backfill(a_copied_range(0, 5, topic="clicks", segments=(Segment(0, 1005, 5),))),
]


def test_the_newest_ordinary_range_with_records_has_the_last_one(ledger: Ledger) -> None:
    table = ledger(*ENTRIES)
    names = ["primary.orders", "primary.clicks", "primary.ruled"]
    newest = newest_ranges(table, names).with_records
    assert newest == {ORDERS: 2, CLICKS: 1, RULED: 3}
    assert newest_ranges(table, names[:1]).with_records == {ORDERS: 2}

    chosen = {(at, partition) for partition, at in newest.items()}
    # What a rule has changed is another record on the target.
    assert last_records(table, chosen) == [
        LastRecord(RULED.source, 8, RULED.target, 1008, True, (Segment(0, 1000, 9),)),
        LastRecord(ORDERS.source, 16, ORDERS.target, 1014, False, TWO_SEGMENTS),
        LastRecord(CLICKS.source, 4, CLICKS.target, 1004, False, (Segment(0, 1000, 5),)),
    ]
    assert last_records(table, []) == []


@pytest.mark.parametrize(
    ("newest", "empty"),
    [
        (a_copied_range(0, 10), None),
        (a_copied_range(0, 10, last_crc=7), (10, 10, 7, True)),
        (a_copied_range(0, 11, segments=TO_TEN, reasons={"control": 1}), None),
        (
            a_copied_range(0, 11, segments=TO_TEN, reasons={"control": 1}, last_crc=7),
            (10, 11, 7, True),
        ),
        (
            a_copied_range(
                0, 15, segments=TO_TEN, reasons={"aborted": 4, "control": 1}, last_crc=7
            ),
            (10, 15, 7, True),
        ),
        (
            a_copied_range(0, 15, segments=TO_TEN, reasons={"aborted": 4, "filtered": 1}),
            (10, 15, -1, False),
        ),
        (a_copied_range(0, 5, segments=(), reasons={"aborted": 4, "control": 1}), (0, 5, -1, True)),
        (a_copied_range(5, 6, segments=(), reasons={"control": 1}), (5, 6, -1, True)),
    ],
    ids=[
        "records",
        "a known batch",
        "a marker behind them",
        "a known marker",
        "aborted behind",
        "filtered",
        "none",
        "only a marker",
    ],
)
def test_where_the_newest_range_ends(
    ledger: Ledger, newest: CopiedRange, empty: tuple[int, int, int, bool] | None
) -> None:
    before = a_copied_range(0, 0, segments=(), records=0)
    table = ledger(a_transaction(before), a_transaction(newest))
    of_all = newest_ranges(table, ["primary.orders"]).of_all
    assert of_all == {ORDERS: 1}
    expected = [(ORDERS, CopyEnd(ORDERS.source, *empty))] if empty else []
    assert [*copy_ends(table, of_all)] == expected


def test_the_newest_range_up_to_a_target_offset_may_be_a_backfills(ledger: Ledger) -> None:
    table = ledger(*ENTRIES, a_transaction(a_copied_range(0, 10)))
    ends = [(ORDERS.target, 1010), (ORDERS.target, 1015), (CLICKS.target, 1010)]
    assert [newest_record_to(table, *end) for end in ends] == [6, 2, 5]
    assert newest_record_to(table, TopicPartition("primary.orders", 1), 1010) is None


def test_what_is_copied_below_the_end_of_what_is_there_displaces_it(ledger: Ledger) -> None:
    verified, topics = (
        [*ENTRIES, a_verification(len(ENTRIES))],
        [Topic(f"primary.{name}", f"id of primary.{name}", 1) for name in ("orders", "clicks")],
    )
    after = a_copied_range(30, 35, segments=(Segment(30, 1015, 5),))
    below = a_copied_range(30, 35, segments=(Segment(30, 1014, 5),))
    recreated = a_copied_range(30, 35, segments=(Segment(30, 0, 5),), remote_topic_id="another")
    none = a_copied_range(30, 35, records=0, segments=())
    for copied, displaced in ((after, set()), (recreated, set()), (none, set()), (below, {ORDERS})):
        table = ledger(*verified, a_transaction(copied))
        assert displaced_partitions(table, topics) == {it.target for it in displaced}
    # Nor may it begin below the end of one that is not verified either.
    later = a_copied_range(35, 40, segments=(Segment(35, 1019, 5),))
    assert displaced_partitions(
        ledger(*verified, a_transaction(after), a_transaction(later)), topics
    ) == {ORDERS.target}
    # Once a person lets that be, it is the copy.
    table = ledger(*verified, a_transaction(below), a_verification(len(verified) + 1))
    assert not displaced_partitions(table, topics)
