"""Whether a log still is the one that was read back, by the ends of its leader epochs."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from kafka_ferry.batches.epochs import EpochEnd
from kafka_ferry.config import Flow
from kafka_ferry.model import TopicPartition
from kafka_ferry.runs.verify import partition_recounts
from kafka_ferry.runs.verify.partition_recounts import _truncation_since
from kafka_ferry.verify import PartitionRecount

P0 = TopicPartition("eu.orders", 0)


@pytest.mark.parametrize(
    ("answer", "is_doubtful"),
    [
        pytest.param({P0: EpochEnd(3, 90)}, False, id="ends there"),
        pytest.param({P0: EpochEnd(3, 120)}, False, id="goes on"),
        pytest.param({P0: EpochEnd(3, 80)}, True, id="cut"),
        pytest.param({P0: EpochEnd(2, 120)}, True, id="another branch"),
        pytest.param({}, True, id="no answer"),
    ],
)
def test_what_was_read_counts_where_the_leader_says_that_the_log_has_it(
    flow: Flow,
    monkeypatch: pytest.MonkeyPatch,
    answer: dict[TopicPartition, EpochEnd],
    is_doubtful: bool,
) -> None:
    monkeypatch.setattr(partition_recounts, "connect", lambda _: nullcontext())
    monkeypatch.setattr(partition_recounts, "epoch_ends", lambda *_: answer)
    recounts = {P0: PartitionRecount((), 0, epoch=3)}
    assert _truncation_since(flow, {P0: 90}, recounts) == ({P0} if is_doubtful else set())
