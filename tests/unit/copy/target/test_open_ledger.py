"""What positions say of a transaction that hides the ledger, and whose markers say nothing."""

from __future__ import annotations

import pytest

from kafka_ferry.copy.target.open_ledger import outcome_by_position
from kafka_ferry.ledger import CopiedRange
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.transactions.endings import TransactionOutcome
from tests.support.records.model_log import a_range

COMMITTED, ABORTED, UNKNOWN = (
    TransactionOutcome.COMMITTED,
    TransactionOutcome.ABORTED,
    TransactionOutcome.UNKNOWN,
)
WITHOUT_RECORDS = a_range(5, 10)
PRESERVED = a_range(5, 10, [(5, 5, 5)], preserved=True)
TRANSLATED = a_range(5, 10, [(5, 7, 5)])


@pytest.mark.parametrize(
    ("copied", "offset", "outcome"),
    [
        (WITHOUT_RECORDS, 10, COMMITTED),
        (WITHOUT_RECORDS, 5, ABORTED),
        (WITHOUT_RECORDS, None, ABORTED),
        (PRESERVED, 10, COMMITTED),
        (PRESERVED, 5, ABORTED),
        # A person may have moved it.
        (PRESERVED, 7, UNKNOWN),
        (PRESERVED, 12, UNKNOWN),
        # Its records had a marker, and have expired with it; the group may have lost its positions.
        (TRANSLATED, 10, COMMITTED),
        (TRANSLATED, 5, UNKNOWN),
        (TRANSLATED, None, UNKNOWN),
        # It may have been there before: the range sets it back, or moves it nowhere.
        (a_range(5, 10, rewound_from=10), 10, UNKNOWN),
        (a_range(5, 5), 5, UNKNOWN),
    ],
)
def test_a_position_says_how_the_transaction_ended_that_was_to_move_it(
    copied: CopiedRange, offset: int | None, outcome: TransactionOutcome
) -> None:
    target = TopicPartition("primary.orders", 0)
    position = Position(offset or 0, copied.topic_id, copied.remote_topic_id)

    assert outcome_by_position({} if offset is None else {target: position}, copied) == outcome


def test_a_position_in_another_topic_of_the_name_is_none() -> None:
    other = Position(10, PRESERVED.topic_id, "an earlier one")

    assert outcome_by_position({TopicPartition("primary.orders", 0): other}, PRESERVED) == ABORTED
