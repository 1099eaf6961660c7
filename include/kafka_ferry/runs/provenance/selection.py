"""Which of the source's topics a flow mirrors now, by what both clusters say."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.model import Topic
from kafka_ferry.plan import select
from kafka_ferry.plan.topics.topic_filter import Selection
from kafka_ferry.runs.provenance.heartbeats import heartbeat_topics
from kafka_ferry.runs.provenance.opposite_flow import returned_topics
from kafka_ferry.runs.provenance.upstream_flows import find_upstream


def selection_now(
    flow: Flow,
    names: Collection[str],
    topics: Mapping[str, Topic],
    copied: Mapping[str, str],
) -> Selection:
    """What becomes of each topic of the source.

    Args:
        flow: the flow.
        names: the source's topics.
        topics: those that the flow selects by their names, as the source describes them.
        copied: the remote topic of each topic that was ever copied.

    Raises:
        FerryError: a cluster does not answer.
    """
    target_id = ClusterControl(flow.target).cluster_id()
    upstream = find_upstream(flow, ClusterControl(flow.source), names, topics)
    returned = returned_topics(flow, upstream, target_id)
    beats = heartbeat_topics(flow, topics, copied)
    return select(flow, names, upstream.origins, target_id, returned, beats)
