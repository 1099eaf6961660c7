"""The ledger's counts in sums: by partition and by topic, of one run and since the flow began."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_ferry.batches import Reason
from kafka_ferry.ledger.accounts import sums_of_reasons
from kafka_ferry.ledger.rows import backfilled_rows, copied_rows, ordinary_rows
from kafka_ferry.model.ranges import TopicPartition

if TYPE_CHECKING:
    from kafka_ferry.ledger.table import LedgerTable

_KEYS: Final = ["remote_topic", "partition"]
_SUMS: Final = ["records", "bytes"]
_PASSED: Final = frozenset({Reason.COPIED_BEFORE, Reason.OUTSIDE_WINDOW})


@dataclass(slots=True)
class Counts:
    """The counts of one *target* partition.

    Attributes:
        topic: the source topic that was copied there last.
        total_records: records since the flow began.
        total_bytes: bytes of their batches.
        total_reasons: offsets without a record since then, by reason; not those that a backfill has only passed,
            which other ranges account for.
        records: records of the run.
        bytes: bytes of their batches.
    """

    topic: str = ""
    total_records: int = 0
    total_bytes: int = 0
    total_reasons: dict[str, int] = field(default_factory=dict)
    records: int = 0
    bytes: int = 0


def count_copied(ledger: LedgerTable, run: str) -> dict[TopicPartition, Counts]:
    """The counts of every *target* partition that was ever copied to.

    Args:
        ledger: the flow's ledger.
        run: the run whose own counts are given with the totals.
    """
    columns = ["run", "topic", *_KEYS, *_SUMS, "reasons"]
    copied = ledger.read(copied_rows(), ["type", *columns])
    # A topic that receives only backfills has no position, and so no lag.
    own = pc.field("remote_topic").isin(_ordinary_topics(copied))
    copied = copied.filter(own).select(columns).combine_chunks()
    by_partition: dict[TopicPartition, Counts] = defaultdict(Counts)
    for row in _sums(copied, [("topic", "last")]):
        counts = by_partition[TopicPartition(row["remote_topic"], row["partition"])]
        counts.topic = row["topic_last"]
        counts.total_records, counts.total_bytes = row["records_sum"], row["bytes_sum"]
    for row in _sums(copied.filter(pc.field("run") == run)):
        counts = by_partition[TopicPartition(row["remote_topic"], row["partition"])]
        counts.records, counts.bytes = row["records_sum"], row["bytes_sum"]
    for row in sums_of_reasons(copied, _KEYS):
        if row["reason"] in _PASSED:
            continue
        counts = by_partition[TopicPartition(row["remote_topic"], row["partition"])]
        known = counts.total_reasons.get(row["reason"], 0)
        counts.total_reasons[row["reason"]] = known + row["offsets_sum"]
    return dict(by_partition)


def counts_by_topic(
    ledger: LedgerTable, run: str, *, of_backfills: bool
) -> dict[str, tuple[int, int]]:
    """Records and bytes that a run has copied, by source topic.

    Args:
        ledger: the flow's ledger.
        run: the run.
        of_backfills: whether only backfills count; else none does.
    """
    wanted = backfilled_rows() if of_backfills else ordinary_rows()
    rows = ledger.read(wanted & (pc.field("run") == run), ["topic", *_SUMS])
    sums = rows.group_by("topic").aggregate([(name, "sum") for name in _SUMS])
    return {row["topic"]: (row["records_sum"], row["bytes_sum"]) for row in sums.to_pylist()}


def offsets_in_ranges(ledger: LedgerTable) -> int:
    """How many source offsets the flow's ranges have, each as often as a range has it."""
    rows = ledger.read(copied_rows(), ["start", "end"])
    return int(pc.sum(pc.subtract(rows["end"], rows["start"])).as_py() or 0)


def _ordinary_topics(copied: pa.Table) -> pa.Array:
    ordinary = copied.filter(ordinary_rows())["remote_topic"]
    return pc.unique(ordinary).cast(pa.string())


def _sums(table: pa.Table, more: list[tuple[str, str]] | None = None) -> list[dict[str, Any]]:
    sums = [(name, "sum") for name in _SUMS]
    # "last" gives the value of the last row only in a single thread.
    grouped = table.group_by(_KEYS, use_threads=False).aggregate([*sums, *(more or [])])
    return list(grouped.to_pylist())
