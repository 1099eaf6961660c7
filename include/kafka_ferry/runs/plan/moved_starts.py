"""Whether the source's logs start where it says, before the copies of what lies before are deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from kafka_ferry.batched import batched
from kafka_ferry.model import LogBounds, TopicPartition
from kafka_ferry.model.removals import first_of
from kafka_ferry.retry import retry
from kafka_ferry.wire import connect
from kafka_ferry.wire.error_codes import OFFSET_OUT_OF_RANGE
from kafka_ferry.wire.partitions.at_offset import LOGS_AT_ONCE
from kafka_ferry.wire.partitions.fetch import fetch_each

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.model.topic_pair import Pair
    from kafka_ferry.wire import WireCluster

# No record is wanted.
_FETCH_BYTES: Final = 1
_SHOWN: Final = 10


def unproved_starts(
    flow: Flow,
    pairs: Iterable[Pair],
    bounds: Mapping[TopicPartition, LogBounds],
    remote_bounds: Mapping[TopicPartition, LogBounds],
) -> frozenset[TopicPartition]:
    """The *source* partitions whose logs start after their copies', and do not refuse to be read before.

    That a log starts later is said in one answer; that it has nothing before, by the error ``OFFSET_OUT_OF_RANGE``.

    Args:
        flow: the flow.
        pairs: topics with preserved offsets.
        bounds: the source's logs.
        remote_bounds: the target's logs.

    Raises:
        FerryError: if the source does not answer.
    """
    if flow.on_source_start_moved != "follow":
        return frozenset()
    before = {
        source: log.start - 1
        for pair in pairs
        for number in pair.positions
        if (log := bounds.get(source := TopicPartition(pair.topic, number)))
        and (copy := remote_bounds.get(TopicPartition(pair.remote_topic, number)))
        and log.start > copy.start
    }
    if not before:
        return frozenset()
    with connect(flow.source) as cluster:
        refused = {
            tp
            for some in batched(before.items(), LOGS_AT_ONCE)
            for tp in retry(partial(_refused, cluster, dict(some)))
        }
    return frozenset(before.keys() - refused)


def doubt_of_starts(flow: Flow, unproved: Collection[TopicPartition]) -> tuple[str, ...]:
    """A sentence about what ``unproved_starts`` gives; none where that is nothing."""
    if not unproved:
        return ()
    named = first_of(sorted(map(str, unproved)), _SHOWN)
    return (
        f"{flow.source.alias} says that the logs of {named} start later than their copies, and does not refuse to be "
        f"read before: nothing of these is deleted on {flow.target.alias}.",
    )


def _refused(
    cluster: WireCluster, offsets: Mapping[TopicPartition, int]
) -> Iterable[TopicPartition]:
    leaders = cluster.recent_leaders(offsets)
    nodes = {tp: leader.node for tp, leader in leaders.items() if leader.node >= 0}
    with cluster.forget_on_error():
        answers = fetch_each(cluster, nodes, offsets, _FETCH_BYTES)
    return [it.partition for it in answers if it.error == OFFSET_OUT_OF_RANGE]
