"""Which of the records that came from the target it still has, so that they are left out."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_ferry.batches import Segment
from kafka_ferry.batches.epochs import EpochEnd
from kafka_ferry.batches.returned_records import LogSeen
from kafka_ferry.copy.source import opposite_flow_filter as module
from kafka_ferry.copy.source.opposite_flow_filter import ReturnedRecords
from kafka_ferry.errors import CorruptBatch
from kafka_ferry.model import Range, TopicPartition
from kafka_ferry.wire.partitions.partition_log import PartitionLog
from tests.unit.ledger.entries import a_copied_range, a_transaction

FLOW: Any = SimpleNamespace(
    source=SimpleNamespace(alias="backup"), target=SimpleNamespace(alias="primary")
)
HERE, OWN = TopicPartition("primary.orders", 0), TopicPartition("orders", 0)
# Two transactions, whose markers lie at 1005 and 1011.
ENTRIES = [
    a_transaction(a_copied_range(0, 5, leader_epoch=3)),
    a_transaction(a_copied_range(5, 10, leader_epoch=3, segments=(Segment(5, 1006, 5),))),
]


@pytest.mark.parametrize(
    ("end", "has", "left_out"),
    [
        (EpochEnd(3, 12), lambda offset: offset < 10, [(1000, 1005), (1006, 1011)]),
        (EpochEnd(3, 12), lambda offset: offset < 7, [(1000, 1005), (1006, 1008)]),
        (EpochEnd(3, 12), lambda offset: offset < 0, []),
        (EpochEnd(3, 5), lambda offset: offset < 5, [(1000, 1005)]),
        (EpochEnd(3, 5), lambda offset: offset < 2, [(1000, 1002)]),
        (None, lambda offset: offset < 7, [(1000, 1005), (1006, 1008)]),
        (None, lambda offset: offset < 10, [(1000, 1005), (1006, 1011)]),
        (EpochEnd(3, 12), None, [(1000, 1005), (1006, 1011)]),
    ],
    ids=[
        "all are there",
        "restored, and grown again in the same epoch",
        "restored empty",
        "truncated",
        "truncated, restored and grown again",
        "restored before that epoch",
        "older epochs, the same records",
        "damaged",
    ],
)
def test_what_the_target_lacks_that_was_restored_is_not_left_out(
    monkeypatch: pytest.MonkeyPatch, end: EpochEnd | None, has: Any, left_out: list[tuple[int, int]]
) -> None:
    """Leader epochs tell nothing of a cluster that counts them once more."""

    def has_copied(_: object, log: PartitionLog, offset: int, *__: object, **___: object) -> bool:
        assert log.partition == OWN
        if has is None:
            raise CorruptBatch("orders-0 on primary holds a batch with a wrong CRC.")
        return bool(has(offset))

    monkeypatch.setattr(module, "wait_until_settled", lambda *_: None)
    monkeypatch.setattr(module, "_logs_now", lambda *_: {HERE: LogSeen(1012, 0)})
    monkeypatch.setattr(
        module, "ClusterControl", lambda _: SimpleNamespace(topic_ids=lambda names: names)
    )
    monkeypatch.setattr(
        module, "entries_with_producers", lambda *_: [(at, it, 7) for at, it in enumerate(ENTRIES)]
    )
    monkeypatch.setattr(module, "connect", lambda _: nullcontext())
    monkeypatch.setattr(
        module, "epoch_ends", lambda _, epochs: dict.fromkeys(epochs, end) if end else {}
    )
    monkeypatch.setattr(
        module,
        "led_logs",
        lambda _, partitions: {it: PartitionLog(it, 1, 0, 1012) for it in partitions},
    )
    monkeypatch.setattr(module, "with_batches", lambda _, logs, offsets: logs)
    monkeypatch.setattr(module, "has_copied", has_copied)
    wanted = Range(
        topic=HERE.topic,
        partition=0,
        start=0,
        end=1012,
        topic_id="id of primary.orders",
        remote_topic=OWN.topic,
        writer=0,
        remote_topic_id="id of orders",
        returned_since=0,
    )
    returned = ReturnedRecords(FLOW, [wanted]).of([wanted])[HERE]
    absent = [returned.left_out_from(start) for start in (1000, 1006)]
    assert [(it.first, it.end) for it in absent if it] == left_out
