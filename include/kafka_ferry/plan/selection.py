"""Which source topics a flow mirrors, and under which policy's names. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_ferry.config import Flow, TopicFilter
from kafka_ferry.plan.naming import POLICIES, ReplicationPolicy
from kafka_ferry.plan.plan import Skipped


def policy_of(flow: Flow) -> ReplicationPolicy:
    """The flow's replication policy."""
    return POLICIES[flow.replication_policy_class](
        source_alias=flow.source.alias, separator=flow.replication_policy_separator
    )


def select_topics(flow: Flow, names: Iterable[str]) -> tuple[list[str], list[Skipped]]:
    """The source topics that the flow mirrors, and the others with the reason why not; both sorted."""
    policy = policy_of(flow)
    wanted = flow.topic_filter
    selected, skipped = [], []
    for name in sorted(names):
        why = _why_skipped(name, policy, wanted, flow)
        if why:
            skipped.append(Skipped(name, why))
        else:
            selected.append(name)
    return selected, skipped


def _why_skipped(
    name: str, policy: ReplicationPolicy, wanted: TopicFilter, flow: Flow
) -> str | None:
    if policy.is_internal_topic(name):
        return "an internal topic of Kafka or of a mirror"
    if policy.is_cycle(name, flow.target.alias):
        return f"it came from {flow.target.alias} itself"
    return wanted.why_not(name)
