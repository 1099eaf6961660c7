"""Which ranges' rules a run evaluates again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.batches import Segment
from kafka_ferry.config import Flow, load_flow
from kafka_ferry.ledger import LedgerRange
from kafka_ferry.model import Plan, Topic
from kafka_ferry.runs.verify.evaluate_again import (
    MOST_OFFSETS,
    range_to_evaluate,
    ranges_to_evaluate,
)
from tests.unit.ledger.entries import a_copied_range

TOPICS = ("orders", "customers", "clicks")
THERE = {f"primary.{it}": Topic(f"primary.{it}", f"id of primary.{it}", 1) for it in TOPICS}


def a_flow(folder: Path, many: int | str) -> Flow:
    file = folder / "flow.yaml"
    file.write_text(
        f"""
        source: {{alias: primary, bootstrap.servers: a:1}}
        target: {{alias: backup, bootstrap.servers: b:1}}
        topics: .*
        verify.transforms: {many}
        transform:
          - {{topics: orders, where: key is null}}
          - {{topics: customers, where: key is null}}
        """
    )
    return load_flow(file)


def entries(flow: Flow, topic: str, count: int, **more: Any) -> list[LedgerRange]:
    given = {"transform": flow.fingerprint_of(topic)} | more
    return [
        LedgerRange(at, "run-1", a_copied_range(at * 10, at * 10 + 10, topic=topic, **given))
        for at in range(count)
    ]


def chosen(flow: Flow, found: list[LedgerRange], run: str = "run-1") -> list[LedgerRange]:
    return ranges_to_evaluate(flow, run, PLAN, found, THERE)


PLAN = Plan("primary->backup", "run-1", 0, "A", "B")


def test_each_topic_with_a_rule_has_its_turn_before_one_has_two(tmp_path: Path) -> None:
    flow = a_flow(tmp_path, 3)
    orders = entries(flow, "orders", 20)
    found = [*orders, *entries(flow, "customers", 1), *entries(flow, "clicks", 5)]

    sample = chosen(flow, found)

    assert sorted(it.copied.topic for it in sample) == ["customers", "orders", "orders"]
    assert sample == chosen(flow, found[::-1]), "a step that is tried again takes the same"
    assert sample != chosen(flow, found, "run-2")


@pytest.mark.parametrize(("many", "expected"), [(0, 0), (4, 4), (100, 20), ("all", 20)])
def test_an_option_says_how_many(tmp_path: Path, many: int | str, expected: int) -> None:
    flow = a_flow(tmp_path, many)
    assert len(chosen(flow, entries(flow, "orders", 20))) == expected


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"transform": ""}, id="copied without a rule"),
        pytest.param({"transform": "of another rule"}, id="copied by another rule"),
        pytest.param({"digest": ""}, id="copied by another mirror"),
        pytest.param({"remote_topic_id": "another"}, id="copied to a topic that is gone"),
        pytest.param({"remote_topic": "gone"}, id="copied to a topic that does not exist"),
    ],
)
def test_what_the_present_rule_has_not_made_is_not_chosen(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    flow = a_flow(tmp_path, "all")
    assert chosen(flow, entries(flow, "orders", 3, **more)) == []


def test_of_a_long_range_a_stretch_is_evaluated_with_its_part_of_the_map(tmp_path: Path) -> None:
    flow = a_flow(tmp_path, 1)
    segments = (Segment(0, 500, 30_000), Segment(60_000, 30_500, 40_000))
    copied = a_copied_range(0, 100_000, segments=segments, transform=flow.fingerprint_of("orders"))
    entry = LedgerRange(7, "run-1", copied)

    starts = set()
    for run in map(str, range(20)):
        asked = range_to_evaluate(flow, run, entry)
        starts.add(asked.range.start)
        assert len(asked.range) == MOST_OFFSETS
        assert 0 <= asked.range.start < asked.range.end <= 100_000
        for source, target, records in asked.segments:
            assert asked.range.start <= source < source + records <= asked.range.end
            assert target == source + 500 if source < 30_000 else source - 60_000 + 30_500
    assert len(starts) > 10
    assert range_to_evaluate(flow, "run-1", entry, whole=True).segments == segments
