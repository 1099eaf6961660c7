"""The flows' files, read again whenever they change."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kafka_ferry_airflow.page.flows import FlowFiles
from kafka_ferry_airflow.project import Project


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FlowFiles:
    monkeypatch.setenv("FERRY_CONFIGS", str(tmp_path))
    return FlowFiles(Project(Path("/nowhere")))


def write(folder: Path, file: str, source: str, **more: object) -> Path:
    content = {
        "source": {"alias": source, "bootstrap.servers": "127.0.0.1:1"},
        "target": {"alias": "hub", "bootstrap.servers": "127.0.0.1:2"},
    }
    path = folder / file
    path.write_text(json.dumps(content | more))
    return path


def test_flows_are_known_by_their_slugs(files: FlowFiles, tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "east")
    write(tmp_path, "b.yaml", "west")
    assert set(files.flows()) == {"east_to_hub", "west_to_hub"}
    assert files.problems() == ()


def test_a_changed_a_new_and_a_deleted_file_are_seen(files: FlowFiles, tmp_path: Path) -> None:
    first = write(tmp_path, "a.yaml", "east")
    files.flows()
    write(tmp_path, "a.yaml", "north")
    os.utime(first, (2_000_000_000, 2_000_000_000))
    write(tmp_path, "b.yaml", "west")
    assert set(files.flows()) == {"north_to_hub", "west_to_hub"}
    first.unlink()
    assert set(files.flows()) == {"west_to_hub"}


def test_an_unchanged_file_is_not_read_again(files: FlowFiles, tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "east")
    assert files.flows()["east_to_hub"] is files.flows()["east_to_hub"]


def test_a_broken_file_hides_no_other_and_is_named(files: FlowFiles, tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "east", topiks=["a"])
    write(tmp_path, "b.yaml", "west")
    assert set(files.flows()) == {"west_to_hub"}
    (problem,) = files.problems()
    assert "a.yaml" in problem and "topiks" in problem


def test_a_disabled_flow_is_not_shown(files: FlowFiles, tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "east", enabled=False)
    assert files.flows() == {}


def test_a_folder_that_is_not_there_is_a_problem_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRY_CONFIGS", str(tmp_path / "none"))
    files = FlowFiles(Project(Path("/nowhere")))
    assert files.flows() == {}
    assert "none" in files.problems()[0]
