"""Which clusters a topic's records came through, by the clusters' own ids: none of them gets them again. Pure.

A name tells where a topic came from only where all flows agree on aliases and policies. What copying
itself knows is in the positions: beside each position a flow commits, in its group on its target,
the ids of all clusters that the topic's records came through. Whoever copies on from there reads it::

    A --------> B --------> C          B's orders: (A)       C's orders: (A, B)
       orders      orders   |
    A <---------------------+          no: A is among (A, B)

It needs no record to have arrived: a topic that is empty has a position too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_ferry.model.cluster_state import Found, Topic
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.topic_pair import Pair


def origins_of(
    topics: Mapping[str, Topic], positions: Iterable[tuple[TopicPartition, Position]]
) -> dict[str, tuple[str, ...]]:
    """The ids of the clusters that the records of each of ``topics`` came through before they came here.

    Args:
        topics: topics of one cluster, by name.
        positions: those of all flows into that cluster; what they say of an earlier topic of the
            same name counts for nothing.

    Returns:
        An entry for each topic that any flow copied to, the ids sorted.
    """
    found: dict[str, set[str]] = {}
    for tp, position in positions:
        topic = topics.get(tp.topic)
        if topic and position.origins and same_topic(position.remote_topic_id, topic.topic_id):
            found.setdefault(tp.topic, set()).update(position.origins)
    return {topic: tuple(sorted(origins)) for topic, origins in found.items()}


def origins_beyond(found: Found, pair: Pair) -> tuple[str, ...]:
    """What the target is to know of where the records in the remote topic of ``pair`` came from.

    What positions in that very topic say already stays: who may not ask the source's groups today
    could perhaps yesterday, and what was copied then is still there.
    """
    known = {found.source_cluster_id, *found.origins.get(pair.topic, ())}
    for position in pair.positions.values():
        if pair.is_of_remote(position):
            known.update(position.origins)
    return tuple(sorted(known))


def same_topic(known: str, there: str) -> bool:
    """Whether two ids may be of one topic; brokers before 2.8 have none."""
    return "" in (known, there) or known == there
