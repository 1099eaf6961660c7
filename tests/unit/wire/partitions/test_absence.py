"""How long a reader waits for a broker that gives nothing of a log that goes on."""

from __future__ import annotations

from typing import cast

import pytest

from kafka_ferry.model import TopicPartition
from kafka_ferry.retry import RETRY_S
from kafka_ferry.wire import Fetched, WireCluster
from kafka_ferry.wire.partitions import absence
from kafka_ferry.wire.partitions.absence import REMOTE_PATIENCE, LogAnswers, NextBatch, Unanswered
from tests.unit.copy.fakes import Clock

P0 = TopicPartition("orders", 0)


class Alias:
    alias = "backup"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(absence, "time", clock)
    monkeypatch.setattr(
        absence, "next_batch", lambda _cluster, _node, _tp, offset, _expected: NextBatch(offset)
    )
    return clock


@pytest.mark.parametrize(
    ("local_start", "times", "message"),
    [
        (
            500,
            REMOTE_PATIENCE,
            "which alone has those before offset 500, is slow or over its quota",
        ),
        (100, 1, "Is its remote storage slow"),
        (None, 1, "Is its remote storage slow"),
    ],
    ids=["remote", "local", "unknown"],
)
def test_a_reader_waits_longer_for_what_only_remote_storage_has(
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    local_start: int | None,
    times: int,
    message: str,
) -> None:
    asked_at = list[float]()

    def local_starts(*_: object) -> dict[TopicPartition, int]:
        asked_at.append(clock.now - began)
        return {} if local_start is None else {P0: local_start}

    monkeypatch.setattr(absence, "local_starts", local_starts)
    silent = Fetched(P0, b"", (), end=1_000, error=0, alone=True)
    answers = LogAnswers(cast(WireCluster, Alias()), 1, P0, lambda *_: silent)
    began = clock.now
    with pytest.raises(Unanswered, match=message):
        answers.at(100)
    assert times * RETRY_S < clock.now - began < times * RETRY_S + 5
    # Once, and not before the ordinary time is over.
    assert len(asked_at) == 1
    assert asked_at[0] > RETRY_S
