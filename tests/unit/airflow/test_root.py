from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.errors import FerryError
from kafka_ferry_airflow.root import project_root


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def test_a_file_of_the_project_knows_its_project_wherever_state_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(tmp_path / "project" / "spark_jobs")
    monkeypatch.setenv("FERRY_HOME", str(tmp_path / "state"))

    assert project_root(str(tmp_path / "project" / "dags" / "mirrors.py")) == tmp_path / "project"


def test_a_copy_in_airflows_own_folder_goes_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(tmp_path / "project" / "spark_jobs")
    copy = str(tmp_path / "airflow" / "dags" / "mirrors.py")
    monkeypatch.setenv("FERRY_HOME", str(tmp_path / "project"))

    assert project_root(copy) == tmp_path / "project"

    monkeypatch.setenv("FERRY_HOME", str(tmp_path / "elsewhere"))
    with pytest.raises(FerryError, match=r"mirrors\.py is not in .*Set FERRY_HOME"):
        project_root(copy)
