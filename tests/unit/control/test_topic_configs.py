"""What a broker's answer says of a topic's configs, and what is sent to change them."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigSource

from kafka_ferry.control.topic_configs import to_alter, with_configs
from kafka_ferry.errors import FerryError
from kafka_ferry.model.changes import ConfigChange
from kafka_ferry.model.cluster_state import Topic

TOPIC = Topic("orders", "id", 1)


def entry(name: str, source: ConfigSource, value: str | None = "1", **more: bool) -> ConfigEntry:
    # confluent-kafka gives numbers where its documentation says ConfigSource.
    return ConfigEntry(name, value, source.value, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "is_default", "group"),
    [
        (ConfigSource.DYNAMIC_TOPIC_CONFIG, False, "overrides"),
        (ConfigSource.DYNAMIC_BROKER_CONFIG, False, "dynamic"),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, False, "dynamic"),
        (ConfigSource.STATIC_BROKER_CONFIG, False, ""),
        (ConfigSource.DEFAULT_CONFIG, True, "defaults"),
        (ConfigSource.UNKNOWN_CONFIG, False, "overrides"),
        (ConfigSource.UNKNOWN_CONFIG, True, "defaults"),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
@pytest.mark.parametrize("hidden", ["", "is_read_only", "is_sensitive"])
def test_a_config_belongs_where_its_value_comes_from_and_nowhere_if_it_is_not_to_be_set(
    source: ConfigSource, is_default: bool, group: str, hidden: str
) -> None:
    more = {"is_default": is_default} | ({hidden: True} if hidden else {})
    found = with_configs(TOPIC, {"retention.ms": entry("retention.ms", source, **more)})

    groups = ("overrides", "dynamic", "defaults")
    have = [name for name in groups if "retention.ms" in getattr(found, name)]
    assert have == ([group] if group and not hidden else [])
    assert found.configs == {"retention.ms": "1"}


def test_a_config_without_a_value_is_none() -> None:
    found = with_configs(TOPIC, {"a": entry("a", ConfigSource.DYNAMIC_TOPIC_CONFIG, None)})
    assert (found.configs, found.overrides) == ({}, frozenset())


@pytest.mark.parametrize(
    "names",
    [[""], ["a\nb"], ["a\0b"], ["\x1b[31m"], ["x" * 250], [f"x.{number}" for number in range(501)]],
    ids=["none", "line end", "NUL", "escape", "long", "many"],
)
def test_configs_that_no_broker_of_kafkas_has_are_refused_with_their_topic(
    names: list[str],
) -> None:
    entries = {name: entry(name, ConfigSource.DYNAMIC_TOPIC_CONFIG) for name in names if name}
    entries |= {"": entry("a", ConfigSource.DYNAMIC_TOPIC_CONFIG)} if "" in names else {}
    with pytest.raises(FerryError, match="A broker says that orders has"):
        with_configs(TOPIC, entries)


def test_only_what_differs_is_sent() -> None:
    changes = [
        ConfigChange("orders", "primary.orders", "retention.ms", "5", "4"),
        ConfigChange("orders", "primary.orders", "flush.ms", None, "4"),
    ]
    asked = to_alter("primary.orders", changes)
    assert asked.name == "primary.orders"
    assert [(it.name, it.value, it.incremental_operation) for it in asked.incremental_configs] == [
        ("retention.ms", "5", AlterConfigOpType.SET),
        ("flush.ms", None, AlterConfigOpType.DELETE),
    ]
