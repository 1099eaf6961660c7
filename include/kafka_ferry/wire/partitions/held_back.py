"""What an open transaction keeps from ``read_committed`` readers, since when, and whose it is."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Final

from kafka_ferry.batches import Batch, first_time
from kafka_ferry.errors import FerryError
from kafka_ferry.model.cluster_state import HeldBack
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.partitions.fetch import batch_past, fetch_one
from kafka_ferry.wire.partitions.list_offsets import (
    LATEST,
    READ_COMMITTED,
    high_watermarks,
    log_offsets,
)

log = logging.getLogger(__name__)

# Each takes two fetches.
_AT_MOST: Final = 100


def read_held_back(
    cluster: WireCluster, stable_ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, HeldBack]:
    """Which partitions have records after their last stable offset, at most a hundred of them.

    The first record of the oldest open transaction is at the last stable offset: its batch says when that
    transaction began, and which producer's it is.

    Args:
        cluster: the cluster, with no request on its way.
        stable_ends: last stable offsets, by partition.

    Raises:
        FerryError: if a cluster does not say for a minute where logs end.
    """
    led: dict[TopicPartition, int] = {}

    def ask() -> dict[TopicPartition, int]:
        with cluster.forget_on_error():
            leaders = cluster.recent_leaders(stable_ends)
            led.update({tp: leader.node for tp, leader in leaders.items() if leader.node >= 0})
            return high_watermarks(cluster, led)

    ends = retry(ask) if stable_ends else {}
    more = [tp for tp, end in ends.items() if end > stable_ends[tp]]
    held = {}
    for tp in islice(more, _AT_MOST):
        try:
            begin = _open_batch(cluster, led[tp], tp, stable_ends[tp])
        except FerryError as error:
            log.warning("What is open in %s is unknown: %s", tp, error)
            continue
        if begin:
            offsets = ends[tp] - stable_ends[tp]
            held[tp] = HeldBack(offsets, first_time(begin.header), begin.header.producer_id)
    return held


def wait_for_shown(cluster: WireCluster, ends: Mapping[TopicPartition, int]) -> set[TopicPartition]:
    """Wait while open transactions keep what lies below some offsets from readers, as long as an error is retried.

    Args:
        cluster: the cluster, with no request on its way.
        ends: the offsets, by partition.

    Returns:
        The partitions that are known to show all below them.
    """
    shown = set[TopicPartition]()

    def ask() -> None:
        with cluster.forget_on_error():
            leaders = cluster.recent_leaders(ends)
            led = {tp: leader.node for tp, leader in leaders.items() if leader.node >= 0}
            # In this order: what is open at first and ends in between is not waited for.
            whole = high_watermarks(cluster, led)
            stable = log_offsets(cluster, led, (LATEST,), READ_COMMITTED)
        shown.update(tp for tp, (end,) in stable.items() if end >= ends[tp])
        for tp, (end,) in stable.items():
            if end < min(ends[tp], whole[tp]):
                raise _Open(f"An open transaction on {cluster.alias} hides {tp} from {end} on.")

    with suppress(FerryError):
        retry(ask)
    return shown


class _Open(FerryError):
    """A transaction may end in a while."""

    transient = True


def _open_batch(cluster: WireCluster, node: int, tp: TopicPartition, offset: int) -> Batch | None:
    """The batch at a last stable offset, None where that has moved on."""
    if fetch_one(cluster, node, tp, offset, max_bytes=1).end > offset:
        return None
    fetched = fetch_one(cluster, node, tp, offset, max_bytes=1, committed=False)
    batch = batch_past(cluster, fetched, offset)
    return batch if batch and batch.header.is_transactional else None
