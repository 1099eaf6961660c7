"""The bounds of logs, as far as leaders say them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo

from kafka_ferry.control import ClusterControl
from kafka_ferry.control.log_bounds import read_log_bounds
from kafka_ferry.model import LogBounds, Topic
from kafka_ferry.model.ranges import TopicPartition as Partition

OFFSET_INVALID = -1001
FIRST, SECOND, GONE, MOVING = (Partition("t", number) for number in range(4))


class Answering:
    """An admin client with an answer for each partition; for the log's start, then for its end."""

    def __init__(self, *answers: Mapping[Partition, int | KafkaException]) -> None:
        self.answers = iter(answers)

    def list_offsets(self, asked: Mapping[TopicPartition, Any], **_: Any) -> Any:
        answers, futures = next(self.answers), {}
        for one in asked:
            futures[one] = Future[ListOffsetsResultInfo]()
            answer = answers[Partition(one.topic, one.partition)]
            if isinstance(answer, int):
                futures[one].set_result(ListOffsetsResultInfo(answer, -1, -1))
            else:
                futures[one].set_exception(answer)
        return futures


def test_what_librdkafka_has_no_answer_for_is_not_taken_for_an_empty_log() -> None:
    gone = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    moving = KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))
    starts = {FIRST: 3, SECOND: OFFSET_INVALID, GONE: gone, MOVING: moving}
    ends = {FIRST: 9, SECOND: OFFSET_INVALID, GONE: gone, MOVING: moving}

    found = read_log_bounds(Answering(starts, ends), "a", list(starts), "read_committed")  # type: ignore[arg-type]

    assert found == ({FIRST: LogBounds(3, 9)}, {GONE})


def test_a_partition_that_one_answer_does_not_know_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that begins to lead it says so too."""
    first, second = LogBounds(0, 1), LogBounds(0, 2)
    answers = iter([({FIRST: first}, {SECOND, GONE}), ({SECOND: second}, {GONE})])
    monkeypatch.setattr(ClusterControl, "_log_bounds", lambda *_: next(answers))
    monkeypatch.setattr(ClusterControl, "_refresh_leaders", lambda _: None)
    control = ClusterControl.__new__(ClusterControl)

    found = control.log_bounds([Topic("t", "id", 3)], "read_committed", wait_s=60)

    assert found == {FIRST: first, SECOND: second}
    assert next(answers, None) is None
