"""Copies one writer's ranges of a flow: the work of a task, in Spark or elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from kafka_ferry.batches import LIMITING_CONFIGS, BatchFilter, TopicLimits
from kafka_ferry.copy.copier import Limits, Outage, copy_ranges
from kafka_ferry.copy.outcome import Outcome
from kafka_ferry.copy.rate_limit import RateLimit
from kafka_ferry.copy.record_changes import NO_CHANGES, ChangedRanges, RecordChanges
from kafka_ferry.copy.source.cursor import ReadRules
from kafka_ferry.copy.source.opposite_flow_filter import ReturnedRecords
from kafka_ferry.copy.target.backfill_progress import Backfilled
from kafka_ferry.copy.target.ledger_recovery import LedgerRecovery
from kafka_ferry.copy.target.transactional_writer import (
    TransactionalWriter,
    backfill_writer,
    preserved_writer,
    translated_writer,
)
from kafka_ferry.copy.target.writer_settings import WriterSettings
from kafka_ferry.retry import retry_for
from kafka_ferry.wire.topic_configs import topic_configs

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.copy.source.reader import Reader
    from kafka_ferry.model import Position, Range, TopicPartition
    from kafka_ferry.wire import WireCluster

# Smaller answers would only cost more requests.
_LEAST_FETCH: Final = 64 * 1024


def copy_for_flow(
    flow: Flow,
    run: str,
    ranges: Sequence[Range],
    rate: RateLimit | None = None,
    changes: RecordChanges = NO_CHANGES,
    *,
    since: int | None = None,
) -> list[Outcome]:
    """Copy ``ranges``, one or more, as ``flow`` says.

    Args:
        flow: the flow, with the secrets that its clusters need.
        run: the run's id, for positions and ledger.
        ranges: all of one writer, with offsets kept in the same way, at most one of a partition;
            all of one backfill, or none of any.
        rate: how fast to send, shared with the task's other ranges; None for no limit.
        changes: what changes their records.
        since: the ledger offset from which on the run's beginning is, or that of a newer one, which may have other
            writers; None where no run has begun for these ranges.

    Returns:
        An outcome for each range, in the order given.
    """
    limits_by_topic = _LimitsByTopic(flow, offsets_kept=ranges[0].preserved)
    returned = ReturnedRecords(flow, ranges)
    backfilled = Backfilled(flow, run, ranges) if ranges[0].backfill else None
    limits = _limits(flow, ranges[0])
    recovery = LedgerRecovery(flow)
    # Before anything is read, the writer has asked for the limits of all topics.
    rules = _read_rules(flow, ranges[0], limits, rate, limits_by_topic.known)
    changed = ChangedRanges(flow, ranges, changes)

    def read(starts: Mapping[Range, Position]) -> Reader:
        windows = backfilled.windows(starts) if backfilled else {}
        how = replace(
            rules,
            epochs=lambda range_: recovery.epochs(range_.target, starts[range_]),
            filters=_by_partition(returned.of(starts), windows),
        )
        return changed.open(starts, how)

    changed.open_ahead()
    settings = WriterSettings.of(flow, run, ranges[0].writer, limits_by_topic.of, since=since)
    with retry_for(limits.wait_s):
        writer = _writer(flow, settings, ranges[0], backfilled)
        try:
            outage = outage_of(flow.name, run)
            first, *rest = copy_ranges(ranges, read, writer, limits, rate, outage)
            return [replace(first, late_schemas=changed.late_schemas), *rest]
        finally:
            writer.close()
            changed.close()


def _limits(flow: Flow, one: Range) -> Limits:
    """The limits of ranges that are all written as ``one`` of them is."""
    # Neither is possible where offsets are preserved: the plan refuses them, and so does the copier.
    may_go_back = not one.preserved
    return Limits(
        flow.transaction_max_bytes,
        flow.transaction_max_ms,
        append_recreated=may_go_back and flow.on_source_topic_recreated == "append",
        rewind=may_go_back and flow.on_source_divergence == "continue" and not one.backfill,
        wait_s=flow.partition_wait_ms / 1000,
    )


def _read_rules(
    flow: Flow,
    one: Range,
    limits: Limits,
    rate: RateLimit | None,
    limits_by_topic: Mapping[str, TopicLimits],
) -> ReadRules:
    """How ranges are read that are all written as ``one`` of them is."""
    return ReadRules(
        max_bytes=_fetch_bytes(flow, rate),
        wait_s=limits.wait_s,
        committed=flow.isolation_level == "read_committed",
        # Records that old expire while they are copied: the ledger names them, and so does the proof.
        skip_lost=flow.on_source_truncation == "continue" or one.backfill is not None,
        rewind=limits.rewind,
        limits_by_topic=limits_by_topic,
    )


@lru_cache(maxsize=1)
def outage_of(flow: str, run: str) -> Outage:  # noqa: ARG001
    """What the tasks of a run in this process share: otherwise each would wait for a target that is gone."""
    return Outage()


def _writer(
    flow: Flow, settings: WriterSettings, one: Range, backfilled: Backfilled | None
) -> TransactionalWriter:
    """The writer of ranges that are all written as ``one`` of them is."""
    if backfilled:
        return backfill_writer(settings, backfilled)
    if one.preserved:
        return preserved_writer(settings, fill=flow.fill)
    return translated_writer(settings)


def _by_partition(
    *filters: Mapping[TopicPartition, BatchFilter],
) -> Mapping[TopicPartition, Sequence[BatchFilter]]:
    by_source = defaultdict(list)
    for of_partitions in filters:
        for source, batch_filter in of_partitions.items():
            by_source[source].append(batch_filter)
    return by_source


def _fetch_bytes(flow: Flow, limit: RateLimit | None) -> int:
    """How much to fetch at a time: under a rate limit, no more than can be sent in a second."""
    if limit is None or not limit.rate.bytes_per_s:
        return flow.fetch_max_bytes
    return min(flow.fetch_max_bytes, max(limit.rate.bytes_per_s, _LEAST_FETCH))


class _LimitsByTopic:
    """The limits of the flow's remote topics, read from the target once.

    Attributes:
        known: those that were read, by topic.
    """

    def __init__(self, flow: Flow, *, offsets_kept: bool) -> None:
        self._flow = flow
        self._offsets_kept = offsets_kept
        self.known: dict[str, TopicLimits] = {}

    def of(self, target: WireCluster, topics: AbstractSet[str]) -> Mapping[str, TopicLimits]:
        """The limits of each of ``topics``; the broker's defaults for one that does not exist."""
        if unknown := topics - self.known.keys():
            configs = topic_configs(target, unknown, LIMITING_CONFIGS)
            for name in unknown:
                self.known[name] = TopicLimits.of_topic(
                    configs.get(name, {}),
                    join_below=self._flow.join_batches_below,
                    offsets_kept=self._offsets_kept,
                )
        return self.known
