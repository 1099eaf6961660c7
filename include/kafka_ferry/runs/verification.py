"""Verifying a run: the ledger's unverified ranges, recounted on the target and judged."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from kafka_ferry.clock import now_ms
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.ledger import (
    LedgerRange,
    VerificationEntry,
    append_entry,
    copied_rows,
    ledger_topic,
)
from kafka_ferry.plan import Plan, TopicPartition
from kafka_ferry.plan.configs import config_key
from kafka_ferry.runs.copied_twice import copied_twice
from kafka_ferry.runs.folder import Reconciliation
from kafka_ferry.runs.judging import raise_unproved, terms_of
from kafka_ferry.runs.others import with_others
from kafka_ferry.runs.returning import leaves_out
from kafka_ferry.spark.recount import recount_all
from kafka_ferry.verify import RangeRow, Recount, judge, partition_rows, range_row, topic_rows
from kafka_ferry.verify.backfills import backfill_rows
from kafka_ferry.verify.claim import Claim
from kafka_ferry.verify.sharing import without_locals

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from pyspark.sql import SparkSession

    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.plan import LogBounds, Topic
    from kafka_ferry.runs.folder import RunFolder
    from kafka_ferry.state import StateFolder
    from kafka_ferry.verify import PartitionRecount, PartitionRow, Verdict
    from kafka_ferry.verify.tables import Rows


def verify_run(
    spark: SparkSession,
    flow: Flow,
    folder: RunFolder,
    ledger: LedgerTable,
    state: StateFolder,
    run: str,
    *,
    everything: bool = False,
) -> Verdict:
    """Verify every range of ``run``, and whatever earlier runs copied and nobody verified.

    Args:
        spark: the session; its executors must reach the target.
        flow: the flow.
        folder: the run's folder, with its plan.
        ledger: the flow's ledger.
        state: the flow's state folder, for Data Docs.
        run: the run's id.
        everything: whether to verify again what was verified before: of the topics that the run is
            about, all that the ledger has.

    Raises:
        VerificationFailed: naming topic, partition and range of what is not proved.
    """
    plan = folder.plan()
    topic = ledger_topic(flow.source.alias)
    window = plan.options.window
    # A backfill that has nothing to do leaves no trace, not even a ledger where there was none.
    has_ledger = plan.ledger_end > 0 or not plan.is_idle_backfill
    through = ledger.project(flow.target, topic) if has_ledger else 0
    # The run's ranges, those of others since it was planned, and those that nobody verified.
    since = min(ledger.verified_through(), plan.ledger_end)
    ranges = list(ledger.ranges(since=since, of_run=run))
    if window:
        # The others are for the flow's own runs, which may be copying at this moment.
        ranges = [entry for entry in ranges if entry.run == run and entry.window]
    elif everything:
        ranges = _with_older(ranges, ledger, plan)
    target = ClusterControl(flow.target)
    preserved = {range_.remote_topic for range_ in plan.ranges if range_.preserved}
    planned = {range_.remote_topic for range_ in plan.ranges}
    planned |= {choice.remote_topic for choice in plan.choices}
    topics = target.topics({entry.target.topic for entry in ranges} | planned)
    by_target, gone = _by_target(ranges, topics, ledger.released())
    recount = partial(recount_all, spark, flow)
    claims = _claims(by_target, ledger)
    recounts = recount(claims)
    if window:
        recounts = {tp: found._replace(beyond=0) for tp, found in recounts.items()}
    if leaves_out(flow):
        recounts = without_locals(recounts, claims)
    else:
        first_at = min((entry.at for entry in ranges), default=0)
        known = {entry.ledger_offset for entry in ranges}
        recounts = with_others(flow, claims, recounts, topics, first_at, recount, known)
    present = _range_rows(by_target, recounts, topics)
    preserved |= {row.remote_topic for row in present if row.preserved}
    logs = target.log_bounds(topics[name] for name in preserved & topics.keys())
    if window:
        there = {topic.topic_id for topic in target.topics(_remote_topics(ledger)).values()}
        twice = copied_twice(ledger, run, ranges, there - ledger.released())
        partitions = backfill_rows(present, plan.ranges, twice)
    else:
        partitions = _partition_rows(flow, plan, present, recounts, logs)
    rows = present + [_range_row(entry, None) for entry in gone]
    of_topics = topic_rows(plan, topics, _set_configs(flow, ledger, topics))
    tables: Rows = {"ranges": rows, "partitions": partitions, "topics": of_topics}
    verdict = judge(tables, terms_of(flow, run, state))
    folder.save_reconciliation(
        Reconciliation(tuple(rows), tuple(partitions), verdict, tuple(of_topics))
    )
    if not verdict.success:
        raise_unproved(flow, run, verdict)
    if ranges and not window:
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


def _remote_topics(ledger: LedgerTable) -> set[str]:
    """The names of all topics that anything was ever copied to."""
    return set(ledger.read(copied_rows(), ["remote_topic"])["remote_topic"].to_pylist())


def _with_older(
    ranges: Iterable[LedgerRange], ledger: LedgerTable, plan: Plan
) -> list[LedgerRange]:
    """The ranges, and all others in the ledger that are of topics which the run is about, in its order."""
    wanted, due = plan.options.topic_filter, {entry.ledger_offset for entry in ranges}
    return [
        entry
        for entry in ledger.ranges(since=0, of_run=plan.run)
        if entry.ledger_offset in due or wanted is None or wanted.matches(entry.copied.topic)
    ]


def _set_configs(
    flow: Flow, ledger: LedgerTable, topics: Mapping[str, Topic]
) -> dict[str, Mapping[str, str]]:
    """By remote topic, the configs that the flow has set there and still looks after."""
    if not flow.sync_topic_configs_enabled:
        return {}
    configs = ledger.applied().configs
    return {name: configs.get(config_key(topic), {}) for name, topic in topics.items()}


def _by_target(
    ranges: Iterable[LedgerRange], topics: Mapping[str, Topic], released: Container[str]
) -> tuple[dict[TopicPartition, list[LedgerRange]], list[LedgerRange]]:
    """The ranges by target partition, and those that went into a topic that is no more, or was given up.

    A topic of the same name that was made since holds none of their records. They are not
    recounted, and cover nothing of a plan: a run fails where its own copy is gone, and does not
    fail for ever for what an earlier one had copied.
    """
    there: dict[TopicPartition, list[LedgerRange]] = defaultdict(list)
    gone = []
    for entry in ranges:
        topic = topics.get(entry.target.topic)
        went_to = entry.copied.remote_topic_id
        if topic and went_to in ("", topic.topic_id) and went_to not in released:
            there[entry.target].append(entry)
        else:
            gone.append(entry)
    return there, gone


def _claims(
    by_target: Mapping[TopicPartition, list[LedgerRange]], ledger: LedgerTable
) -> dict[TopicPartition, list[Claim]]:
    preserved = any(entry.copied.preserved for entries in by_target.values() for entry in entries)
    first = _first_preserved(ledger) if preserved else {}
    return {
        tp: [
            Claim.of(copied, is_first=first.get((tp, copied.remote_topic_id)) == copied.start)
            for copied in (entry.copied for entry in entries)
        ]
        for tp, entries in by_target.items()
    }


def _first_preserved(ledger: LedgerTable) -> dict[tuple[TopicPartition, str], int]:
    """Where the mirror of each *target* partition with preserved offsets begins, by its topic's id too."""
    rows = ledger.read(
        (pc.field("type") == "transaction") & pc.field("preserved"),
        ["remote_topic", "partition", "remote_topic_id", "start"],
    )
    first = rows.group_by(rows.column_names[:3]).aggregate([("start", "min")])
    return {
        (TopicPartition(row["remote_topic"], row["partition"]), row["remote_topic_id"]): row[
            "start_min"
        ]
        for row in first.to_pylist()
    }


def _range_rows(
    by_target: Mapping[TopicPartition, list[LedgerRange]],
    recounts: Mapping[TopicPartition, PartitionRecount],
    topics: Mapping[str, Topic],
) -> list[RangeRow]:
    return [
        _range_row(entry, found, topics[tp.topic])
        for tp, entries in by_target.items()
        for entry, found in zip(entries, recounts[tp].ranges, strict=True)
    ]


def _range_row(entry: LedgerRange, found: Recount | None, topic: Topic | None = None) -> RangeRow:
    if found and not entry.copied.digest:
        # Taken over from another mirror: the records were compared then, and the batches are not ours.
        found = Recount(entry.copied.records, "")
    return range_row(
        entry.copied,
        found,
        run=entry.run,
        ledger_offset=entry.ledger_offset,
        target_is_compacted=topic is not None and topic.is_compacted,
        backfill=entry.window is not None,
    )


def _partition_rows(
    flow: Flow,
    plan: Plan,
    rows: list[RangeRow],
    recounts: Mapping[TopicPartition, PartitionRecount],
    logs: Mapping[TopicPartition, LogBounds],
) -> list[PartitionRow]:
    positions = read_positions(flow.target, flow.name)
    return partition_rows(
        rows,
        plan.ranges,
        {tp: position.offset for tp, position in positions.items()},
        recounts,
        logs,
    )
