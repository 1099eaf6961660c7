"""Asking the source who copies to it: the positions of those flows say where its topics came from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pyarrow.compute as pc

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.errors import AccessDenied
from kafka_ferry.ledger import LedgerTable, ledger_topic
from kafka_ferry.plan import Position, Topic, TopicPartition, position_group
from kafka_ferry.plan.cycles import origins_of
from kafka_ferry.plan.positions import flow_of, is_position_group


@dataclass(frozen=True, slots=True)
class Upstream:
    """What the source knows of flows that copy to it.

    Attributes:
        origins: by topic, the ids of the clusters that its records came through (``plan.cycles``).
        unknown: what it does not say, a sentence each.
        by_flow: the same as ``origins``, for each flow into the source by itself.
    """

    origins: Mapping[str, tuple[str, ...]]
    unknown: tuple[str, ...] = ()
    by_flow: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)


def find_upstream(
    flow: Flow, source: ClusterControl, names: Collection[str], topics: Mapping[str, Topic]
) -> Upstream:
    """Where the records of the source's ``topics`` came from, as the flows know that copied them there.

    What lay before the ends of the logs when this is asked, has its position by now.

    Args:
        flow: the flow.
        source: its source.
        names: all topics there.
        topics: those that the flow selects.

    Raises:
        ClusterUnreachable: if the source does not answer.
    """
    # A group that may not be seen is not listed, and nothing says so; one that is named is refused.
    back = f"{flow.target.alias}->{flow.source.alias}"
    groups = {position_group(back), *filter(is_position_group, source.group_names())}
    positions: dict[str, Mapping[TopicPartition, Position]] = {}
    denied = []
    for name in sorted(map(flow_of, groups)):
        try:
            positions[name] = read_positions(flow.source, name)
        except AccessDenied:
            denied.append(name)
    known = [item for of_flow in positions.values() for item in of_flow.items()]
    unknown = []
    only_names = "where its topics came from, their names alone tell."
    if denied:
        unknown.append(
            f"{flow.source.alias} does not let the positions of {', '.join(denied)} be read: "
            f"{only_names} Grant DESCRIBE on groups there whose names begin with ferry."
        )
    elif not positions[back] and ledger_topic(flow.target.alias) in names:
        unknown.append(
            f"{flow.source.alias} has forgotten the positions of {back}, or never had any: "
            f"{only_names} Run that flow, or leave out with topics.exclude what it has copied."
        )
    by_flow = {name: origins_of(topics, of_flow.items()) for name, of_flow in positions.items()}
    return Upstream(origins_of(topics, known), tuple(unknown), by_flow)


def first_marked(ledger: LedgerTable) -> frozenset[str]:
    """The ids of the remote topics that the flow's first run has marked."""
    rows = ledger.read(pc.field("type") == "ownership", ["run", "remote_topic_id"]).to_pylist()
    return frozenset(row["remote_topic_id"] for row in rows if row["run"] == rows[0]["run"])
