"""A new broker's storage is Kafka's own, with ids that no other broker has."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_sandbox.java import jvm
from kafka_sandbox.java.jars import KAFKA
from kafka_sandbox.storage import format_storage, new_id


def ids(data: Path) -> dict[str, str]:
    lines = (data / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def test_brokers_of_two_clusters_share_no_id_and_have_the_same_version_of_the_metadata(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"

    format_storage(first, KAFKA, "1", new_id())
    format_storage(second, KAFKA, "7", new_id())

    assert (
        ids(first).keys()
        == ids(second).keys()
        == {"cluster.id", "directory.id", "node.id", "version"}
    )
    assert {name for name, id_ in ids(first).items() if ids(second)[name] == id_} == {"version"}
    assert ids(second)["node.id"] == "7"
    contents = {(data / "bootstrap.checkpoint").read_bytes() for data in (first, second)}
    assert len(contents) == 1


def test_kafkas_tool_runs_once_for_a_version_and_not_for_each_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    format_storage(tmp_path / "first", KAFKA, "1", new_id())
    monkeypatch.setattr(jvm, "command", lambda *arguments, **options: pytest.fail("it ran again"))

    format_storage(tmp_path / "second", KAFKA, "1", new_id())


def test_files_that_are_there_stay(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()

    format_storage(tmp_path, KAFKA, "1", new_id())

    assert (tmp_path / "kept").exists()
