"""A source's log start is only followed where it is proved."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_ferry.model import LogBounds, TopicPartition
from kafka_ferry.runs.plan import moved_starts
from kafka_ferry.runs.plan.moved_starts import doubt_of_starts, unproved_starts
from kafka_ferry.wire.error_codes import NONE, OFFSET_OUT_OF_RANGE

NOT_LEADER = 6
FOLLOW: Any = SimpleNamespace(
    on_source_start_moved="follow",
    source=SimpleNamespace(alias="primary"),
    target=SimpleNamespace(alias="backup"),
)
KEEP: Any = SimpleNamespace(on_source_start_moved="keep")


def tp(number: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, number)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[TopicPartition, int]:
    """What was read, with the answers of four partitions; a fifth has no leader."""
    asked: dict[TopicPartition, int] = {}
    errors = {tp(0): OFFSET_OUT_OF_RANGE, tp(1): NONE, tp(2): NOT_LEADER, tp(3): NONE}

    def leaders(partitions: Any) -> Any:
        return {it: SimpleNamespace(node=1 if it in errors else -1) for it in partitions}

    def fetch(_: Any, nodes: Any, offsets: Any, *__: Any) -> Any:
        asked.update({it: offsets[it] for it in nodes})
        return [SimpleNamespace(partition=it, error=errors[it]) for it in nodes]

    source = SimpleNamespace(recent_leaders=leaders, forget_on_error=nullcontext)
    monkeypatch.setattr(moved_starts, "connect", lambda _: nullcontext(source))
    monkeypatch.setattr(moved_starts, "fetch_each", fetch)
    return asked


def test_a_start_is_proved_by_the_refusal_to_read_before_it(
    asked: dict[TopicPartition, int],
) -> None:
    pair: Any = SimpleNamespace(topic="orders", remote_topic="a.orders", positions=range(6))
    bounds = {tp(number): LogBounds(20, 30) for number in range(5)}
    copies = {tp(number, "a.orders"): LogBounds(0, 30) for number in range(6)}
    copies[tp(3, "a.orders")] = LogBounds(20, 30)
    assert unproved_starts(KEEP, [pair], bounds, copies) == frozenset()
    assert asked == {}
    unproved = unproved_starts(FOLLOW, [pair], bounds, copies)
    assert unproved == {tp(1), tp(2), tp(4)}
    assert asked == {tp(0): 19, tp(1): 19, tp(2): 19}
    (sentence,) = doubt_of_starts(FOLLOW, unproved)
    assert "orders-1; orders-2; orders-4 start later" in sentence
    assert doubt_of_starts(FOLLOW, ()) == ()
