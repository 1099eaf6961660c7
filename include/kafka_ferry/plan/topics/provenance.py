"""Which clusters a topic's records came through, by cluster id: records never return to any of them. Pure.

A name says where a topic came from only where all flows agree on aliases and policies. So with each
position a flow commits, in its group on its target, the ids of all clusters that the topic's records
came through. Flows that copy from there read them::

    A --------> B --------> C          B's orders: (A)       C's orders: (A, B)
       orders      orders   |
    A <---------------------+          no: A is among (A, B)

No record needs to have arrived: an empty topic has a position too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafka_ferry.model.cluster_state import ClusterState, Topic
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.topic_pair import Pair


def origins_of(
    topics: Mapping[str, Topic], positions: Iterable[tuple[TopicPartition, Position]]
) -> dict[str, tuple[str, ...]]:
    """The ids of the clusters that the records of each of ``topics`` came through before they came here.

    Args:
        topics: topics of one cluster, by name.
        positions: those of all flows into that cluster; those of an earlier topic of the same
            name do not count.

    Returns:
        An entry for each topic that any flow copied to, the ids sorted.
    """
    origins_by_topic: dict[str, set[str]] = {}
    for tp, position in positions:
        topic = topics.get(tp.topic)
        if topic and position.origins and same_topic(position.remote_topic_id, topic.topic_id):
            origins_by_topic.setdefault(tp.topic, set()).update(position.origins)
    return {topic: tuple(sorted(origins)) for topic, origins in origins_by_topic.items()}


def origins_beyond(state: ClusterState, pair: Pair) -> tuple[str, ...]:
    """The origins to commit on the target for the remote topic of ``pair``.

    Origins in that topic's positions stay: a flow that may not read the source's groups today may
    have done so yesterday, and the records copied then are still there.
    """
    known = {state.source.cluster_id, *state.other_flows.origins.get(pair.topic, ())}
    for position in pair.positions.values():
        if pair.is_of_remote(position):
            known.update(position.origins)
    return tuple(sorted(known))


def brings_same_records(position: Position, topic: Topic, origins: Collection[str]) -> bool:
    """Whether the flow with this position brings records to its remote topic that another flow brings there too.

    Two topics of one source are different records, unless both came there from further clusters.

    Args:
        position: the one flow's position in the remote topic.
        topic: the other flow's source topic.
        origins: the ids of the clusters that its records come through, the source's among them.
    """
    if topic.topic_id and position.topic_id == topic.topic_id:
        return True
    shared = set(origins) & set(position.origins)
    return bool(shared) and len(set(origins) | set(position.origins)) > 1


def same_topic(known: str, current: str) -> bool:
    """Whether two ids may belong to one topic; brokers before 2.8 have none."""
    return "" in (known, current) or known == current
