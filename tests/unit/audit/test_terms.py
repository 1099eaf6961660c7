"""What is compared of a partition's log."""

from __future__ import annotations

import pytest

from kafka_ferry.audit.terms import LogExtent


@pytest.mark.parametrize(
    ("extent", "may_have_lost"),
    [
        (LogExtent(0, 0, 9), False),
        (LogExtent(5, 5, 9), True),
        # A time window begins later than the log.
        (LogExtent(5, 6, 9), False),
        # Retention deletes nothing there.
        (LogExtent(5, 5, 9, kept=True), False),
    ],
)
def test_a_log_may_have_deleted_what_lay_before_its_start(
    extent: LogExtent, may_have_lost: bool
) -> None:
    assert extent.lost_head == may_have_lost
