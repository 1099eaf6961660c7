"""Verifying a run: the ledger's unverified ranges, recounted on the target and judged."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING

from kafka_ferry.clock import now_ms
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.errors import VerificationFailed
from kafka_ferry.ledger import LedgerRange, VerificationEntry, append_entry, ledger_topic
from kafka_ferry.plan import Plan, TopicPartition
from kafka_ferry.runs.folder import Reconciliation
from kafka_ferry.spark.recount import recount_all
from kafka_ferry.verify import RangeRow, judge, partition_rows, range_row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.runs.folder import RunFolder
    from kafka_ferry.state import StateFolder
    from kafka_ferry.verify import PartitionRow, Verdict
    from kafka_ferry.verify.recount import PartitionRecount

log = logging.getLogger(__name__)

_MAX_FAILURES_SHOWN = 20


def verify_run(
    spark: SparkSession,
    flow: Flow,
    folder: RunFolder,
    ledger: LedgerTable,
    state: StateFolder,
    run: str,
) -> Verdict:
    """Verify every range of ``run``, and whatever earlier runs copied and nobody verified.

    Raises:
        VerificationFailed: naming topic, partition and range of what is not proved.
    """
    plan = folder.plan()
    topic = ledger_topic(flow.source.alias)
    through = ledger.project(flow.target, topic)
    # The run's ranges, those of others since it was planned, and those that nobody verified.
    since = min(ledger.verified_through(), plan.ledger_end)
    ranges = list(ledger.ranges(since=since, of_run=run))
    by_target: dict[TopicPartition, list[LedgerRange]] = defaultdict(list)
    for entry in ranges:
        by_target[entry.target].append(entry)
    recounts = recount_all(
        spark,
        flow,
        {tp: [entry.copied.segments for entry in entries] for tp, entries in by_target.items()},
    )
    rows = _range_rows(flow, by_target, recounts)
    partitions = _partition_rows(flow, plan, rows, recounts)
    docs = state.local_path / "data_docs" if state.local_path else None
    verdict = judge(rows, partitions, run=run, flow=flow.name, docs=docs)
    folder.save_reconciliation(Reconciliation(tuple(rows), tuple(partitions), verdict))
    if not verdict.success:
        shown = "\n  ".join(verdict.failures[:_MAX_FAILURES_SHOWN])
        raise VerificationFailed(f"{flow.name}, run {run}, is not proved complete:\n  {shown}")
    if ranges:
        verified = VerificationEntry(
            flow=flow.name,
            run=run,
            at=now_ms(),
            through=through,
            ranges=len(rows),
            records=sum(row.target_records for row in rows),
        )
        append_entry(flow, verified)
    return verdict


def _range_rows(
    flow: Flow,
    by_target: Mapping[TopicPartition, list[LedgerRange]],
    recounts: Mapping[TopicPartition, PartitionRecount],
) -> list[RangeRow]:
    topics = ClusterControl(flow.target).topics({tp.topic for tp in by_target})
    return [
        range_row(
            entry.copied,
            found,
            run=entry.run,
            ledger_offset=entry.ledger_offset,
            target_is_compacted="compact" in topics[tp.topic].configs.get("cleanup.policy", ""),
        )
        for tp, entries in by_target.items()
        for entry, found in zip(entries, recounts[tp].ranges, strict=True)
    ]


def _partition_rows(
    flow: Flow,
    plan: Plan,
    rows: list[RangeRow],
    recounts: Mapping[TopicPartition, PartitionRecount],
) -> list[PartitionRow]:
    positions = read_positions(flow.target, flow.name)
    return partition_rows(
        rows,
        {range_.source: (range_.start, range_.end) for range_ in plan.ranges},
        {tp: position.offset for tp, position in positions.items()},
        {tp: found.beyond for tp, found in recounts.items()},
        remote_topics={range_.topic: range_.remote_topic for range_ in plan.ranges},
    )
