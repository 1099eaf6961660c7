"""A run that copies two topics: its plan, and what its writers put into the ledger."""

from __future__ import annotations

from kafka_ferry.ledger import CopiedRange, TransactionEntry
from kafka_ferry.model import Plan, Range
from tests.unit.plan.builders import a_flow

FLOW = a_flow()


def a_range(topic: str, partition: int, start: int, end: int, writer: int = 0) -> Range:
    return Range(topic, partition, start, end, "id", f"primary.{topic}", writer)


PLAN = Plan(
    *(FLOW.name, "run-1", 5, "S", "T", 100),
    ranges=(
        a_range("orders", 0, 10, 60),
        a_range("orders", 1, 0, 50, 1),
        a_range("payments", 0, 0, 20, 1),
        a_range("idle", 0, 7, 7),
    ),
    shards=((0,), (1,)),
)


def entry(
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    run: str = "run-1",
    flow: str = FLOW.name,
) -> TransactionEntry:
    copied = CopiedRange(
        topic=topic,
        topic_id="id",
        partition=partition,
        remote_topic=f"primary.{topic}",
        remote_topic_id="id",
        start=start,
        end=end,
        records=end - start - 1,
        bytes=(end - start) * 100,
        batches=1,
        reasons={"control": 1},
        digest="",
    )
    return TransactionEntry(flow=flow, run=run, at=5, writer=0, ranges=(copied,))
