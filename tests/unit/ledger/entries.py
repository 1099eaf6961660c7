"""Small builders of ledger entries."""

from __future__ import annotations

from typing import Any

from kafka_ferry.batches import Segment
from kafka_ferry.ledger import (
    AppliedEntry,
    BackfillEntry,
    CopiedRange,
    ReleasedTopic,
    ReleaseEntry,
    RunEntry,
    TransactionEntry,
    VerificationEntry,
)

FLOW = "primary->backup"
NOW = 1_700_000_000_000


def a_copied_range(start: int = 0, end: int = 10, **more: Any) -> CopiedRange:
    topic = more.pop("topic", "orders")
    fields: dict[str, Any] = {
        "topic": topic,
        "topic_id": f"id of {topic}",
        "partition": 0,
        "remote_topic": f"primary.{topic}",
        "remote_topic_id": f"id of primary.{topic}",
        "start": start,
        "end": end,
        "records": end - start,
        "bytes": 100 * (end - start),
        "batches": 1,
        "segments": (Segment(start, start + 1000, end - start),),
        "digest": f"{start}-{end}",
    }
    return CopiedRange(**fields | more)


def a_run(run: str = "run-1", *, flow: str = FLOW, writers: int = 4, at: int = NOW) -> RunEntry:
    return RunEntry(flow=flow, run=run, at=at, writers=writers)


def a_transaction(
    *ranges: CopiedRange, run: str = "run-1", flow: str = FLOW, writer: int = 2, at: int = NOW
) -> TransactionEntry:
    return TransactionEntry(flow=flow, run=run, at=at, writer=writer, ranges=ranges)


def a_backfill(*ranges: CopiedRange, run: str = "backfill-1") -> BackfillEntry:
    return BackfillEntry(
        flow=FLOW, run=run, at=NOW, writer=2, since=NOW - 1_000, until=NOW, ranges=ranges
    )


def a_verification(through: int, *, flow: str = FLOW) -> VerificationEntry:
    return VerificationEntry(flow=flow, run="run-1", at=NOW, through=through, ranges=3, records=30)


def a_release(*names: str, flow: str = FLOW) -> ReleaseEntry:
    released = tuple(ReleasedTopic(remote_topic=n, remote_topic_id=f"id of {n}") for n in names)
    return ReleaseEntry(flow=flow, run="repair-1", at=NOW, remote_topics=released)


def an_applied(*, flow: str = FLOW, at: int = NOW, **more: Any) -> AppliedEntry:
    return AppliedEntry(flow=flow, run="run-1", at=at, **more)
