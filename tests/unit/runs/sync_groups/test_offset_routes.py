"""Where groups' offsets lead."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from kafka_ferry.batches import Segment
from kafka_ferry.groups.decisions import REPLACED
from kafka_ferry.groups.routes import Route
from kafka_ferry.groups.translation import OffsetMap
from kafka_ferry.model import LogBounds, TopicPartition
from kafka_ferry.model.groups import Committed
from kafka_ferry.runs.sync_groups.offset_routes import OffsetRoutes
from tests.unit.ledger.entries import a_copied_range

HERE, THERE = TopicPartition("orders", 0), TopicPartition("primary.orders", 0)


@pytest.mark.parametrize(
    ("parts_at", "offset", "to"),
    [
        ({}, 9, 109),
        # Before that place both logs are the same.
        ({HERE: 9}, 9, 109),
        ({HERE: 8}, 9, None),
        # Where that is unknown, only the log's beginning is sure.
        ({HERE: -1}, 1, None),
        ({HERE: -1}, 0, 100),
    ],
)
def test_an_offset_after_the_place_where_the_source_parts_from_its_copy_leads_nowhere(
    parts_at: dict[TopicPartition, int], offset: int, to: int | None
) -> None:
    copied = a_copied_range(0, 10, segments=(Segment(0, 100, 10),))
    log = {HERE: LogBounds(0, 10), THERE: LogBounds(100, 110)}
    nothing: dict[str, Any] = {field.name: {} for field in fields(OffsetRoutes)}
    known = {
        "routes": {HERE: Route(HERE, THERE, "id", False, OffsetMap.of([copied]))},
        "source_logs": log,
        "target_logs": log,
        "replaced": parts_at,
    }
    move = OffsetRoutes(**(nothing | known)).move(HERE, Committed(offset))
    assert move
    assert (move.offset, move.is_lost) == (to, to is None)
    assert move.reason == (REPLACED if to is None else "")
