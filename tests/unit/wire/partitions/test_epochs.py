"""What a broker that does not lead a log says of its leader epochs: nothing, and least of all that it is whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest

from kafka_ferry.batches.epochs import EpochEnd
from kafka_ferry.errors import BrokerError
from kafka_ferry.model import TopicPartition
from kafka_ferry.wire import PartitionLeader, WireCluster
from kafka_ferry.wire.partitions import ends, epochs
from kafka_ferry.wire.partitions.ends import settled_ends
from kafka_ferry.wire.partitions.epochs import epoch_ends
from tests.unit.copy.fakes import Clock

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Moving:
    """Its partitions are led by the next broker whenever their leaders are asked for; P1 by none."""

    alias = "backup"

    def __init__(self) -> None:
        self.node = 0

    def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, object]:
        self.node += 1
        return {tp: PartitionLeader(-1 if tp == P1 else self.node, "", 0) for tp in partitions}


@pytest.mark.parametrize(
    ("answers", "expected", "asked"),
    [
        ([EpochEnd(3, 90)], {P0: EpochEnd(3, 90)}, 1),
        ([None, EpochEnd(3, 90)], {P0: EpochEnd(3, 90)}, 2),
        ([None] * 4, {}, 4),
        # A log without any epoch up to that one has said so.
        (["unknown"], {}, 1),
    ],
    ids=["leads", "moved", "moves for long", "knows nothing"],
)
def test_whichever_broker_leads_a_log_by_now_is_asked(
    monkeypatch: pytest.MonkeyPatch,
    answers: list[EpochEnd | str | None],
    expected: Mapping[TopicPartition, EpochEnd],
    asked: int,
) -> None:
    nodes = list[int]()

    def answer(_: object, leaders: Mapping[TopicPartition, int], wanted: object) -> dict[Any, Any]:
        assert wanted == {P0: 3}
        nodes.extend(leaders.values())
        said = answers[len(nodes) - 1]
        return {} if said == "unknown" else {P0: said}

    monkeypatch.setattr(epochs, "time", Clock())
    monkeypatch.setattr(epochs, "_ask", answer)
    assert epoch_ends(cast(WireCluster, Moving()), {P0: 3, P1: 3}) == expected
    assert nodes == list(range(1, asked + 1))


@pytest.mark.parametrize(
    ("answer", "is_settled"),
    [({P0: EpochEnd(3, 90)}, True), ({P0: EpochEnd(3, 91)}, False), ({}, False)],
    ids=["replicated", "not replicated", "moved"],
)
def test_a_log_ends_where_its_leader_says_that_no_more_was_written(
    monkeypatch: pytest.MonkeyPatch, answer: dict[TopicPartition, EpochEnd], is_settled: bool
) -> None:
    monkeypatch.setattr(ends, "high_watermarks", lambda *_: {P0: 90})
    monkeypatch.setattr(ends, "epoch_ends_on", lambda *_: answer)
    leaders = {P0: PartitionLeader(1, "", 0, epoch=3)}
    if is_settled:
        assert settled_ends(cast(WireCluster, Moving()), leaders) == {P0: 90}
        return
    with pytest.raises(BrokerError, match="is not replicated yet"):
        settled_ends(cast(WireCluster, Moving()), leaders)
