"""MirrorMaker 1's files and options become flows that ``load_flows`` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.config import Flow, load_flows
from kafka_ferry.config.files.mm1_properties import read_source, read_target
from kafka_ferry.errors import ConfigError
from kafka_ferry.plan import select_topics
from kafka_ferry.runs.takeover.mirrormaker1 import ClusterIds, MirrorMaker1, as_properties
from kafka_sandbox.clusters import PORTS
from tests import PROJECT

EXAMPLE = PROJECT / "docs" / "examples" / "mirror-maker"

IDS = ClusterIds(("WestWestWestWestWestWe", "-astEastEastEastEast_Ea"), "TargetTargetTargetTarge")
WEST = "bootstrap.servers=west:9092\ngroup.id=mirror\n"
EAST = "bootstrap.servers=east:9092\nauto.offset.reset=smallest\nisolation.level=read_uncommitted\n"
TARGET = "bootstrap.servers=target:9092\n"


def mirror(folder: Path, west: str = "", east: str = "", **told: Any) -> MirrorMaker1:
    """MirrorMaker 1 of two sources whose files have some lines more."""
    texts = {"west.properties": WEST + west, "east.properties": EAST + east, "target": TARGET}
    for name, text in texts.items():
        (folder / name).write_text(text)
    sources = [read_source(folder / name) for name in list(texts)[:2]]
    return MirrorMaker1(sources, read_target(folder / "target"), **told)


def flows(folder: Path, told: MirrorMaker1) -> tuple[Flow, ...]:
    file = folder / "flows.properties"
    file.write_text(as_properties(told, IDS), encoding="latin-1")
    return load_flows(file)


def copied(flow: Flow, *names: str) -> list[str]:
    return select_topics(flow, names)[0]


def test_each_source_is_a_flow_into_the_one_target_that_is_called_by_the_clusters_ids(
    tmp_path: Path,
) -> None:
    west, east = flows(tmp_path, mirror(tmp_path, whitelist=".*"))
    assert west.name == "WestWestWestWestWestWe->TargetTargetTargetTarge"
    assert east.name == "-astEastEastEastEast_Ea->TargetTargetTargetTarge"
    assert west.source.client_properties("consumer")["bootstrap.servers"] == "west:9092"
    assert east.source.client_properties("admin")["bootstrap.servers"] == "east:9092"
    assert east.target.client_properties("producer")["bootstrap.servers"] == "target:9092"
    assert not west.ignored


def test_flows_do_as_those_mirrors_did(tmp_path: Path) -> None:
    for flow in flows(tmp_path, mirror(tmp_path, whitelist=".*")):
        assert flow.on_foreign_records == "adopt"
        assert flow.replication_factor == -1, (
            "the target's brokers created topics by their defaults"
        )
        assert not flow.sync_topic_configs_enabled
        assert not flow.sync_topic_acls_enabled
        assert copied(flow, "heartbeats", "__canary") == ["__canary", "heartbeats"]


def test_what_the_file_says_counts_and_what_it_leaves_open_is_said(tmp_path: Path) -> None:
    told = mirror(tmp_path, whitelist=".*")
    west, east = flows(tmp_path, told)
    assert (west.auto_offset_reset, west.isolation_level) == ("latest", "read_committed")
    assert (east.auto_offset_reset, east.isolation_level) == ("earliest", "read_uncommitted")
    left_open = [[remark.key for remark in told.remarks_on(source)] for source in told.sources]
    assert left_open == [["group.id", "isolation.level", "auto.offset.reset"], []]


# As the documentation of the first MirrorMaker has them, but for the brokers and the lists.
FIRST_EXAMPLE = """
zk.connect=localhost:2181/
zk.connectiontimeout.ms=1000000
groupid=dummy-group
shallowiterator.enable=true
mirror.topics.whitelist=test
mirror.consumer.numthreads=2
"""


def test_the_commands_options_win_over_the_file_with_a_warning(tmp_path: Path) -> None:
    told = mirror(tmp_path, FIRST_EXAMPLE, whitelist=".*", streams=4)
    told.check()
    (west, _) = flows(tmp_path, told)
    assert copied(west, *TOPICS) == ["a.b", "axb", "clicks", "orders", "orders-eu"]
    assert (west.writers, told.tasks) == (4, 4)
    said = {remark.key: remark.why for remark in told.remarks_on(told.sources[0])}
    assert said["mirror.topics.whitelist"] == "has no effect: --whitelist is given, and wins"
    assert said["mirror.consumer.numthreads"] == "has no effect: --num.streams is given, and wins"
    assert "mirror.topics.whitelist" not in {one.key for one in told.remarks_on(told.sources[1])}


@pytest.mark.parametrize("list_of_file", ["whitelist", "blacklist"])
@pytest.mark.parametrize("option", ["whitelist", "blacklist"])
def test_either_list_of_the_command_wins_over_either_of_the_file(
    tmp_path: Path, list_of_file: str, option: str
) -> None:
    told = mirror(tmp_path, f"mirror.topics.{list_of_file}=orders\n", **{option: "clicks"})
    kept = [
        topic for topic in ("clicks", "orders") if (topic == "clicks") is (option == "whitelist")
    ]
    assert copied(flows(tmp_path, told)[0], "clicks", "orders") == kept
    why = f"has no effect: --{option} is given, and wins"
    assert (f"mirror.topics.{list_of_file}", why) in told.remarks_on(told.sources[0])


def test_mirrors_of_0_7_began_at_the_start(tmp_path: Path) -> None:
    told = mirror(tmp_path, "zk.connect=z:2181\n", whitelist=".*")
    assert flows(tmp_path, told)[0].auto_offset_reset == "earliest"
    assert any(remark.key == "autooffset.reset" for remark in told.remarks_on(told.sources[0]))


TOPICS = (
    "orders",
    "orders-eu",
    "clicks",
    "a.b",
    "axb",
    "__consumer_offsets",
    "ferry-ledger.x.internal",
)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"whitelist": "orders"}, ["orders"]),
        ({"whitelist": "orders.*,clicks"}, ["clicks", "orders", "orders-eu"]),
        ({"whitelist": " 'orders.*, clicks' "}, ["clicks", "orders", "orders-eu"]),
        ({"whitelist": "a.b"}, ["a.b", "axb"]),
        ({"whitelist": ".*"}, ["a.b", "axb", "clicks", "orders", "orders-eu"]),
        ({"blacklist": "orders.*,clicks"}, ["a.b", "axb"]),
    ],
)
def test_lists_are_java_regexes_with_commas(
    tmp_path: Path, told: dict[str, str], expected: list[str]
) -> None:
    for flow in flows(tmp_path, mirror(tmp_path, **told)):
        assert copied(flow, *TOPICS) == expected


def test_the_embedded_mirror_of_0_7_has_lists_of_names_in_its_consumers_file(
    tmp_path: Path,
) -> None:
    white, black = "mirror.topics.whitelist=a.b, clicks\n", "mirror.topics.blacklist=a.b, orders\n"
    west, east = flows(tmp_path, mirror(tmp_path, white, black))
    assert copied(west, *TOPICS) == ["a.b", "clicks"], "a dot there is a dot"
    assert copied(east, *TOPICS) == ["axb", "clicks", "orders-eu"]


WHITE = "mirror.topics.whitelist=orders\n"
BLACK = "mirror.topics.blacklist=orders\n"


@pytest.mark.parametrize(
    ("west", "told", "said"),
    [
        ("", {}, "no option or file selects any"),
        ("", {"whitelist": "a", "blacklist": "b"}, "--whitelist and --blacklist are given"),
        (
            WHITE + BLACK,
            {},
            "mirror.topics.whitelist and mirror.topics.blacklist are given",
        ),
        ("", {"whitelist": "a{1,3}"}, "not a valid regular expression"),
        ("", {"whitelist": " '' "}, "names no topic"),
    ],
)
def test_what_is_told_twice_wrongly_or_not_at_all_is_an_error(
    tmp_path: Path, west: str, told: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        mirror(tmp_path, west, **told).check()
    assert said in str(caught.value)
    assert caught.value.file in (str(tmp_path / "west.properties"), "command line")


@pytest.mark.parametrize(
    ("west", "told", "writers", "tasks"),
    [
        ("", {}, [32, 32], None),
        ("", {"streams": 3}, [3, 3], 3),
        ("", {"streams": 3, "producers": 5}, [5, 5], 5),
        ("", {"producers": 2}, [2, 2], 2),
        ("mirror.consumer.numthreads=4\n", {}, [4, 32], 4),
        ("mirror.consumer.numthreads=4\n", {"producers": 2}, [4, 2], 4),
        ("mirror.consumer.numthreads=4\n", {"streams": 2}, [2, 2], 2),
    ],
)
def test_streams_and_producers_are_writers(
    tmp_path: Path, west: str, told: dict[str, int], writers: list[int], tasks: int | None
) -> None:
    older = mirror(tmp_path, west, whitelist=".*", **told)
    assert [flow.writers for flow in flows(tmp_path, older)] == writers
    assert older.tasks == tasks


def test_the_commit_interval_is_how_long_a_transaction_lasts(tmp_path: Path) -> None:
    told = mirror(tmp_path, whitelist=".*", commit_interval_ms=2500)
    assert {flow.transaction_max_ms for flow in flows(tmp_path, told)} == {2500}


def test_a_value_with_any_characters_is_read_back_as_it_was(tmp_path: Path) -> None:
    password = "back\\\\slash \\u00fc : = # !"  # as a properties file writes it
    told = mirror(tmp_path, f"ssl.truststore.password={password}\n", whitelist="or\\\\.ders")
    (west, _) = flows(tmp_path, told)
    properties = west.source.client_properties("consumer")
    assert properties["ssl.truststore.password"] == "back\\slash ü : = # !"
    assert west.topics == ("or\\\\.ders",)


def test_secrets_are_in_the_file_alone(tmp_path: Path) -> None:
    told = mirror(tmp_path, "ssl.truststore.password=not-for-you\n", whitelist=".*")
    assert "not-for-you" in as_properties(told, IDS)
    assert "not-for-you" not in f"{told!r} {[map(str, told.remarks_on(s)) for s in told.sources]}"


def test_references_to_providers_that_a_file_declares_are_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    declared = f"config.providers=env\nconfig.providers.env.class={provider}\n"
    monkeypatch.setenv("STORE_PASSWORD", "from outside")
    reference = "ssl.truststore.password=${env:STORE_PASSWORD}\n"
    west, _ = flows(tmp_path, mirror(tmp_path, declared + reference, whitelist=".*"))
    assert west.source.client_properties("admin")["ssl.truststore.password"] == "from outside"
    with pytest.raises(ConfigError, match="a provider that the file does not declare"):
        mirror(tmp_path, reference)


def test_the_docs_example_is_the_demos_clusters() -> None:
    source = read_source(EXAMPLE / "consumer.properties")
    target = read_target(EXAMPLE / "producer.properties")
    servers = [client.properties["bootstrap.servers"] for client in (source, target)]
    assert servers == [f"127.0.0.1:{PORTS[name]}" for name in ("primary", "backup")]
    assert source.auto_offset_reset == "earliest"
