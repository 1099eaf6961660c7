"""What was found on two clusters, and the plan that follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kafka_ferry.config import Cluster, Flow
from kafka_ferry.model import Found, LogBounds, Plan, Position, Topic, TopicPartition
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


def a_source(name: str = "orders", partitions: int = 1, **more: Any) -> Topic:
    return Topic(name, f"id of {name}", partitions, **more)


def a_remote(name: str = "primary.orders", partitions: int = 1, **configs: str) -> Topic:
    dotted = {key.replace("_", "."): value for key, value in configs.items()}
    return Topic(name, f"id of {name}", partitions, dotted)


def found(
    *source: Topic,
    target: Iterable[Topic] = (),
    bounds: tuple[int, int] = (10, 50),
    positions: Mapping[TopicPartition, Position] | None = None,
    vanished: Iterable[str] = (),
    **more: Any,
) -> Found:
    """Both clusters, with the same bounds for every partition of the source."""
    return Found(
        source_cluster_id="S",
        target_cluster_id="T",
        source_names=frozenset([topic.name for topic in source]).union(vanished),
        source_topics={topic.name: topic for topic in source},
        target_topics={topic.name: topic for topic in target},
        bounds={
            TopicPartition(topic.name, number): LogBounds(*bounds)
            for topic in source
            for number in range(topic.partitions)
        },
        positions=positions or {},
        **more,
    )


def planned(state: Found, flow: Flow | None = None) -> Plan:
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
        found(
            a_source(),
            target=[remote] if remote else [],
            positions={P0: position} if position else {},
        )
    )
