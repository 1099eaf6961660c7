"""Whether the source still has what was copied, by the ends of its leader epochs."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from kafka_ferry.batches.epochs import EpochEnd
from kafka_ferry.config import Flow
from kafka_ferry.errors import ClusterUnreachable
from kafka_ferry.model import Position, TopicPartition
from kafka_ferry.runs.state.flow_state import flow_ledger
from kafka_ferry.runs.verify import source_logs
from kafka_ferry.runs.verify.source_logs import compare_with_source
from kafka_ferry.verify.rows import Coverage, PartitionRow

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("eu.orders", 0)


def replaced(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, ends: Any, *, epoch: int = 3, position: int = 100
) -> int:
    """What is replaced before offset 100, where the copy ends, by what the source answers."""

    def answer(_: object, epochs: object) -> dict[TopicPartition, EpochEnd]:
        assert epochs == {SOURCE: epoch}
        if isinstance(ends, Exception):
            raise ends
        return {SOURCE: EpochEnd(*ends)} if ends else {}

    monkeypatch.setattr(source_logs, "connect", lambda _: nullcontext())
    monkeypatch.setattr(source_logs, "epoch_ends", answer)
    row = PartitionRow("orders", 0, TARGET.topic, 0, 100, Coverage(0, 100), position)
    positions = {TARGET: Position(100, "id", "remote", leader_epoch=epoch)}
    (found,) = compare_with_source(flow, flow_ledger(flow), [row], positions)
    return found.replaced


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        pytest.param((3, 100), 0, id="ends there"),
        pytest.param((3, 140), 0, id="goes on"),
        pytest.param((3, 90), 10, id="cut back"),
        pytest.param((2, 90), 10, id="another branch"),
        pytest.param((2, 120), 1, id="an older epoch goes further now"),
        pytest.param(None, 0, id="no leader"),
        pytest.param(ClusterUnreachable("eu does not answer."), 0, id="gone"),
    ],
)
def test_what_the_source_has_lost_or_replaced_is_counted(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, ends: Any, expected: int
) -> None:
    assert replaced(flow, monkeypatch, ends) == expected


@pytest.mark.parametrize(("epoch", "position"), [(-1, 100), (3, 60)])
def test_what_has_no_epoch_or_belongs_to_a_branch_before_is_not_asked_for(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, epoch: int, position: int
) -> None:
    never = AssertionError("was asked")
    assert replaced(flow, monkeypatch, never, epoch=epoch, position=position) == 0
