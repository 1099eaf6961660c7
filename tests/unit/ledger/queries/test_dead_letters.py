"""Which source offsets are of dead letters, by the ledger."""

from __future__ import annotations

from kafka_ferry.batches import Segment
from kafka_ferry.ledger.queries.dead_letters import dead_letters
from kafka_ferry.model import TopicPartition
from tests.unit.ledger.entries import a_backfill, a_copied_range, a_transaction
from tests.unit.ledger.queries.conftest import Ledger


def test_dead_letters_are_those_of_the_topic_that_was_copied_last(ledger: Ledger) -> None:
    table = ledger(
        a_transaction(a_copied_range(0, 9, topic_id="former", letters=(Segment(3, 70, 1),))),
        a_transaction(a_copied_range(0, 9, letters=(Segment(2, 71, 1), Segment(5, 72, 2)))),
        a_transaction(a_copied_range(9, 20), a_copied_range(topic="clicks")),
        a_backfill(a_copied_range(0, 4, partition=1, letters=(Segment(0, 74, 4),))),
        a_transaction(a_copied_range(topic="audit", letters=(Segment(0, 80, 1),))),
    )
    assert dead_letters(table, ["orders", "clicks"]) == {
        TopicPartition("orders", 0): [(2, 3), (5, 7)],
        TopicPartition("orders", 1): [(0, 4)],
    }
    assert dead_letters(table, []) == {}
