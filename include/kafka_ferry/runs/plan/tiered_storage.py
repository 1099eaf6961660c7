"""Asks the target whether it takes tiered storage (KIP-405), for what is tiered on the source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.model import Topic
from kafka_ferry.model.changes import ConfigChange
from kafka_ferry.model.plan import Creation
from kafka_ferry.plan.topics.configs import REMOTE_STORAGE, wanted_configs
from kafka_ferry.runs.sync_topics.config_failures import is_about_configs


def untiered_topics(
    flow: Flow,
    target: ClusterControl,
    topics: Iterable[tuple[Topic, str]],
    remote_topics: Mapping[str, Topic],
) -> frozenset[str]:
    """The remote topics for which the target refuses ``remote.storage.enable``; nothing is changed.

    Costs a request of each kind only where a topic would get that config, and not because the flow's file says so.

    Args:
        flow: the flow.
        target: the target.
        topics: the source's topics, each with the name of its remote topic.
        remote_topics: the remote topics that exist.
    """
    pairs = list(_pairs_without_tiers(flow, topics, remote_topics))
    if not pairs:
        return frozenset()
    refused = target.alter_configs(
        {
            name: [ConfigChange(source.name, name, REMOTE_STORAGE, "true", None)]
            for source, name in pairs
            if name in remote_topics
        },
        validate_only=True,
    ) | target.create_topics(
        [
            Creation(name, 1, flow.replicas_of(source.name), {REMOTE_STORAGE: "true"})
            for source, name in pairs
            if name not in remote_topics
        ],
        validate_only=True,
    )
    return frozenset(name for name, error in refused.items() if is_about_configs(error))


def _pairs_without_tiers(
    flow: Flow, topics: Iterable[tuple[Topic, str]], remote_topics: Mapping[str, Topic]
) -> Iterator[tuple[Topic, str]]:
    """The pairs where only the source's topic is tiered, so that the remote one would become so."""
    for source, name in topics:
        is_to_be = (
            source.is_tiered
            and REMOTE_STORAGE in wanted_configs(flow, source)
            and REMOTE_STORAGE not in flow.configs_of(source.name)
        )
        remote = remote_topics.get(name)
        if is_to_be and not (remote and (remote.is_tiered or not flow.sync_topic_configs_enabled)):
            yield source, name
