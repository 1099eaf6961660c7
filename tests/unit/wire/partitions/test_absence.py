"""How long a reader waits for a broker that gives nothing of a log that goes on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_ferry.model import TopicPartition
from kafka_ferry.retry import RETRY_S
from kafka_ferry.wire import Fetched, WireCluster
from kafka_ferry.wire.partitions import absence
from kafka_ferry.wire.partitions.absence import (
    LOCAL_FOR_S,
    REMOTE_PATIENCE,
    LogAnswers,
    NextBatch,
    Unanswered,
)
from kafka_ferry.wire.partitions.list_offsets import local_start, local_starts
from tests.support.records.batches import a_batch
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


@pytest.mark.parametrize(
    ("local", "is_told"),
    [([0], True), ([100], True), ([101], False), ([100, 101], False)],
    ids=["no remote storage", "after its part", "in its part", "moved there since"],
)
def test_a_batch_after_a_gap_tells_nothing_of_offsets_that_remote_storage_alone_has(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, local: list[int], is_told: bool
) -> None:
    after = Fetched(P0, a_batch(3, at=200), (), end=1_000, error=0, alone=True)
    starts = iter(local)
    monkeypatch.setattr(absence, "local_start", lambda *_: next(starts))
    monkeypatch.setattr(absence, "local_starts", lambda *_: {})
    answers = LogAnswers(cast(WireCluster, Alias()), 1, P0, lambda *_: after)
    for _ in local[1:]:
        assert answers.at(100).fetched == after
        clock.now += LOCAL_FOR_S
    if is_told:
        # Asked once: a compacted log has many gaps.
        assert [answers.at(100).fetched, answers.at(150).fetched] == [after, after]
        return
    with pytest.raises(Unanswered, match=r"gives nothing of the offsets \[100, 200\)"):
        answers.at(100)


def test_a_broker_from_before_remote_storage_is_not_asked_where_its_own_part_begins() -> None:
    """It would take the question for a time, and answer with the first record that compaction has left."""
    old: Any = SimpleNamespace(offers=lambda _, *, version: version < 8)
    cluster: Any = SimpleNamespace(connection=lambda _: old, open=lambda _: None)
    assert (local_start(cluster, 1, P0), local_starts(cluster, {P0: 1})) == (0, {})
