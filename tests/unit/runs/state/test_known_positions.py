"""The flow's group and its ledger, read one after the other while another run may commit to both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from typing import Any

import pytest

from kafka_ferry.model import Position, TopicPartition
from kafka_ferry.runs.state import known_positions as module
from kafka_ferry.runs.state.known_positions import known_positions
from tests.unit.plan.builders import a_flow

PARTITION = TopicPartition("primary.orders", 0)


class Target:
    def topic_ids(self, names: list[str]) -> Mapping[str, object]:
        return dict.fromkeys(names)


class Ledger:
    """Has the next of several positions at each look; none where it is 0."""

    def __init__(self, offsets: Iterator[int]) -> None:
        self._offsets = offsets
        self._now = 0

    def project(self, *_: object) -> int:
        self._now = next(self._offsets)
        return 7

    def positions(self) -> dict[TopicPartition, Position]:
        return {PARTITION: Position(self._now)} if self._now else {}


@pytest.fixture(autouse=True)
def nothing_is_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSES_S", (0.0, 0.0))
    monkeypatch.setattr(module, "_is_pending", lambda *_: False)
    monkeypatch.setattr(module, "wait_until_settled", lambda *_: None)


@pytest.mark.parametrize(
    ("group", "ledger", "moved"),
    [
        ([10], [10], None),
        ([10, 20, 20], [20], None),
        # Another run commits between each look at the group and the next one at the ledger.
        ([10, 30, 50], [20, 40, 60], None),
        ([10, 20, 40], [20, 40, 60], None),
        ([30], [20], 30),
        ([10], [20], 10),
        ([10], [20, 40, 60], 10),
        ([70], [20, 40, 60], 70),
    ],
    ids=[
        "both agree",
        "the group follows",
        "a run goes on",
        "a run goes on, and stands where the ledger stood",
        "moved forward",
        "moved back",
        "moved back while a run goes on",
        "moved forward while a run goes on",
    ],
)
def test_a_position_is_moved_if_the_ledger_never_had_it_meanwhile(
    group: list[int], ledger: list[int], moved: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed = forever(group)
    monkeypatch.setattr(module, "read_positions", lambda *_: {PARTITION: Position(next(committed))})
    target: Any = Target()
    table: Any = Ledger(forever(ledger))
    known = known_positions(a_flow(), target, table)
    assert known.moved == ({} if moved is None else {PARTITION: moved})


@pytest.mark.parametrize(("group", "moved"), [(30, {}), (25, {PARTITION: 25})])
def test_what_an_open_transaction_hides_of_the_ledger_counts_once_it_has_ended(
    group: int, moved: dict[TopicPartition, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    table: Any = Ledger(forever([20]))
    ended: Any = Ledger(forever([30]))
    monkeypatch.setattr(module, "read_positions", lambda *_: {PARTITION: Position(group)})
    monkeypatch.setattr(module, "wait_until_settled", lambda *_: vars(table).update(vars(ended)))
    target: Any = Target()
    assert known_positions(a_flow(), target, table).moved == moved


@pytest.mark.parametrize(("hidden", "unconfirmed"), [(30, set()), (0, {PARTITION})])
def test_a_position_is_unconfirmed_once_no_open_transaction_hides_the_ledgers_end(
    hidden: int, unconfirmed: set[TopicPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    table: Any = Ledger(forever([0]))
    ended: Any = Ledger(forever([hidden]))
    monkeypatch.setattr(module, "read_positions", lambda *_: {PARTITION: Position(30)})
    monkeypatch.setattr(module, "wait_until_settled", lambda *_: vars(table).update(vars(ended)))
    target: Any = Target()
    assert known_positions(a_flow(), target, table).unconfirmed == unconfirmed


def forever(offsets: list[int]) -> Iterator[int]:
    return chain(offsets, repeat(offsets[-1]))
