"""What was copied into what, and where copies began."""

from __future__ import annotations

import pytest

from kafka_ferry.ledger import LedgerTable
from kafka_ferry.ledger.queries.copied_topics import (
    TopicCopy,
    backfilled_ids,
    copied_partitions,
    copied_topics,
    copies_since,
    first_copied_offsets,
    preserved_starts,
    remote_topics,
    rule_starts,
)
from kafka_ferry.model import Topic, TopicPartition
from tests.unit.ledger.entries import a_backfill, a_copied_range, a_run, a_transaction
from tests.unit.ledger.queries.conftest import Ledger

ORDERS, CLICKS = "primary.orders", "primary.clicks"
RECREATED = {"topic_id": "second id", "remote_topic_id": "second copy"}
# The name with a rule comes first, and in another order than by name.
ENTRIES = [
    a_run(),
    a_transaction(a_copied_range(40, 50, begin="latest"), a_copied_range(7, 9, partition=1)),
    a_transaction(a_copied_range(50, 60, begin="earliest"), a_copied_range(3, 4, partition=1)),
    a_backfill(a_copied_range(0, 5, topic="clicks")),
    a_transaction(a_copied_range(5, 6, topic="audit", preserved=True)),
    a_transaction(a_copied_range(0, 2, **RECREATED)),
    a_transaction(a_copied_range(2, 4, topic="audit", preserved=True)),
]


@pytest.fixture
def table(ledger: Ledger) -> LedgerTable:
    return ledger(*ENTRIES)


def named(topic: str) -> TopicCopy:
    return TopicCopy(topic, f"id of {topic}", f"primary.{topic}", f"id of primary.{topic}")


def test_topics_come_in_the_order_of_their_first_copies(table: LedgerTable) -> None:
    again = TopicCopy("orders", "second id", ORDERS, "second copy")
    assert copied_topics(table) == [named("orders"), named("audit"), again]


def test_copies_have_the_time_of_their_first_record(table: LedgerTable) -> None:
    copies = copies_since(table)
    assert [copy[:4] for copy in copies] == [
        *(named("orders"), named("clicks"), named("audit")),
        TopicCopy("orders", "second id", ORDERS, "second copy"),
    ]
    assert all(copy.at > 0 for copy in copies)


def test_remote_topics_are_those_of_backfills_too(table: LedgerTable) -> None:
    of_orders = {(ORDERS, f"id of {ORDERS}"), (ORDERS, "second copy")}
    assert remote_topics(table, [ORDERS, "unknown"]) == of_orders
    assert {name for name, _ in remote_topics(table)} == {ORDERS, CLICKS, "primary.audit"}
    assert backfilled_ids(table, [ORDERS, CLICKS]) == {f"id of {CLICKS}"}


def test_partitions_of_topics_are_those_that_not_only_backfills_have_copied(
    table: LedgerTable,
) -> None:
    orders = {TopicPartition("orders", number) for number in (0, 1)}
    assert copied_partitions(table, ["orders", "clicks"]) == orders
    others = {TopicPartition("clicks", 0), TopicPartition("audit", 0)}
    assert copied_partitions(table) == orders | others


def test_a_rule_is_the_first_one_by_which_a_copy_began(table: LedgerTable) -> None:
    rules, offsets = rule_starts(table)
    assert rules == {f"id of {ORDERS}": "latest", "id of primary.audit": "", "second copy": ""}
    assert offsets == {("id of orders", 0): 40}


@pytest.mark.parametrize(
    ("topic_id", "first"), [(f"id of {ORDERS}", {0: 40, 1: 3}), ("second copy", {0: 0}), ("x", {})]
)
def test_a_copy_begins_at_the_lowest_offset_that_went_into_the_topic_of_today(
    table: LedgerTable, topic_id: str, first: dict[int, int]
) -> None:
    topic = Topic(ORDERS, topic_id, 2)
    assert first_copied_offsets(table, [topic]) == {
        TopicPartition(ORDERS, number): offset for number, offset in first.items()
    }


def test_only_preserved_offsets_have_preserved_starts(table: LedgerTable) -> None:
    audit = TopicPartition("primary.audit", 0)
    assert preserved_starts(table) == {(audit, "id of primary.audit"): 2}


def test_an_empty_ledger_names_nothing(ledger: Ledger) -> None:
    empty = ledger(a_run())
    assert (copied_topics(empty), first_copied_offsets(empty, []), preserved_starts(empty)) == (
        [],
        {},
        {},
    )
    assert remote_topics(empty) == copied_partitions(empty) == frozenset()
