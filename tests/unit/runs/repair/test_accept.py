"""A range that is left as it is may lack no more later than it lacked then."""

from __future__ import annotations

import pytest

from kafka_ferry.ledger import AcceptedRange, CopiedRange, LedgerRange
from kafka_ferry.runs.repair.accept import accepted_range
from kafka_ferry.verify import RangeRow, Recount, range_row

COPIED = CopiedRange(
    topic="orders",
    topic_id="source-id",
    partition=3,
    remote_topic="eu.orders",
    remote_topic_id="target-id",
    start=100,
    end=200,
    records=100,
    bytes=1_000,
    batches=10,
    digest="sent",
)


@pytest.mark.parametrize(
    ("later", "holds"),
    [
        (Recount(60, "then", expired=30, log_start=30), True),
        (Recount(40, "other", expired=50, log_start=50), True),
        # What had expired before is no reason for others to be missing.
        (Recount(59, "other", expired=30, log_start=30), False),
        (Recount(30, "other", expired=30, log_start=30), False),
        # Nor is what was missing then, once it would have expired.
        (Recount(10, "other", expired=80, log_start=80), False),
        (Recount(20, "other", expired=80, log_start=80), True),
    ],
)
def test_what_had_expired_explains_nothing_that_is_missing_later(
    later: Recount, holds: bool
) -> None:
    def row(found: Recount, accepted: AcceptedRange | None = None) -> RangeRow:
        return range_row(LedgerRange(7, "r", COPIED), found, accepted=accepted)

    then = row(Recount(60, "then", expired=30, log_start=30))
    found = row(later, accepted_range(then, "known", [(70, 80)]))
    assert (found.recount.found == found.ledger.copied) is holds
