"""What a topic's configs say of its records."""

from __future__ import annotations

import pytest

from kafka_ferry.model import Topic

FOREVER = {"retention.ms": "-1", "retention.bytes": "-1"}


@pytest.mark.parametrize(
    ("configs", "is_kept"),
    [
        ({}, False),
        ({"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "1"}, False),
        ({"cleanup.policy": "delete", "retention.ms": "1", "retention.bytes": "-1"}, False),
        ({"cleanup.policy": "delete", **FOREVER}, True),
        ({"cleanup.policy": "compact,delete", **FOREVER}, True),
        ({"cleanup.policy": "compact,delete", "retention.ms": "1"}, False),
        ({"cleanup.policy": "compact", "retention.ms": "1"}, True),
    ],
)
def test_a_topic_is_kept_for_ever_where_retention_deletes_nothing(
    configs: dict[str, str], is_kept: bool
) -> None:
    assert Topic("orders", "id", 1, configs).is_kept_forever == is_kept
