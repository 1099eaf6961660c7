"""Numbers of partitions and replicas of single topics."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.config.builders import a_flow


def test_the_first_pattern_that_matches_counts_and_a_topic_without_one_has_none() -> None:
    flow = a_flow(topics_partitions={"orders": 6, "o.*": 12}, topics_replication_factor="-1")
    assert [flow.topics_partitions.of(it) for it in ("orders", "offers", "x")] == [6, 12, None]
    assert flow.topics_replication_factor.of("orders") == -1


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("topics_partitions", 0, "must be a number of partitions"),
        ("topics_partitions", {"orders": 1_000_001}, "must be a number of partitions"),
        ("topics_partitions", {"orders": True}, "must be a number of partitions"),
        ("topics_replication_factor", 0, "must be a number of replicas, or -1"),
        ("topics_replication_factor", {"orders": -2}, "must be a number of replicas, or -1"),
        ("topics_replication_factor", "many", "must be a number of replicas, or -1"),
    ],
)
def test_a_number_that_no_topic_can_have_is_refused(option: str, value: Any, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        a_flow(**{option: value})
