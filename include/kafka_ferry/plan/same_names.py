"""Which names two flows would both write, or give to different things, as far as their files say. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_ferry.config import Flow
from kafka_ferry.config.types.problems import Problem
from kafka_ferry.config.types.values import is_topic_name
from kafka_ferry.plan.topics.replication_policy import policy_of

_ANY: Final = "any-topic"


def same_names(one: Flow, other: Flow) -> Iterator[str]:
    """A sentence for each name, or kind of names, that both flows write on the same brokers.

    Patterns name no topics: of two of them nothing is known, but that both flows may select a topic with one name.

    Raises:
        ConfigError: as ``policy_of``.
    """
    if one.target.brokers.isdisjoint(other.target.brokers) or _is_meant(one, other):
        return
    first, second = policy_of(one), policy_of(other)
    names = dict.fromkeys(filter(is_topic_name, (*one.topics, *other.topics)))
    first_names = {
        first.remote_topic(name): name for name in names if one.topic_filter.matches(name)
    }
    second_names = {
        second.remote_topic(name): name for name in names if other.topic_filter.matches(name)
    }
    shared = sorted(first_names.keys() & second_names.keys())
    if shared:
        yield f"{one.name} and {other.name} both write {', '.join(shared)}: {_ADVICE}"
    elif first.remote_topic(_ANY) == second.remote_topic(_ANY) and _has_pattern(one, other):
        yield (
            f"{one.name} and {other.name} write the same name wherever both of their sources have a topic that "
            f"topics selects: {_ADVICE}"
        )


def mixed_aliases(one: Flow, other: Flow) -> Iterator[str]:
    """A sentence for each alias that has no broker in common in the two files."""
    for first in (one.source, one.target):
        for second in (other.source, other.target):
            known = first.brokers and second.brokers
            if known and first.alias == second.alias and first.brokers.isdisjoint(second.brokers):
                places = (
                    f"{', '.join(sorted(cluster.brokers))} in {flow.name}"
                    for cluster, flow in ((first, one), (second, other))
                )
                yield (
                    f"{first.alias} is {' and '.join(places)}: unless these are brokers of one cluster, give one of "
                    "the clusters another alias. Remote topics, ledgers and groups are named by it."
                )


def own_names(flow: Flow) -> Iterator[Problem]:
    """The problem with each name that the flow's file gives to two of the topics that it names.

    Raises:
        ConfigError: as ``policy_of``.
    """
    first: dict[str, str] = {}
    for name in filter(is_topic_name, dict.fromkeys((*flow.topics, *flow.topics_rename))):
        remote = policy_of(flow).remote_topic(name)
        if flow.topic_filter.matches(name) and first.setdefault(remote, name) != name:
            reason = f"{first[remote]} and {name} would both be {remote} on {flow.target.alias}"
            yield Problem("topics.rename", reason, "Give each a name of its own.")


_ADVICE: Final = (
    "rename one with topics.rename, take the policy that puts the source's alias before it, or set "
    "on.foreign.records: adopt in both if they are to share it."
)


def _is_meant(*flows: Flow) -> bool:
    return all(flow.on_foreign_records == "adopt" for flow in flows)


def _has_pattern(*flows: Flow) -> bool:
    return all(any(not is_topic_name(pattern) for pattern in flow.topics) for flow in flows)
