from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.batches import Segment
from kafka_ferry.config import Cluster
from kafka_ferry.groups.routes import Route, routes
from kafka_ferry.groups.translation import Translation
from kafka_ferry.ledger import CopiedRange, LedgerTable
from kafka_ferry.ledger.record import Entry
from kafka_ferry.model import TopicPartition
from kafka_ferry.state import StateFolder
from tests.unit.ledger.entries import (
    FLOW,
    a_backfill,
    a_copied_range,
    a_release,
    a_run,
    a_transaction,
    a_verification,
)

ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 3)
TOPICS = {"orders": "id of orders", "payments": "id of payments"}
REMOTE = {"primary.orders": "id of primary.orders", "primary.payments": "id of primary.payments"}
BACK = "backup->primary"
Ledger = Callable[..., LedgerTable]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Makes the table of a ledger that holds these entries, at every other offset."""

    numbers = count()

    def made(*entries: Entry, flow: str = FLOW) -> LedgerTable:
        def read(_: Cluster, __: str, start: int) -> Iterator[tuple[int, Entry]]:
            return iter([(2 * at, entry) for at, entry in enumerate(entries) if 2 * at >= start])

        monkeypatch.setattr("kafka_ferry.ledger.projection.read_ledger", read)
        table = LedgerTable(StateFolder(str(tmp_path)).folder(str(next(numbers))), flow)
        table.project(Cluster(alias="backup", properties={"bootstrap.servers": "t:1"}), "topic")
        return table

    return made


def spans(found: dict[TopicPartition, Route]) -> dict[TopicPartition, tuple[int, int]]:
    return {tp: (route.map.start, route.map.end) for tp, route in found.items()}


def payments(start: int, end: int, **more: Any) -> CopiedRange:
    return a_copied_range(start, end, topic="payments", partition=3, **more)


def test_each_partition_has_a_route_with_the_ranges_of_all_its_transactions(ledger: Ledger) -> None:
    table = ledger(
        a_run(),
        a_transaction(a_copied_range(0, 10), payments(5, 8)),
        a_transaction(payments(8, 9)),
        a_transaction(a_copied_range(10, 20, segments=(Segment(12, 1020, 8),), records=8)),
    )

    found = routes(table, TOPICS, REMOTE)

    assert spans(found) == {ORDERS: (0, 20), PAYMENTS: (5, 9)}
    orders = found[ORDERS]
    assert (orders.source, orders.target) == (ORDERS, TopicPartition("primary.orders", 0))
    assert (orders.remote_topic_id, orders.preserved) == ("id of primary.orders", False)
    assert [orders.map.translate(at) for at in (9, 10, 13)] == [
        (1009, "exact"),
        (1020, "gap"),
        (1021, "exact"),
    ]
    assert found[PAYMENTS].map.translate(8) == (1008, "exact")


def test_no_route_goes_from_or_to_a_topic_that_is_not_there_any_more(ledger: Ledger) -> None:
    table = ledger(
        a_transaction(a_copied_range(0, 10, topic_id="the one before")),
        a_transaction(a_copied_range(0, 7), payments(0, 3, remote_topic_id="the one before")),
    )

    assert spans(routes(table, TOPICS, REMOTE)) == {ORDERS: (0, 7)}
    assert routes(table, {}, REMOTE) == {}
    assert routes(table, TOPICS, {}) == {}
    # The ids are there, and are other topics'.
    assert routes(table, {"orders": "id of payments", "payments": "id of orders"}, REMOTE) == {}


def test_what_the_flow_has_given_up_counts_no_more(ledger: Ledger) -> None:
    table = ledger(a_transaction(a_copied_range(), payments(0, 3)), a_release("primary.orders"))

    assert spans(routes(table, TOPICS, REMOTE)) == {PAYMENTS: (0, 3)}


def test_only_what_the_ledger_has_before_an_offset_is_translated(ledger: Ledger) -> None:
    table = ledger(
        a_transaction(a_copied_range(0, 10)),
        a_verification(2),
        a_transaction(a_copied_range(10, 20)),
    )

    verified = routes(table, TOPICS, REMOTE, before=table.verified_through())

    assert spans(verified) == {ORDERS: (0, 10)}
    assert verified[ORDERS].map.translate(15) == (1010, "clamped")


def test_topics_can_be_chosen(ledger: Ledger) -> None:
    table = ledger(a_transaction(a_copied_range(), payments(0, 3)))

    assert spans(routes(table, TOPICS, REMOTE, topics=["payments"])) == {PAYMENTS: (0, 3)}


def test_a_topic_that_was_named_in_two_ways_goes_where_it_was_copied_last(ledger: Ledger) -> None:
    renamed = {"remote_topic": "orders", "remote_topic_id": "id of orders there"}
    table = ledger(
        a_transaction(a_copied_range(0, 10)), a_transaction(a_copied_range(10, 20, **renamed))
    )

    found = routes(table, TOPICS, REMOTE | {"orders": "id of orders there"})

    assert found[ORDERS].target.topic == "orders"
    assert spans(found) == {ORDERS: (10, 20)}


def test_preserved_is_what_was_never_copied_otherwise(ledger: Ledger) -> None:
    kept = {"preserved": True, "segments": (Segment(0, 0, 10),)}
    table = ledger(
        a_transaction(a_copied_range(0, 10, **kept), payments(0, 3, preserved=True)),
        a_transaction(payments(3, 5)),
    )

    found = routes(table, TOPICS, REMOTE)

    assert found[ORDERS].preserved and not found[PAYMENTS].preserved
    assert found[ORDERS].map.translate(4) == (4, "exact")


def test_records_that_the_opposite_flow_has_brought_are_where_they_came_from(
    ledger: Ledger,
) -> None:
    same = {"remote_topic": "orders", "remote_topic_id": "orders there"}
    there = {"topic_id": "orders there", "remote_topic": "orders"}
    table = ledger(
        # 5 to 9 have come from the other side.
        a_transaction(
            a_copied_range(0, 10, segments=(Segment(0, 100, 5),), **same),
        )
    )
    opposite = ledger(
        a_transaction(
            a_copied_range(50, 55, segments=(Segment(50, 5, 5),), **there).model_copy(
                update={"remote_topic_id": "id of orders"}
            ),
            flow=BACK,
        ),
        flow=BACK,
    )

    found = routes(table, TOPICS, {"orders": "orders there"}, opposite=opposite)

    assert found[ORDERS].map.translate(7) == (52, "exact")
    # Who has not read 2 to 9 has to read 50 to 54, which lie before the copies at 102.
    assert found[ORDERS].map.translate(2) == (50, "gap")
    assert found[ORDERS].map.reverse(53) == (0, "gap")
    assert found[ORDERS].map.reverse(104) == (4, "exact")
    alone = routes(table, TOPICS, {"orders": "orders there"})
    assert alone[ORDERS].map.translate(2) == (102, "exact")


@pytest.mark.parametrize("has_backfills", [False, True])
def test_what_the_target_has_lost_since_it_came_from_there_is_nowhere_there(
    ledger: Ledger, has_backfills: bool
) -> None:
    there = {
        "topic_id": "orders there",
        "remote_topic": "orders",
        "remote_topic_id": "id of orders",
    }
    # 5 to 9 have come from 50 to 54; the log there was truncated at 52, and 8 was copied back to 60.
    same = {"remote_topic": "orders", "remote_topic_id": "orders there"}
    table = ledger(
        a_transaction(
            a_copied_range(0, 10, segments=(Segment(0, 40, 5), Segment(8, 60, 1)), **same)
        )
    )
    came = a_copied_range(50, 55, segments=(Segment(50, 5, 5),)).model_copy(update=there)
    entries: list[Entry] = [a_transaction(came, flow=BACK)]
    if has_backfills:
        old = a_copied_range(2, 3, segments=(Segment(2, 4, 1),)).model_copy(update=there)
        entries.append(a_backfill(old).model_copy(update={"flow": BACK}))
    opposite = ledger(*entries, flow=BACK)
    ids = {"orders": "orders there"}

    whole = routes(table, TOPICS, ids, opposite=opposite)[ORDERS]
    cut = routes(table, TOPICS, ids, opposite=opposite, diverged={TopicPartition("orders", 0): 52})[
        ORDERS
    ]

    assert (whole.lost_from, whole.map.count_lost(0, 10)) == (None, 0)
    assert (cut.lost_from, cut.map.count_lost(0, 10), cut.map.count_lost(8, 10)) == (7, 2, 1)
    assert whole.map.translate(6) == (51, "exact")
    assert cut.map.translate(6) == (51, "exact")
    # Nothing of what is there from 52 on was read.
    assert cut.map.translate(9) == (52, "gap")


@pytest.mark.parametrize(
    ("start", "diverged_at", "expected"),
    [
        (100, None, 2),
        (104, None, 1),
        (100, 2, 5),
        (102, 2, 5),
        (103, 9, 2),
        (110, 2, 2),
        (115, 0, 0),
    ],
)
def test_copies_are_orphans_where_the_source_has_lost_what_they_are_copies_of(
    ledger: Ledger, start: int, diverged_at: int | None, expected: int
) -> None:
    # 3 and 4 were in a branch that is lost, and others have come in their places.
    table = ledger(
        a_transaction(a_copied_range(0, 5, segments=(Segment(0, 100, 5),))),
        a_transaction(a_copied_range(3, 5, segments=(Segment(3, 110, 2),), rewound_from=5)),
    )
    offsets = routes(table, TOPICS, REMOTE)[ORDERS].map
    assert offsets.count_orphans(start, 115, diverged_at=diverged_at) == expected


def test_where_the_opposite_flow_has_not_come_to_yet_what_others_may_have_written_is_not_skipped(
    ledger: Ledger,
) -> None:
    there = {"remote_topic": "orders", "remote_topic_id": "orders there"}
    kept = {"preserved": True, "segments": (Segment(0, 0, 5), Segment(7, 7, 3)), "records": 8}
    ranges = [a_copied_range(0, 10, segments=(Segment(0, 2, 10),), **there)]
    opposite = ledger(a_run(flow=BACK), flow=BACK)
    ids = {"orders": "orders there"}

    shared = routes(ledger(a_transaction(*ranges)), TOPICS, ids, opposite=opposite)
    own = ledger(a_transaction(a_copied_range(0, 10, **kept, **there)))
    preserved = routes(own, TOPICS, ids, opposite=opposite)

    assert shared[ORDERS].map.translate(8) == (0, "gap")
    # No other client can write where offsets are preserved.
    assert preserved[ORDERS].map.translate(8) == (8, "exact")


def test_without_the_source_the_ids_that_were_copied_last_count(ledger: Ledger) -> None:
    table = ledger(
        a_transaction(a_copied_range(0, 10, topic_id="the one before")),
        a_transaction(a_copied_range(0, 7), payments(0, 3)),
    )

    assert (table.topic_ids(), table.remote_ids()) == (TOPICS, REMOTE)


def test_an_empty_ledger_has_no_routes(ledger: Ledger) -> None:
    assert routes(ledger(), TOPICS, REMOTE) == {}


def test_a_group_does_not_pass_over_copies_that_are_not_proved_yet(ledger: Ledger) -> None:
    """The opposite flow has seen them, and copied what its own clients have written after them."""
    same = {"remote_topic": "orders", "remote_topic_id": "orders there"}
    there = {"topic_id": "orders there", "remote_topic": "orders"}
    table = ledger(
        a_transaction(a_copied_range(0, 10, segments=(Segment(0, 100, 10),), **same)),
        a_transaction(a_copied_range(10, 12, segments=(Segment(10, 111, 2),), **same)),
    )
    came = a_copied_range(100, 117, segments=(Segment(114, 12, 3),), **there)
    came = came.model_copy(update={"remote_topic_id": "id of orders"})
    opposite = ledger(a_transaction(came, flow=BACK), flow=BACK)

    def found(before: int) -> Translation | None:
        ids = {"orders": "orders there"}
        return routes(table, TOPICS, ids, before=before, opposite=opposite)[ORDERS].map.translate(
            10
        )

    assert found(2) == (111, "gap")
    assert found(3) == (111, "exact")
