"""Which Spark is started: never one that lies beside the folder in which somebody calls a command."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest

from kafka_ferry.spark.properties import set_environment
from kafka_ferry.spark.security import spark_home as module
from kafka_ferry.spark.security.spark_home import spark_home


def install(home: Path) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin/spark-submit").touch(mode=0o755)
    (home / "jars").mkdir()
    return home


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "PYTHONSAFEPATH"):
        # Set first: so it is again as before after the test.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_the_parent_of_the_current_folder_is_no_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    set_environment()

    assert os.environ["SPARK_HOME"] == str(Path(pyspark.__file__).parent)
    assert os.environ["PYTHONSAFEPATH"] == "1"


def test_one_that_is_named_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert spark_home() == Path("/opt/spark")


@pytest.mark.parametrize(
    ("package", "home"),
    [
        ("pyspark", "pyspark"),
        ("pyspark", "pyspark/spark-distribution"),
        ("spark/python/pyspark", "spark"),
    ],
)
def test_it_is_pyspark_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, home: str
) -> None:
    install(tmp_path / home)
    origin = str(tmp_path / package / "__init__.py")
    monkeypatch.setattr(module, "find_spec", lambda _: SimpleNamespace(origin=origin))
    assert spark_home() == tmp_path / home


def test_a_pyspark_without_a_spark_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = str(tmp_path / "lib/python/pyspark/__init__.py")
    monkeypatch.setattr(module, "find_spec", lambda _: SimpleNamespace(origin=origin))
    assert spark_home() is None
