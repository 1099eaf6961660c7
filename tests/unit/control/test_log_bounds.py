"""The bounds of logs, as far as leaders say them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_ferry.control import ClusterControl, log_bounds
from kafka_ferry.control.log_bounds import read_log_bounds
from kafka_ferry.errors import AccessDenied
from kafka_ferry.model import LogBounds, Topic
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.error_codes import (
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from kafka_ferry.wire.partition_leader import PartitionLeader
from kafka_ferry.wire.partitions import list_offsets
from kafka_ferry.wire.partitions.list_offsets import LATEST

FIRST, SECOND, GONE, MOVING = (TopicPartition("t", number) for number in range(4))
NOT_LEADER = 6
LEADER = PartitionLeader(1, "id", 0)


class Answering:
    """Connections to a cluster whose leaders answer each with a log's start and end, or an error."""

    alias = "a"

    def __init__(
        self,
        leaders: Mapping[TopicPartition, PartitionLeader],
        answers: Mapping[TopicPartition, tuple[int, int] | int],
    ) -> None:
        self.leaders, self.answers, self.has_forgotten = leaders, answers, False

    def recent_leaders(self, _: object, *, within_s: float) -> Any:
        assert within_s <= 1
        return self.leaders

    def open(self, nodes: Iterable[int]) -> None:
        assert set(nodes) <= {1}

    def forget_on_error(self) -> Any:
        return nullcontext()

    def forget_routes(self) -> None:
        self.has_forgotten = True

    def answer(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, Any]:
        said = {}
        for tp, time in times.items():
            bounds = self.answers[tp]
            is_error = isinstance(bounds, int)
            offset = -1 if isinstance(bounds, int) else bounds[time == LATEST]
            said[tp] = SimpleNamespace(error_code=bounds if is_error else 0, offset=offset)
        return said


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    def read(wire: Answering) -> Any:
        monkeypatch.setattr(log_bounds, "connect", lambda *_: nullcontext(wire))
        monkeypatch.setattr(list_offsets, "offsets_question", lambda *asked: asked[2])
        monkeypatch.setattr(
            list_offsets,
            "ask_together",
            lambda asked: {key: wire.answer(times) for key, times in asked.items()},
        )
        return read_log_bounds(None, list(wire.leaders), "read_committed")  # type: ignore[arg-type]

    return read


def test_what_no_leader_answers_for_is_not_taken_for_an_empty_log(read: Any) -> None:
    leaders = {
        **dict.fromkeys((FIRST, MOVING), LEADER),
        SECOND: PartitionLeader(-1, "id", 0),
        GONE: PartitionLeader(-1, "", UNKNOWN_TOPIC_OR_PARTITION),
    }
    wire = Answering(leaders, {FIRST: (3, 9), MOVING: NOT_LEADER})

    assert read(wire) == ({FIRST: LogBounds(3, 9)}, {GONE})
    # It is asked again, of the leaders that there are then.
    assert wire.has_forgotten


def test_without_the_right_to_look_the_topic_is_named(read: Any) -> None:
    denied = PartitionLeader(-1, "", TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(AccessDenied, match="t-0"):
        read(Answering({FIRST: denied}, {}))


def test_a_partition_that_one_answer_does_not_know_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that begins to lead it says so too."""
    first, second = LogBounds(0, 1), LogBounds(0, 2)
    answers = iter([({FIRST: first}, {SECOND, GONE}), ({SECOND: second}, {GONE})])
    monkeypatch.setattr(ClusterControl, "_log_bounds", lambda *_, **__: next(answers))
    control = ClusterControl.__new__(ClusterControl)

    found = control.log_bounds([Topic("t", "id", 3)], "read_committed", wait_s=60)

    assert found == {FIRST: first, SECOND: second}
    assert next(answers, None) is None
