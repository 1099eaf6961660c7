"""The state of two clusters, and the plan that follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from kafka_ferry.config import Cluster, Flow
from kafka_ferry.model import ClusterState, LogBounds, Plan, Position, Topic, TopicPartition
from kafka_ferry.model.changes import Applied
from kafka_ferry.model.cluster_state import (
    FlowPositions,
    LedgerState,
    OtherFlows,
    SourceLogs,
    SourceState,
    TargetState,
    TopicStarts,
)
from kafka_ferry.plan import make_plan

NOW = 1_700_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR


def a_flow(**options: Any) -> Flow:
    return Flow(
        source=Cluster(alias="primary", properties={"bootstrap.servers": "source:9092"}),
        target=Cluster(alias="backup", properties={"bootstrap.servers": "target:9092"}),
        **options,
    )


def a_flow_that_logs_in(**options: Any) -> Flow:
    """One whose properties say that its principal is ``User:ferry`` on the target."""
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ferry" password="x";'
    properties = {
        "bootstrap.servers": "target:9092",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": login,
    }
    return a_flow(**options).model_copy(
        update={"target": Cluster(alias="backup", properties=properties)}
    )


def a_source(name: str = "orders", partitions: int = 1, **more: Any) -> Topic:
    return Topic(name, f"id of {name}", partitions, **more)


def a_remote(name: str = "primary.orders", partitions: int = 1, **configs: str) -> Topic:
    dotted = {key.replace("_", "."): value for key, value in configs.items()}
    return Topic(name, f"id of {name}", partitions, dotted)


def a_state(
    *source: Topic,
    target: Iterable[Topic] = (),
    bounds: tuple[int, int] = (10, 50),
    positions: Mapping[TopicPartition, Position] | None = None,
    vanished: Iterable[str] = (),
    **more: Any,
) -> ClusterState:
    """Both clusters, with the same bounds for every partition of the source.

    Args:
        source: the source's topics.
        target: the target's.
        bounds: the bounds.
        positions: the flow's positions.
        vanished: names of topics of the source that are gone.
        more: as for ``changed``.
    """
    logs = {
        TopicPartition(topic.name, number): LogBounds(*bounds)
        for topic in source
        for number in range(topic.partitions)
    }
    topics = {topic.name: topic for topic in source}
    state = ClusterState(
        SourceState("S", frozenset([*topics, *vanished]), topics, SourceLogs(logs)),
        TargetState("T", {topic.name: topic for topic in target}),
        FlowPositions(positions or {}),
    )
    return changed(state, **more)


def applied_here(**more: Any) -> Applied:
    """What a flow has applied, all of it for the cluster of ``a_state``'s source."""
    applied = Applied(**more)
    created = (*applied.acls, *applied.quotas, *applied.users)
    sources = dict.fromkeys((*applied.configs, *applied.missed), "S") | dict(applied.sources)
    return replace(applied, created_for=dict.fromkeys(created, "S"), sources=sources)


def changed(state: ClusterState, **values: Any) -> ClusterState:
    """The state with these values, wherever in its parts they belong.

    What both clusters have has the target's name before it: ``target_topics``, ``target_bounds``.
    """
    remote = [key for key in values if key.startswith("target_")]
    target = {key.removeprefix("target_"): values.pop(key) for key in remote}
    logs = _taken(values, SourceLogs)
    source = _taken(values, SourceState) | {"logs": replace(state.source.logs, **logs)}
    target |= _taken(values, TargetState)
    parts: dict[str, Any] = {
        "source": replace(state.source, **source),
        "target": replace(state.target, **target),
        "positions": replace(state.positions, **_taken(values, FlowPositions)),
        "ledger": replace(state.ledger, **_taken(values, LedgerState)),
        "starts": replace(state.starts, **_taken(values, TopicStarts)),
        "other_flows": replace(state.other_flows, **_taken(values, OtherFlows)),
    }
    return replace(state, **parts | values)


def _taken(values: dict[str, Any], part: Any) -> dict[str, Any]:
    return {it.name: values.pop(it.name) for it in fields(part) if it.name in values}


def planned(state: ClusterState, flow: Flow | None = None) -> Plan:
    return make_plan(flow or a_flow(), state, run="run-1", at=NOW)


def intervals(plan: Plan) -> list[tuple[str, int, int, int]]:
    return [(r.topic, r.partition, r.start, r.end) for r in plan.ranges]


# One partition whose source holds [10, 50)

P0 = TopicPartition("primary.orders", 0)
KNOWN = Position(30, "id of orders", "id of primary.orders", NOW - HOUR)


def at(offset: int, **more: Any) -> Position:
    return replace(KNOWN, offset=offset, **more)


REMOTE = a_remote()


def plan_of_one(position: Position | None, remote: Topic | None = REMOTE) -> Plan:
    return planned(
        a_state(
            a_source(),
            target=[remote] if remote else [],
            positions={P0: position} if position else {},
        )
    )


def said(plan: Plan) -> str:
    """What a plan notes, a line each."""
    return "\n".join(map(str, plan.remarks.notes))
