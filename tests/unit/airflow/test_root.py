from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry_airflow.root import project_root


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / "include" / "configs").mkdir(parents=True)
    return tmp_path / "project"


@pytest.mark.parametrize("file", ["dags/mirrors.py", "include/kafka_ferry_airflow/plugin.py"])
def test_a_file_of_the_project_knows_its_project_wherever_state_is_kept(
    project: Path, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRY_HOME", str(tmp_path / "state"))

    assert project_root(str(project / file)) == project


@pytest.mark.parametrize(
    "file", ["airflow/dags/mirrors.py", "lib/site-packages/kafka_ferry_airflow/plugin.py"]
)
def test_a_file_outside_of_a_project_goes_by_the_environment(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRY_HOME", str(tmp_path / "project"))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    assert project_root(str(tmp_path / file)) == tmp_path / "project"

    monkeypatch.delenv("FERRY_HOME")
    assert project_root(str(tmp_path / file)) == tmp_path / "airflow"

    monkeypatch.delenv("AIRFLOW_HOME")
    assert project_root(str(tmp_path / file)) == Path.home() / "airflow"
