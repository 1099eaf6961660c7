from pathlib import Path

import pytest

from kafka_ferry.config import flow_files, load_flow, load_flows
from kafka_ferry.errors import ConfigError

from .builders import properties_file, yaml_file

ROOT = Path(__file__).parents[3]
BOTH_WAYS = "backup->primary.enabled = true\n"


def test_the_demo_flow_and_its_mirrormaker_2_file_are_the_same_flow() -> None:
    flow = load_flow(ROOT / "include/configs/primary_to_backup.yaml")
    other = load_flow(ROOT / "docs/examples/connect-mirror-maker.properties")
    assert flow.name == "primary->backup"
    assert flow.topics == ("orders", "customers", "payments")
    assert flow.model_copy(update={"file": ""}) == other.model_copy(update={"file": ""})
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


def test_the_files_of_a_folder_come_sorted(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", "c.properties", "d.txt", ".hidden.yaml"):
        (tmp_path / name).touch()
    (tmp_path / "folder.yaml").mkdir()
    assert [file.name for file in flow_files(tmp_path)] == ["a.yaml", "b.yml", "c.properties"]
    assert flow_files(str(tmp_path / "folder.yaml")) == []


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere: file: is no folder"):
        flow_files(tmp_path / "nowhere")
