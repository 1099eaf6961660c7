"""Recounts of target partitions: those that a run has stored, and what is read for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_ferry.retry import retry, retry_for
from kafka_ferry.verify import PartitionRecount
from kafka_ferry.verify.recount import recount_each
from kafka_ferry.verify.recount_result import as_of
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.absence import Unanswered
from kafka_ferry.wire.partitions.epochs import epoch_ends

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_ferry.config import Flow
    from kafka_ferry.control import ClusterControl
    from kafka_ferry.model import Topic, TopicPartition
    from kafka_ferry.runs.state.stored_recounts import Claims, StoredRecounts
    from kafka_ferry.spark.session import SparkSource

# So long the end of a log is asked for records that it may not have any more.
_TAIL_S: Final = 5.0


def recount_partitions(
    spark: SparkSource, flow: Flow, stored: StoredRecounts | None, claims: Claims
) -> dict[TopicPartition, PartitionRecount]:
    """The recount of each target partition; from the run's folder if it was made for exactly these claims."""
    recounts = stored.of(claims) if stored else {}
    missing = {tp: of_partition for tp, of_partition in claims.items() if tp not in recounts}
    # Where the run has copied nothing, there is little to read.
    quick = {
        tp
        for tp, of_partition in missing.items()
        if all(claim.is_boundary for claim in of_partition)
    }
    if quick:
        recounts |= _recount_quickly(flow, {tp: missing.pop(tp) for tp in sorted(quick)})
    if missing:
        from kafka_ferry.spark.recount import recount_all  # noqa: PLC0415  (PySpark)

        recounts |= recount_all(spark(), flow, missing)
    return recounts


def recount_now(
    spark: SparkSource,
    flow: Flow,
    target: ClusterControl,
    topics: Mapping[str, Topic],
    stored: StoredRecounts | None,
    claims: Claims,
) -> dict[TopicPartition, PartitionRecount]:
    """The recount of each target partition, as its log is after the last of them was read.

    What was read does not count where the log has lost its end since, also if it has grown again; nor, if it was read
    some time ago, where no leader says so.
    """
    recounts = recount_partitions(spark, flow, stored, claims)
    names = sorted({tp.topic for tp in claims})
    logs = target.log_bounds(
        [topics[name] for name in names], "read_uncommitted", wait_s=flow.partition_wait_ms / 1000
    )
    ends = {tp: max(claim.log_end for claim in of_tp) for tp, of_tp in claims.items()}
    doubtful = _truncation_since(
        flow, {tp: ends[tp] for tp in claims.keys() & logs.keys()}, recounts
    )
    doubtful |= {tp for tp in claims if (logs[tp].end < ends[tp] if tp in logs else bool(stored))}
    if doubtful:
        recounts |= recount_partitions(
            spark, flow, None, {tp: claims[tp] for tp in sorted(doubtful)}
        )
    return {
        tp: as_of(logs[tp].start, claims[tp], of_tp) if tp in logs else of_tp
        for tp, of_tp in recounts.items()
    }


def _truncation_since(
    flow: Flow,
    ends: Mapping[TopicPartition, int],
    recounts: Mapping[TopicPartition, PartitionRecount],
) -> set[TopicPartition]:
    """The partitions whose logs have lost what was read of them, by its leader epoch (KIP-320), or do not say it.

    Args:
        flow: the flow.
        ends: by *target* partition that has a leader, where its log ended then at least.
        recounts: what was found then.
    """
    epochs = {tp: recounts[tp].epoch for tp in ends if recounts[tp].epoch >= 0}
    if not epochs:
        return set()
    with connect(flow.target) as cluster:
        now = retry(lambda: epoch_ends(cluster, epochs))
    return {
        tp
        for tp, epoch in epochs.items()
        if tp not in now or now[tp].epoch != epoch or now[tp].end < ends[tp]
    }


def _recount_quickly(flow: Flow, claims: Claims) -> dict[TopicPartition, PartitionRecount]:
    """The recounts of partitions to which the run has copied nothing; their logs may not show all of what is there."""
    try:
        with retry_for(_TAIL_S):
            return dict(recount_each(flow.target, [(tp, it, None) for tp, it in claims.items()]))
    except Unanswered as error:
        if len(claims) > 1:
            each = (_recount_quickly(flow, {tp: it}) for tp, it in claims.items())
            return {tp: recount for recounts in each for tp, recount in recounts.items()}
        return {tp: PartitionRecount.of_unread(len(it), str(error)) for tp, it in claims.items()}
