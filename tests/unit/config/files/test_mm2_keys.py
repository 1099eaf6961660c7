"""The table of MirrorMaker 2's keys against its own ConfigDefs, as release 4.3.1 has them."""

from __future__ import annotations

from pathlib import Path

from kafka_ferry.config import Flow, load_flows
from kafka_ferry.config.client.config_providers import PROVIDERS
from kafka_ferry.config.client.property_names import CONNECTION_NAMES, IGNORED_CONNECTION_NAMES
from kafka_ferry.config.files.mm2_keys import FIXED, KEYS, why_ignored
from kafka_ferry.config.flow import OPTIONS
from tests.unit.config.builders import PROPERTIES, a_flow, properties_file

# The names and defaults of CONNECTOR_CONFIG_DEF of the three connectors, of their tasks, of
# MirrorMakerConfig.config() and of DistributedConfig.config(), as the classes of 4.3.1 print them.
LISTED = (Path(__file__).parent / "mirrormaker-4.3.1.tsv").read_text().splitlines()
DEFINED = dict(line.split("\t") for line in LISTED)


def test_every_key_of_mirrormaker_2_is_known() -> None:
    known = {*CONNECTION_NAMES, *KEYS}
    assert [key for key in DEFINED if key not in known and not why_ignored(key)] == []


def test_nothing_counts_as_a_key_of_mirrormaker_2_that_is_none() -> None:
    # Read by filters, or only by releases up to 3.9, or by Connect's workers and source connectors.
    others = {
        "use.defaults.from",
        "auto.include.jmx.reporter",
        "use.incremental.alter.configs",
        "add.source.alias.to.metrics",
        "exactly.once.support",
        "transaction.boundary",
        "transaction.boundary.interval.ms",
        "offsets.storage.topic",
        "security.providers",
    }
    plain = {key for key in KEYS if not key.endswith(".*")}
    assert plain - DEFINED.keys() == others


def test_defaults_are_mirrormaker_2s() -> None:
    written = {"null": "none", "": "none", "<required>": "required"}
    filled_in = {  # MirrorMakerConfig.workerConfig and connectorBaseConfig
        "enabled": "false",
        "name": "the connector's",
        "connector.class": "the connector's",
        "group.id": "{source}-mm2",
        "client.id": "{source}->{target}",
        "task.index": "a task's",
        "task.assigned.partitions": "a task's",
        "task.assigned.groups": "a task's",
        **dict.fromkeys(
            ("key.converter", "value.converter", "header.converter"),
            "org.apache.kafka.connect.converters.ByteArrayConverter",
        ),
    }
    theirs = {
        key: filled_in.get(key, written.get(default, default))
        for key, default in DEFINED.items()
        if key in KEYS
    }
    assert {key: KEYS[key].default for key in theirs} == theirs


def test_every_key_without_an_effect_has_a_reason() -> None:
    assert all(key.why for key in KEYS.values() if key.state != "supported")
    assert all(IGNORED_CONNECTION_NAMES.values())
    assert IGNORED_CONNECTION_NAMES.keys() < CONNECTION_NAMES


def test_what_is_supported_is_an_option_or_read_from_the_file() -> None:
    supported = {name for name, key in KEYS.items() if key.state == "supported"}
    read = {"clusters", PROVIDERS, f"{PROVIDERS}.*", "replication.policy.*", *FIXED}
    read |= {"transforms.*", "predicates", "predicates.*"}
    assert supported - read <= set(OPTIONS)


def test_options_have_mirrormaker_2s_defaults_but_where_the_page_says_otherwise() -> None:
    flow = a_flow().model_dump(by_alias=True, mode="json")
    differing = {
        name
        for name, key in KEYS.items()
        if name in OPTIONS and key.default != as_text(flow[name], key.default)
    }
    assert differing == {
        "enabled",
        "topics.exclude",
        "config.properties.exclude",
        "heartbeats.replication.enabled",
        "emit.offset-syncs.enabled",
    }
    assert all(KEYS[name].why for name in differing)


def as_text(value: object, theirs: str) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    return theirs if theirs.endswith(f".{value}") else str(value)


def test_a_file_that_says_every_key_with_its_default_is_read_and_says_which_do_nothing(
    tmp_path: Path,
) -> None:
    def the_flow(start: str) -> Flow:
        (flow,) = load_flows(properties_file(tmp_path, start=start))
        return flow

    said = {
        name: default
        for name, default in DEFINED.items()
        if name in KEYS and name not in {"clusters", "enabled"}
    }
    lines = [f"{name} = {value.replace(chr(92), chr(92) * 2)}" for name, value in said.items()]
    flow = the_flow("\n".join([*lines, PROPERTIES]))
    # The two lists have ours too by default, and offset syncs are only written when asked for.
    plain = the_flow(PROPERTIES)
    differing = ("topics_exclude", "config_properties_exclude", "emit_offset_syncs_enabled")
    same = {"ignored": (), **{name: getattr(plain, name) for name in differing}}
    assert flow.model_copy(update=same) == plain
    assert {key for key, _ in flow.ignored} == {
        name for name in said if KEYS[name].state != "supported"
    }
