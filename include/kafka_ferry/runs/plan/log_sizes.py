"""Asks the source how much there is to copy, and what it may delete before that is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Final

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError
from kafka_ferry.model import Found, TopicPartition
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.plan.schedule.retention_risks import Questions, questions, uncopied
from kafka_ferry.retry import retry
from kafka_ferry.wire import WireCluster, connected
from kafka_ferry.wire.partitions.log_dirs import log_sizes
from kafka_ferry.wire.partitions.times import look_up

# Every record with a timestamp is at or after it.
_FIRST: Final = 0


def with_sizes(flow: Flow, found: Found, pairs: Iterable[Pair]) -> Found:
    """``found`` with the input of the plan's estimates and risks.

    Raises:
        ClusterUnreachable: if the source does not answer for a minute.
    """
    pairs = list(pairs)
    waiting = [source for pair in pairs for source in uncopied(pair, found)]
    if not waiting:
        return found
    asked = questions(flow, found, pairs, now_ms())
    with connected(flow.source) as cluster:
        return retry(lambda: _ask(cluster, found, waiting, asked))


def _ask(
    cluster: WireCluster, found: Found, waiting: Iterable[TopicPartition], asked: Questions
) -> Found:
    leaders = cluster.leaders(waiting)
    nodes = {tp: leader.node for tp, leader in leaders.items() if leader.node >= 0}
    unknown = found.unknown
    try:
        sizes = log_sizes(cluster, nodes)
    except FerryError as error:
        # Brokers before 1.0 lack this request, and it takes a permission that copying does not.
        if error.transient:
            raise
        sizes = {}
        unknown += (f"The number of bytes to copy is not known. {error}",)
    expiring = look_up(cluster, nodes, asked.expiring)
    recent = look_up(cluster, nodes, asked.recent)
    oldest = look_up(cluster, nodes, dict.fromkeys(asked.oldest, _FIRST))
    refused = expiring.refused | recent.refused | oldest.refused
    return replace(
        found,
        sizes=sizes,
        # Where all records are older, all of them may go.
        expiring={
            tp: entry.offset if entry else found.bounds[tp].end
            for tp, entry in expiring.entries.items()
        },
        recent={tp: entry.offset for tp, entry in recent.entries.items() if entry},
        oldest={
            tp: entry.timestamp
            for tp, entry in oldest.entries.items()
            if entry and entry.timestamp >= 0
        },
        unknown=(*unknown, *_untold(refused)),
    )


def _untold(refused: Mapping[TopicPartition, FerryError]) -> Iterator[str]:
    """A sentence for each topic whose brokers do not say when records were written."""
    for _, of_topic in groupby(sorted(refused), attrgetter("topic")):
        partitions = list(of_topic)
        named = ", ".join(map(str, partitions))
        yield f"The age of the records of {named} is not known. {refused[partitions[0]]}"
