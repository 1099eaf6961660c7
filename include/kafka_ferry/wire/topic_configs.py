"""The effective configs of topics, as far as records depend on them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest

from kafka_ferry.errors import ClusterUnreachable
from kafka_ferry.model.rights import Right
from kafka_ferry.retry import retry
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION, fault

_OF_TOPICS: Final = 2
_TOPICS_AT_ONCE: Final = 1_000
_Resource = DescribeConfigsRequest.DescribeConfigsResource


def topic_configs(
    cluster: WireCluster, topics: Iterable[str], keys: Iterable[str]
) -> dict[str, dict[str, str]]:
    """The values of some configs of those of ``topics`` that exist; any broker knows them.

    Args:
        cluster: the cluster, with no answer pending on its connections.
        topics: names of topics.
        keys: names of configs; those that the broker's release does not know are absent from the answer.

    Raises:
        AccessDenied: without DESCRIBE_CONFIGS on a topic.
        ClusterUnreachable: if no broker answers.
    """
    left, wanted = iter(sorted(topics)), sorted(keys)
    configs: dict[str, dict[str, str]] = {}
    while some := list(islice(left, _TOPICS_AT_ONCE)):
        configs |= retry(partial(_ask, cluster, some, wanted))
    return configs


def _ask(cluster: WireCluster, topics: list[str], keys: list[str]) -> dict[str, dict[str, str]]:
    def request() -> Any:
        return DescribeConfigsRequest(
            resources=[
                _Resource(resource_type=_OF_TOPICS, resource_name=name, configuration_keys=keys)
                for name in topics
            ],
            include_synonyms=False,
            include_documentation=False,
        )

    configs: dict[str, dict[str, str]] = {}
    answered = set()
    for result in cluster.ask_any(request).results:
        answered.add(result.resource_name)
        if result.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            continue
        if result.error_code:
            doing = f"Reading the configs of the topic {result.resource_name} on {cluster.alias}"
            needed = Right.topic("DESCRIBE_CONFIGS", result.resource_name)
            raise fault(result.error_code, doing, needed)
        configs[result.resource_name] = {
            entry.name: entry.value for entry in result.configs if entry.value is not None
        }
    if missing := set(topics) - answered:
        raise ClusterUnreachable(f"{cluster.alias} did not answer for {min(missing)}.")
    return configs
