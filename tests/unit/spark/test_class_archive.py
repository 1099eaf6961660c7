"""The archive of the classes of Spark's driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.spark.class_archive import found_archive
from kafka_ferry.spark.properties import driver_options


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark, and a Java 21.0.2 beside it."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    (tmp_path / "java" / "release").write_text('IMPLEMENTOR="X"\nJAVA_VERSION="21.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    return tmp_path


def test_it_is_found_by_the_version_of_the_java(spark_home: Path) -> None:
    (spark_home / "kafka-ferry-java-17.0.15.jsa").touch()
    assert found_archive() is None
    assert "SharedArchiveFile" not in driver_options()

    archive = spark_home / "kafka-ferry-java-21.0.2.jsa"
    archive.touch()

    assert found_archive() == archive
    assert f"-XX:SharedArchiveFile={archive}" in driver_options()


@pytest.mark.parametrize("missing", ["java/release", "java/bin/java"])
def test_a_java_of_unknown_version_has_none(spark_home: Path, missing: str) -> None:
    (spark_home / "kafka-ferry-java-21.0.2.jsa").touch()
    (spark_home / missing).unlink()
    assert found_archive() is None
