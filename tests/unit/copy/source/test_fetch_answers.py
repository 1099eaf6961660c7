"""Which leader epochs of fetched batches are believed."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_ferry.batches import ConvertedBatch
from kafka_ferry.copy.source import fetch_answers
from kafka_ferry.copy.source.cursor import Cursor, Cursors, ReadRules
from kafka_ferry.copy.source.fetch_answers import FetchAnswers
from kafka_ferry.copy.source.read_replicas import ReadReplicas
from kafka_ferry.model.ranges import Range

WRONG = 2**24


@pytest.mark.parametrize(
    ("before", "epochs", "believed", "elected"),
    [
        pytest.param(-1, (3, 4, 5), (3, 4, 5), 5, id="what the leader has reached"),
        pytest.param(-1, (-1, 3), (-1, 3), 5, id="unknown ones"),
        pytest.param(4, (4, WRONG, 4, 5), (4, -1, 4, 5), 5, id="never reached"),
        pytest.param(4, (3, 4), (-1, 4), 5, id="going back from what was read before"),
        pytest.param(-1, (5, 4, 5), (5, -1, 5), 5, id="going back"),
        pytest.param(5, (5, 6, 7), (5, 6, 7), 7, id="of leaders elected meanwhile"),
        pytest.param(-1, (WRONG,), (WRONG,), -1, id="of brokers that name no newest one"),
    ],
)
def test_an_epoch_that_a_batch_cannot_have_is_not_known(
    before: int,
    epochs: tuple[int, ...],
    believed: tuple[int, ...],
    elected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Looked up first, the leader was of epoch 5; ``elected`` is that of the newest one."""
    aside: Any = None
    monkeypatch.setattr(
        fetch_answers, "have_reached", lambda _, of: {tp: of[tp] <= elected for tp in of}
    )
    range_ = Range("orders", 0, 0, 9, "id", "to.orders", 0)
    cursor = Cursor(range_, 0, before, newest_epoch=min(elected, 5))
    replicas, rules = ReadReplicas(), ReadRules(max_bytes=1)
    answers = FetchAnswers(aside, rules, Cursors({}, replicas, 1.0), replicas)
    batches = [ConvertedBatch(at, at + 1, leader_epoch=it) for at, it in enumerate(epochs)]

    found = answers._with_possible_epochs(cursor, batches)

    assert tuple(it.leader_epoch for it in found) == believed
