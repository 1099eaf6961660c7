"""Topic configs as brokers describe them (DescribeConfigs), and the requests to change them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from kafka_ferry.config.types.topic_configs import canonical
from kafka_ferry.errors import FerryError
from kafka_ferry.model.changes import ConfigChange
from kafka_ferry.model.cluster_state import Topic
from kafka_ferry.printable import excerpt

# Kafka knows some thirty, and vendors a few more. Each that the target does not know costs a request.
_MOST: Final = 500
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_OF_TOPIC: Final = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
# Brokers before 1.1 only say whether a value is the default; any other value is the topic's own.
_UNKNOWN: Final = ConfigSource.UNKNOWN_CONFIG.value
_OF_BROKERS: Final = frozenset(
    {
        ConfigSource.DYNAMIC_BROKER_CONFIG.value,
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value,
    }
)


def with_configs(topic: Topic, entries: Mapping[str, Any]) -> Topic:
    """The topic with its configs by a broker's answer, confluent-kafka's ``ConfigEntry`` by name.

    Raises:
        FerryError: no broker of Kafka's gives such an answer.
    """
    if len(entries) > _MOST:
        raise FerryError(
            f"A broker says that {topic.name} has {len(entries):,} configs; {_MOST:,} are read."
        )
    for name in entries:
        if not _NAME.fullmatch(name):
            raise FerryError(
                f"A broker says that {topic.name} has the config {excerpt(name)}, which is no config's name."
            )
    values = {
        name: canonical(name, entry.value)
        for name, entry in entries.items()
        if entry.value is not None
    }
    settable = [
        entry
        for name, entry in entries.items()
        if name in values and not entry.is_read_only and not entry.is_sensitive
    ]
    return replace(
        topic,
        configs=values,
        overrides=frozenset(entry.name for entry in settable if _is_own(entry)),
        dynamic=frozenset(entry.name for entry in settable if entry.source in _OF_BROKERS),
        defaults=frozenset(entry.name for entry in settable if entry.is_default),
    )


def to_alter(remote_topic: str, changes: Iterable[ConfigChange]) -> ConfigResource:
    """The request's part for one topic (IncrementalAlterConfigs, KIP-339): only what differs."""
    return ConfigResource(
        ResourceType.TOPIC,
        remote_topic,
        incremental_configs=[
            ConfigEntry(
                change.name,
                change.value,
                incremental_operation=(
                    AlterConfigOpType.DELETE if change.value is None else AlterConfigOpType.SET
                ),
            )
            for change in changes
        ],
    )


def _is_own(entry: Any) -> bool:
    return entry.source == _OF_TOPIC or (entry.source == _UNKNOWN and not entry.is_default)
