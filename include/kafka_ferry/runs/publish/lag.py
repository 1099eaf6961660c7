"""How far the target is behind the source, in the manner of Kafka's consumer group tool."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.model import TopicPartition
from kafka_ferry.plan import select, select_topics
from kafka_ferry.runs.provenance.opposite_flow import returned_topics
from kafka_ferry.runs.provenance.upstream_flows import find_upstream
from kafka_ferry.runs.state.flow_state import flow_ledger
from kafka_ferry.runs.state.known_positions import known_positions


@dataclass(frozen=True, slots=True)
class Lag:
    """One source partition's state.

    Attributes:
        topic: the source's topic.
        partition: the partition.
        position: the next source offset to copy, None where none was ever committed.
        log_start: the first offset that the source still holds.
        log_end: the offset after the last one that the flow's isolation level shows.
        moved_to: what the flow's group says where the ledger has another position, None where they agree.
    """

    topic: str
    partition: int
    position: int | None
    log_start: int
    log_end: int
    moved_to: int | None = None

    @property
    def lag(self) -> int:
        """Offsets that are on the source and not yet accounted for; 0 for a log that was cut back."""
        behind = self.log_end - (self.log_start if self.position is None else self.position)
        return max(0, behind)


def lag(flow: Flow) -> list[Lag]:
    """The lag of each partition that ``flow`` mirrors, by topic and partition; by its ledger.

    Raises:
        ClusterUnreachable: if a cluster does not answer.
        AccessDenied: without the right to look.
    """
    source = ClusterControl(flow.source)
    names = source.topic_names()
    topics = source.topics(select_topics(flow, names)[0])
    upstream = find_upstream(flow, source, names, topics)
    target = ClusterControl(flow.target)
    target_id = target.cluster_id()
    returned = returned_topics(flow, upstream, target_id)
    remote_names = select(flow, names, upstream.origins, target_id, returned).names
    mirrored = [topic for name, topic in topics.items() if name in remote_names]
    bounds = source.log_bounds(mirrored, flow.isolation_level)
    known = known_positions(flow, target, flow_ledger(flow))
    rows = []
    for tp, log in sorted(bounds.items()):
        remote = TopicPartition(remote_names[tp.topic], tp.partition)
        position = known.positions.get(remote)
        rows.append(
            Lag(
                tp.topic,
                tp.partition,
                position.offset if position else None,
                log.start,
                log.end,
                known.moved.get(remote),
            )
        )
    return rows
