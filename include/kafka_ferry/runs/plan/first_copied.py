"""Where the copying of partitions with preserved offsets began."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from kafka_ferry.batches import MalformedBatch, is_empty_batch
from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError
from kafka_ferry.model import LogBounds, TopicPartition
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.plan.offsets.start_offsets import start_by_ledger
from kafka_ferry.wire import WireCluster, connect
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import stored_batches

log = logging.getLogger(__name__)


def confirm(
    flow: Flow,
    first: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, LogBounds],
    pairs: Iterable[Pair],
) -> dict[TopicPartition, int]:
    """What ``first_copied_offsets`` gives, without the partitions whose logs on the target contradict it.

    Below its first copied offset, a log has nothing but the empty records that filled it. A table of the
    ledger that lacks entries must not get copied records deleted. Looks only at logs whose start a plan would
    move.

    Args:
        flow: the flow.
        first: what it gives.
        bounds: the target's logs.
        pairs: topics that were begun.
    """
    doubtful = {}
    for pair in pairs:
        for number in pair.positions:
            tp = TopicPartition(pair.remote_topic, number)
            wanted = start_by_ledger(flow, pair, first.get(tp, 0))
            log_there = bounds.get(tp)
            if log_there and log_there.start < min(wanted, log_there.end):
                doubtful[tp] = log_there.start, wanted
    if not doubtful:
        return dict(first)
    with connect(flow.target) as target:
        contradicted = {tp for tp, span in doubtful.items() if _holds_copies(target, tp, *span)}
    return {tp: at for tp, at in first.items() if tp not in contradicted}


def _holds_copies(target: WireCluster, tp: TopicPartition, start: int, first: int) -> bool:
    """Whether a log has records other than empty ones in ``[start, first)``, or cannot be read there."""
    where = f"{tp} on {target.alias} starts at {start}, before the first copied offset {first}"
    try:
        batches = stored_batches(target, partition_log(target, tp), start, first)
        if all(batch.header.is_control or is_empty_batch(batch) for batch in batches):
            return False
        log.warning("%s, and holds other records than empty ones there: they are left.", where)
    except (FerryError, MalformedBatch) as error:
        log.warning("%s, and cannot be read there, so that all is left: %s", where, error)
    return True
