"""Other flows that bring the same records to the same remote topics.

Where flows share a remote topic, each record has to come by one way only::

    A --------> B             C gets the records of A twice, once B has them; and so it does from two flows
    |           |             of A, under two aliases
    +--> C <----+

Nothing tells afterwards: each flow's own records are all there, and the other's are explained by its ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kafka_ferry.control import read_positions
from kafka_ferry.errors import FerryError
from kafka_ferry.model.positions import flow_of, is_position_group
from kafka_ferry.plan.topics.provenance import brings_same_records, same_topic

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.control import ClusterControl
    from kafka_ferry.model import ClusterState


def with_rivals(
    flow: Flow, target: ClusterControl, state: ClusterState, remote_names: Mapping[str, str]
) -> ClusterState:
    """``state`` with the flows that bring the same records to remote topics that this flow shares.

    A rule may divide a topic's records among flows, so that topics with one are left out.

    Args:
        flow: the flow.
        target: its target.
        state: both clusters, with the remote topics and where the source's topics came from.
        remote_names: the remote topics' names, by source topic.

    Raises:
        ClusterUnreachable: if the target does not answer.
    """
    if flow.on_foreign_records != "adopt":
        return state
    sources = {
        remote_names[name]: topic
        for name, topic in state.source.topics.items()
        if remote_names[name] in state.target.topics and flow.transform_of(name) is None
    }
    if not sources:
        return state
    came_through = {
        remote: {state.source.cluster_id, *state.other_flows.origins.get(topic.name, ())}
        for remote, topic in sources.items()
    }
    rivals: dict[str, str] = {}
    try:
        for name in sorted(map(flow_of, filter(is_position_group, target.all_group_names()))):
            positions = read_positions(flow.target, name) if name != flow.name else {}
            for tp, position in positions.items():
                source = sources.get(tp.topic)
                is_here = source and same_topic(
                    position.remote_topic_id, state.target.topics[tp.topic].topic_id
                )
                if (
                    source
                    and is_here
                    and brings_same_records(position, source, came_through[tp.topic])
                ):
                    rivals[tp.topic] = name
    except FerryError as error:
        if error.transient:
            raise
        unknown = f"Which other flows bring the same records to shared topics is unknown: {error}"
        return replace(state, unknown=(*state.unknown, unknown))
    return replace(state, other_flows=replace(state.other_flows, rivals=rivals))
