"""The flows' files, read again whenever they change."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kafka_ferry_airflow.flow_files import FlowFiles, check_flow
from kafka_ferry_airflow.monitoring.channels import PROVIDERS
from kafka_ferry_airflow.project import Project


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FlowFiles:
    monkeypatch.setenv("FERRY_CONFIGS", str(tmp_path))
    monkeypatch.setenv("FERRY_HOME", "/nowhere")
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
    assert set(files.read().flows) == {"east_to_hub", "west_to_hub"}
    assert files.read().problems == ()


def test_a_changed_a_new_and_a_deleted_file_are_seen(files: FlowFiles, tmp_path: Path) -> None:
    first = write(tmp_path, "a.yaml", "east")
    assert set(files.read().flows) == {"east_to_hub"}
    write(tmp_path, "a.yaml", "north")
    os.utime(first, (2_000_000_000, 2_000_000_000))
    write(tmp_path, "b.yaml", "west")
    assert set(files.read().flows) == {"north_to_hub", "west_to_hub"}
    first.unlink()
    assert set(files.read().flows) == {"west_to_hub"}


def test_an_unchanged_file_is_not_read_again(files: FlowFiles, tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "east")
    assert files.read().flows["east_to_hub"] is files.read().flows["east_to_hub"]


def test_a_broken_file_hides_no_other_and_is_named(files: FlowFiles, tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "east", topiks=["a"])
    write(tmp_path, "b.yaml", "west")
    assert set(files.read().flows) == {"west_to_hub"}
    (problem,) = files.read().problems
    assert "a.yaml:1: topiks: " in str(problem)


def test_a_disabled_flow_is_not_shown(files: FlowFiles, tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "east", enabled=False)
    assert files.read().flows == {}


def test_a_folder_that_is_not_there_is_a_problem_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRY_CONFIGS", str(tmp_path / "none"))
    files = FlowFiles(Project(Path("/nowhere")))
    assert files.read().flows == {}
    assert "none" in str(files.read().problems[0])


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("start.date: 2024-02-30", "7: start.date: must be a day or a moment"),
        ("topics: &a [*a]", " line 7: contains itself"),
        (f"topics: {'[' * 100_000}", " line 7: nests more than 50 levels deep"),
        (f"writers: {'9' * 5_000}", " writers: is no number (line 7)"),
        ("schedule: 61 * * * *", "7: schedule: has '61' as its minute"),
        ('state.dir: "a\\0b"', " state.dir: has a character that no text can have"),
    ],
    ids=lambda text: text[:20],
)
def test_each_file_fails_for_itself(
    files: FlowFiles, tmp_path: Path, bad: str, problem: str
) -> None:
    clusters = "".join(
        f"{side}:\n  alias: {side}\n  bootstrap.servers: {side}:1\n"
        for side in ("source", "target")
    )
    (tmp_path / "a.yaml").write_text(clusters + bad)
    write(tmp_path, "b.yaml", "west")
    found = files.read()
    assert set(found.flows) == {"west_to_hub"}
    (error,) = found.problems
    assert str(error).startswith(f"{tmp_path / 'a.yaml'}:{problem}")


def test_a_flow_in_two_files_runs_from_none_of_them(files: FlowFiles, tmp_path: Path) -> None:
    """A copy may lack the approval that the other one asks for."""
    first = write(tmp_path, "a.yaml", "east", topics=["a"])
    second = write(tmp_path, "b.yaml", "east", topics=["b"])
    write(tmp_path, "c.yaml", "west")
    found = files.read()
    assert found.flows.keys() == {"west_to_hub"}
    told = "too, and runs from none of them. Delete the file that is not to be"
    assert [str(it).partition(", or")[0] for it in found.problems] == [
        f"{first}: east->hub: is in {second} {told}",
        f"{second}: east->hub: is in {first} {told}",
    ]
    second.unlink()
    assert files.read().flows["east_to_hub"].topics == ("a",)


def test_a_flow_in_many_files_names_some_of_them(files: FlowFiles, tmp_path: Path) -> None:
    """All of them would name each other: a thousand links to a file come to gigabytes."""
    first = write(tmp_path, "a0.yaml", "east")
    for number in range(1, 10):
        (tmp_path / f"a{number}.yaml").symlink_to(first)
    found = files.read()
    assert not found.flows
    texts = [str(it) for it in found.problems]
    some = ", ".join(str(tmp_path / f"a{number}.yaml") for number in range(3))
    assert len(texts) == 10
    assert f": is in {some} and 6 other files too, and runs from none of them" in texts[-1]


@pytest.mark.usefixtures("files")
def test_a_flow_that_gives_no_dag_is_a_problem_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PROVIDERS, "slack", "no_such_provider")  # type: ignore[arg-type]
    write(tmp_path, "a.yaml", "east", notify="slack:ferry_ops")
    write(tmp_path, "b.yaml", "west")
    (problem,) = FlowFiles(Project(Path("/nowhere")), check_flow).read().problems
    assert "a.yaml: notify: slack needs apache-airflow-providers-no_such_provider" in str(problem)
