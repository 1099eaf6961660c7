"""How far partitions are behind when a run has ended: in offsets, and by the age of the first that is not copied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_ferry.batched import batched
from kafka_ferry.batches import first_time
from kafka_ferry.clock import now_ms
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.model import Topic, TopicPartition
from kafka_ferry.runs.plan.log_density import batches_of, peek
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.by_leader import by_node

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.runs.state.run_context import RunContext
    from kafka_ferry.wire import WireCluster

_AT_ONCE: Final = 250
_BYTES: Final = 64 * 1024
# Partitions whose first batch is larger are fetched one by one, up to this many; the rest stay unknown.
_ALONE: Final = 100


class PartitionLag(NamedTuple):
    """How far one partition is behind.

    Attributes:
        records: offsets on the source that are not yet accounted for.
        seconds: how old the first of them is, 0.0 where there is none, None where it is not known.
    """

    records: int
    seconds: float | None


def find_lag(
    run: RunContext, partitions: Mapping[TopicPartition, TopicPartition]
) -> dict[TopicPartition, PartitionLag]:
    """How far partitions are behind; one whose source topic or leader is gone or not shown is absent.

    Args:
        run: the run, whose ledger has all that it has copied.
        partitions: the source's partitions by the target's.

    Raises:
        ClusterUnreachable: if a cluster does not answer.
        AccessDenied: without the right to look.
    """
    if not partitions:
        return {}
    flow = run.flow
    source = ClusterControl(flow.source)
    ids = source.topic_ids({tp.topic for tp in partitions.values()}, only_visible=True)
    bounds = source.log_bounds(_topics(partitions.values(), ids), flow.isolation_level)
    # Other clients may commit in the group: the ledger takes precedence.
    positions = read_positions(flow.target, flow.name) | run.ledger.positions()
    records: dict[TopicPartition, int] = {}
    places: dict[TopicPartition, int] = {}
    for target, tp in partitions.items():
        if log := bounds.get(tp):
            position = positions.get(target)
            is_known = position and position.topic_id in ("", ids[tp.topic])
            at = position.offset if position and is_known else log.start
            records[target] = max(0, log.end - at)
            if at < log.end:
                places[tp] = max(at, log.start)
    times = _times(flow, places)
    now = now_ms()
    lags = {}
    for target, behind in records.items():
        time = times.get(partitions[target]) if behind else now
        seconds = None if time is None else max(0.0, (now - time) / 1000)
        lags[target] = PartitionLag(behind, seconds)
    return lags


def _topics(partitions: Iterable[TopicPartition], ids: Mapping[str, str]) -> list[Topic]:
    counts: dict[str, int] = defaultdict(int)
    for tp in partitions:
        counts[tp.topic] = max(counts[tp.topic], tp.partition + 1)
    return [Topic(name, ids[name], counts[name]) for name in ids]


def _times(flow: Flow, places: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The time of the batch at each offset on the source, by its header."""
    if not places:
        return {}
    times: dict[TopicPartition, int] = {}
    with connect(flow.source) as cluster:
        leaders = cluster.leaders(places)
        nodes = by_node({tp: leader.node for tp, leader in leaders.items() if leader.node >= 0})
        for node, partitions in nodes.items():
            for some in batched(partitions, _AT_ONCE):
                times |= _times_at(cluster, node, {tp: places[tp] for tp in some})
            # A broker leaves out a batch that does not fit, except for the first partition of a request.
            left = (tp for tp in partitions if tp not in times)
            for tp in list(islice(left, _ALONE)):
                times |= _times_at(cluster, node, {tp: places[tp]})
    return times


def _times_at(
    cluster: WireCluster, node: int, places: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The times of the first batches of one broker's partitions, as far as it answers and they have one."""
    firsts = {
        fetched.partition: next(batches_of(fetched.records), None)
        for fetched in peek(cluster, node, places, _BYTES)
    }
    return {
        tp: first_time(batch.header)
        for tp, batch in firsts.items()
        if batch and batch.header.max_timestamp >= 0
    }
