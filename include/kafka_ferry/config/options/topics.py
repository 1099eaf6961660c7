"""Options of a flow about single topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field, field_validator

from kafka_ferry.config.options.base import OptionReach, Options
from kafka_ferry.config.types import first_start, replica_placement, topic_configs
from kafka_ferry.config.types.first_start import first_start_text
from kafka_ferry.config.types.per_topic import PerTopic, per_topic
from kafka_ferry.config.types.replica_placement import (
    read_replica_placement,
    replica_placement_text,
)
from kafka_ferry.config.types.topic_configs import (
    read_topic_configs,
    topic_config_text,
    topic_configs_text,
)
from kafka_ferry.config.types.values import whole_number

_MOST_REPLICAS: Final = 32_767
_MOST_PARTITIONS: Final = 1_000_000
_FACTOR: Final = {"type": "integer", "minimum": -1, "maximum": _MOST_REPLICAS}
_PARTITIONS: Final = {"type": "integer", "minimum": 1, "maximum": _MOST_PARTITIONS}


def _as_factor(value: object) -> int:
    number = whole_number(value, least=-1, most=_MOST_REPLICAS)
    if not number:
        raise ValueError("must be a number of replicas, or -1 for the brokers' default")
    return number


def _as_partitions(value: object) -> int:
    number = whole_number(value, least=1, most=_MOST_PARTITIONS)
    if number is None:
        raise ValueError("must be a number of partitions")
    return number


class TopicOptions(Options):
    """The options of a flow about single topics."""

    topics_configs: Annotated[
        PerTopic[str], per_topic("", topic_configs_text, topic_configs.SCHEMA)
    ] = Field(
        default=PerTopic(""),
        description="Configs of remote topics instead of the source's, also those that "
        "config.properties.exclude names: a mapping from topics of the source (names or Java regular "
        "expressions, of which the first that matches counts) to configs, with times such as 30d and sizes "
        "such as 1GiB; in properties files, pattern:name=value;name=value.",
    )
    topics_partitions: Annotated[
        PerTopic[int | None], per_topic(None, _as_partitions, _PARTITIONS)
    ] = Field(
        default=PerTopic(None),
        description="The least number of partitions of remote topics: one value or a mapping, as for "
        "offsets. A remote topic has at least as many as its source topic; records keep their partition, so "
        "further ones stay empty until producers of the target use them.",
    )
    topics_replica_placement: Annotated[
        PerTopic[str], per_topic("", replica_placement_text, replica_placement.SCHEMA)
    ] = Field(
        default=PerTopic(""),
        description="How many replicas each partition of a remote topic has on which racks (broker.rack) of "
        "the target, when the topic is created and when it gets more partitions: a mapping from topics of "
        "the source (as in topics.configs) to racks with counts, {rack-a: 2, rack-b: 1}, or to racks with one "
        "replica each, [rack-a, rack-b]; in properties files, pattern:rack=count;rack=count. Their sum takes "
        "the place of the replication factor. Replicas of topics that exist are never moved; drift names those "
        "on other racks.",
    )
    topics_replication_factor: Annotated[
        PerTopic[int | None], per_topic(None, _as_factor, _FACTOR)
    ] = Field(
        default=PerTopic(None),
        description="Replicas of remote topics where replication.factor does not fit: one value or a "
        "mapping, as for offsets; for topics that are still to be created.",
    )
    topics_start: Annotated[
        PerTopic[str], per_topic("", first_start_text, first_start.SCHEMA), OptionReach("data-file")
    ] = Field(
        default=PerTopic(""),
        description="Where the first copy of a topic begins: earliest (the start of its log), latest (its "
        "end), a moment (2026-11-01 or 2026-11-01T00:00Z: the first record from then on), a time "
        "before the run (-7d, -12h, 2 weeks), group=NAME (the positions of a group of the source) or "
        "file=PATH (YAML or JSON: topics, each with its partitions and their offsets; relative "
        "as state.dir is). Unset, auto.offset.reset says it. It cannot change for a topic that "
        "was begun. One value or a mapping, as for offsets.",
    )

    @field_validator("topics_configs", mode="before")
    @classmethod
    def _names_topics(cls, values: object) -> object:
        for name, value in values.items() if isinstance(values, Mapping) else ():
            if config := topic_config_text(name, value):
                raise ValueError(
                    f"has the config {name} where a topic's name or pattern stands: write "
                    f'{{".*": {{{config}}}}} for all topics'
                )
        return values

    def configs_of(self, topic: str) -> Mapping[str, str]:
        """What ``topics.configs`` says of a topic of the source."""
        return read_topic_configs(self.topics_configs.of(topic))

    def placement_of(self, topic: str) -> Mapping[str, int]:
        """What ``topics.replica.placement`` says of a topic of the source: replicas by rack, none where nothing."""
        return read_replica_placement(self.topics_replica_placement.of(topic))
