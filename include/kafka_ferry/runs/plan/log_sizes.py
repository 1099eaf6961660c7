"""Asks the source how much there is to copy, and what it may delete before that is done."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Final

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.cluster_state import SourceLogs
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.plan.schedule.retention_risks import Questions, questions, uncopied_partitions
from kafka_ferry.retry import retry
from kafka_ferry.wire import WireCluster, connect
from kafka_ferry.wire.partitions.list_offsets import local_starts
from kafka_ferry.wire.partitions.log_dirs import log_sizes
from kafka_ferry.wire.partitions.times import LookedUp, look_up

# Every record with a timestamp is at or after it.
_FIRST: Final = 0


def with_sizes(
    flow: Flow, logs: SourceLogs, pairs: Iterable[Pair]
) -> tuple[SourceLogs, tuple[str, ...]]:
    """``logs`` with the input of the plan's estimates and risks, and what of it is not known, in sentences.

    Raises:
        ClusterUnreachable: if the source does not answer for a minute.
    """
    pairs = list(pairs)
    waiting = [source for pair in pairs for source in uncopied_partitions(pair, logs)]
    if not waiting:
        return logs, ()
    questions_of = questions(flow, logs, pairs, now_ms())
    tiered = {pair.topic for pair in pairs if pair.source and pair.source.is_tiered}
    with connect(flow.source) as cluster:
        return retry(lambda: _ask(cluster, logs, waiting, questions_of, tiered))


def _ask(
    cluster: WireCluster,
    logs: SourceLogs,
    waiting: Iterable[TopicPartition],
    asked: Questions,
    tiered: Collection[str],
) -> tuple[SourceLogs, tuple[str, ...]]:
    leaders = cluster.leaders(waiting)
    nodes = {tp: leader.node for tp, leader in leaders.items() if leader.node >= 0}
    unknown = []
    try:
        sizes = log_sizes(cluster, nodes)
    except FerryError as error:
        # Brokers before 1.0 lack this request, and it takes a permission that copying does not.
        if error.transient:
            raise
        sizes = {}
        unknown.append(f"The number of bytes to copy is not known. {error}")
    expiring = look_up(cluster, nodes, asked.expiring)
    recent = look_up(cluster, nodes, asked.recent)
    deletions = look_up(cluster, nodes, asked.deletions)
    oldest = look_up(cluster, nodes, dict.fromkeys(asked.oldest, _FIRST))
    remote = {tp: node for tp, node in nodes.items() if tp.topic in tiered}
    refused = expiring.refused | recent.refused | deletions.refused | oldest.refused
    logs = replace(
        logs,
        sizes=sizes,
        local_starts=local_starts(cluster, remote) if remote else {},
        # Where all records are older, all of them may go.
        expiring=_first_since(expiring, logs),
        deletions=_first_since(deletions, logs),
        recent={tp: entry.offset for tp, entry in recent.entries.items() if entry},
        oldest={
            tp: entry.timestamp
            for tp, entry in oldest.entries.items()
            if entry and entry.timestamp >= 0
        },
    )
    return logs, (*unknown, *_unknown_notes(refused))


def _first_since(looked_up: LookedUp, logs: SourceLogs) -> dict[TopicPartition, int]:
    """The first offset of a time or later, the log's end where all records are older."""
    return {
        tp: entry.offset if entry else logs.bounds[tp].end
        for tp, entry in looked_up.entries.items()
    }


def _unknown_notes(refused: Mapping[TopicPartition, FerryError]) -> Iterator[str]:
    """A sentence for each topic whose brokers do not say when records were written."""
    for _, of_topic in groupby(sorted(refused), attrgetter("topic")):
        partitions = list(of_topic)
        names = ", ".join(map(str, partitions))
        yield f"The age of the records of {names} is not known. {refused[partitions[0]]}"
