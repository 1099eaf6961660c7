"""How numbers of records read."""

from __future__ import annotations

import pytest

from kafka_ferry.verify.counts import records_text


@pytest.mark.parametrize(
    ("records", "heartbeats", "said"),
    [
        (0, 0, "0 records"),
        (1, 0, "1 record"),
        (1_153, 153, "1,000 records and 153 heartbeats"),
        (2, 1, "1 record and 1 heartbeat"),
        (1, 1, "0 records and 1 heartbeat"),
    ],
)
def test_heartbeats_are_counted_apart(records: int, heartbeats: int, said: str) -> None:
    assert records_text(records, heartbeats) == said
