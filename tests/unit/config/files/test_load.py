import json
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest

from kafka_ferry.config import Flow, cluster_aliases, flow_files, load_flow, load_flows
from kafka_ferry.config.types import name_filter
from kafka_ferry.errors import ConfigError
from tests import PROJECT
from tests.unit.config.builders import PROPERTIES, YAML, properties_file, yaml_file

BOTH_WAYS = "backup->primary.enabled = true\n"


def without_file(flow: Flow) -> Flow:
    clusters = {
        side: getattr(flow, side).model_copy(update={"file": "", "section": ""})
        for side in ("source", "target")
    }
    return flow.model_copy(update={"file": "", **clusters})


def test_the_demo_flow_and_its_mirrormaker_2_file_are_the_same_flow_but_for_heartbeats() -> None:
    flow = load_flow(PROJECT / "include/configs/primary_to_backup.yaml")
    other = load_flow(PROJECT / "docs/examples/connect-mirror-maker.properties")
    assert flow.name == "primary->backup"
    assert flow.topics == ("orders", "customers", "payments")
    assert (flow.heartbeats_replication_enabled, other.heartbeats_replication_enabled) == (
        False,
        True,
    )
    alike = other.model_copy(update={"heartbeats_replication_enabled": False})
    assert without_file(flow) == without_file(alike)
    assert (flow.ignored, other.ignored) == ((), ())


def test_a_file_with_one_flow_needs_no_name(tmp_path: Path) -> None:
    assert load_flow(properties_file(tmp_path)).name == "primary->backup"
    assert load_flow(str(yaml_file(tmp_path))).name == "primary->backup"


@pytest.mark.parametrize("name", ["backup->primary", "backup_to_primary"])
def test_one_of_several_flows_is_taken_by_name_or_slug(tmp_path: Path, name: str) -> None:
    file = properties_file(tmp_path, BOTH_WAYS)
    assert len(load_flows(file)) == 2
    assert load_flow(file, name).name == "backup->primary"


@pytest.mark.parametrize(
    ("more", "name", "reason"),
    [
        (BOTH_WAYS, None, "several flows: primary->backup, backup->primary"),
        (BOTH_WAYS, "primary->backups", "Did you mean 'primary->backup'?"),
        ("", "x", "It holds primary->backup."),
        ("", "primary-", "A shell takes > for a redirection: write 'primary->backup' with quotes."),
        ("primary->backup.enabled = false", None, "enables no flow"),
    ],
)
def test_a_flow_that_is_not_clear_is_an_error_that_lists_the_flows(
    tmp_path: Path, more: str, name: str | None, reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_flow(properties_file(tmp_path, more), name)
    assert reason in str(caught.value)


@pytest.mark.parametrize("file", ["missing.yaml", "missing.properties"])
def test_a_missing_file_is_named(tmp_path: Path, file: str) -> None:
    with pytest.raises(ConfigError, match=f"{file}: file: cannot be read: No such file"):
        load_flows(tmp_path / file)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must end in \.properties, \.yaml, \.yml"):
        load_flows(tmp_path / "flow.json")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="file: is a folder: name a file in it"):
        load_flows(tmp_path)


def test_the_files_of_a_folder_come_sorted(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", "c.properties", "d.txt", ".hidden.yaml"):
        (tmp_path / name).touch()
    (tmp_path / "folder.yaml").mkdir()
    assert [file.name for file in flow_files(tmp_path)] == ["a.yaml", "b.yml", "c.properties"]
    assert flow_files(str(tmp_path / "folder.yaml")) == []


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere: file: is not a folder"):
        flow_files(tmp_path / "nowhere")


THREE = """\
clusters = a, b, c
a.bootstrap.servers = a:1
b.bootstrap.servers = b:1
c.bootstrap.servers = ${file:/nowhere:servers}
config.providers = file
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
a->b.enabled = true
b->a.enabled = true
a->c.enabled = true
"""


@pytest.mark.parametrize(
    ("clusters", "names"),
    [
        (["a"], ["b->a"]),
        (["b"], ["a->b"]),
        (["b", "a"], ["a->b", "b->a"]),
    ],
)
def test_only_the_flows_into_some_clusters_are_read_if_these_are_named(
    tmp_path: Path, clusters: list[str], names: list[str]
) -> None:
    # What the others need, such as the brokers of c, need not be there.
    file = properties_file(tmp_path, start=THREE)
    assert [flow.name for flow in load_flows(file, clusters)] == names


def test_a_flow_is_read_by_name_whatever_is_wrong_with_the_others(tmp_path: Path) -> None:
    file = properties_file(tmp_path, start=THREE)
    assert load_flow(file, "b_to_a").name == "b->a"
    into_c = load_flow(file, "a->c")
    with pytest.raises(ConfigError, match=r"c: bootstrap\.servers: \$\{file:/nowhere:servers\}"):
        into_c.target.client_properties("admin")


def test_a_yaml_file_has_no_flow_into_any_cluster_but_its_target(tmp_path: Path) -> None:
    elsewhere = yaml_file(tmp_path, "writers: many")
    assert load_flows(elsewhere, clusters=["primary"]) == ()
    with pytest.raises(ConfigError, match="writers"):
        load_flows(elsewhere, clusters=["backup"])
    file = yaml_file(tmp_path)
    assert [flow.name for flow in load_flows(file, clusters=["backup"])] == ["primary->backup"]
    assert load_flows(file, clusters=["primary"]) == ()


@pytest.mark.parametrize("make", [yaml_file, properties_file])
def test_a_files_clusters_can_be_asked_for(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    assert cluster_aliases(make(tmp_path)) == ("primary", "backup")


def test_a_yaml_file_without_aliases_has_no_clusters(tmp_path: Path) -> None:
    file = yaml_file(tmp_path, start="source: {bootstrap.servers: 'a:1'}\ntarget: x")
    with pytest.raises(ConfigError, match=r"source\.alias: is required"):
        cluster_aliases(file)


@pytest.mark.parametrize("make", [yaml_file, properties_file])
def test_a_cluster_that_the_file_does_not_know_is_an_error(
    tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    with pytest.raises(
        ConfigError, match=r"'backups' is not a cluster of this file\. Did you mean"
    ):
        load_flows(make(tmp_path), clusters=["backup", "backups"])


def test_a_file_that_takes_its_reader_by_surprise_fails_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def surprised(*_: object) -> Flow:
        raise RecursionError("hunter2")

    monkeypatch.setattr("kafka_ferry.config.files.yaml_file.parse_flow", surprised)
    file = yaml_file(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_flows(file)
    assert str(caught.value) == f"{file}: file: cannot be read (RecursionError)"


def test_the_patterns_of_a_file_take_some_seconds_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each list of them has a limit, and a file has any number of lists; here it has a fifth of each."""
    limit = name_filter._HEAVIEST_FILE // 5
    monkeypatch.setattr(name_filter, "_HEAVIEST_FILE", limit)
    file = yaml_file(tmp_path)
    text = file.read_text()
    for pattern in ("(a|b)" * 3_000, "." * 18_000):
        rules = [{"topics": [f"x{number}{pattern}"], "where": "true"} for number in range(40)]
        file.write_text(f"{text}\ntransform: {json.dumps(rules)}\n")
        began = process_time()
        with pytest.raises(ConfigError, match="the patterns take too long to compile"):
            load_flow(file)
        assert process_time() - began < 6
    names = [f"team-{number:05d}.orders" for number in range(2_000)]
    rules = [{"topics": names[at : at + 20], "where": "true"} for at in range(0, 2_000, 20)]
    file.write_text(f"{text}\ntransform: {json.dumps(rules)}\n")
    assert len(load_flow(file).transform) == 100


def test_a_properties_file_with_what_no_text_can_hold_is_refused(tmp_path: Path) -> None:
    for escaped in ("\\u0000", "\\ud800"):
        file = properties_file(tmp_path, f"topics = a{escaped}b\n")
        with pytest.raises(ConfigError, match="topics: has a character that no text can have"):
            load_flows(file)


@pytest.mark.parametrize(("name", "content"), [("flow.yaml", YAML), ("mm2.properties", PROPERTIES)])
def test_a_byte_order_mark_is_no_part_of_the_first_key(
    tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content, "utf-8-sig")
    assert load_flow(tmp_path / name).name == "primary->backup"
