"""Names of topics for backfills."""

from __future__ import annotations

import pytest

from kafka_ferry.plan.backfill.separate_topic import is_separate, places_of, separate_topic


@pytest.mark.parametrize("name", ["eu.orders", "eu.orders.backfill"])
def test_a_copy_lies_in_its_topic_and_in_the_one_for_backfills(name: str) -> None:
    assert places_of(name) == {"eu.orders", "eu.orders.backfill"}


def test_only_the_one_for_backfills_is_separate() -> None:
    assert is_separate(separate_topic("eu.orders"))
    assert not is_separate("eu.orders")
