"""Which of the source's topics a flow mirrors now, by what both clusters say."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import FerryError
from kafka_ferry.model import Topic
from kafka_ferry.plan import select, select_topics
from kafka_ferry.plan.topics.missing import named_topics
from kafka_ferry.plan.topics.topic_filter import Selection
from kafka_ferry.runs.provenance.heartbeats import heartbeat_topics
from kafka_ferry.runs.provenance.opposite_flow import returned_topics
from kafka_ferry.runs.provenance.upstream_flows import find_upstream


def selection_now(
    flow: Flow, names: Collection[str], copied: Mapping[str, str], also: Iterable[str] = ()
) -> tuple[dict[str, Topic], dict[str, FerryError], Selection]:
    """What the source says of the topics that the flow selects by their names, and what becomes of each topic.

    Args:
        flow: the flow.
        names: the source's topics.
        copied: the remote topic of each topic that was ever copied.
        also: further topics to ask for.

    Returns:
        The topics; the errors of those that the source refuses to describe; and the selection.

    Raises:
        FerryError: a cluster does not answer.
    """
    source = ClusterControl(flow.source)
    topics, refused = source.readable_topics({*also, *select_topics(flow, names)[0]})
    target_id = ClusterControl(flow.target).cluster_id()
    upstream = find_upstream(flow, source, names, topics)
    returned = returned_topics(flow, upstream, target_id)
    beats = heartbeat_topics(flow, topics, copied)
    return topics, refused, select(flow, names, upstream.origins, target_id, returned, beats)


def invisible_topics(
    flow: Flow, source: ClusterControl, names: Collection[str], copied: Collection[str]
) -> frozenset[str]:
    """The topics that the flow names or has copied, and whose existence the source does not tell.

    Args:
        flow: the flow.
        source: its source.
        names: the topics that the source lists.
        copied: the topics that were ever copied.
    """
    return frozenset(source.hidden({*named_topics(flow), *copied}, names))
