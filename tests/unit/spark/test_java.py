"""Which Java Spark would start, and what is said where it could not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.errors import JavaNeeded
from kafka_ferry.spark.java import java_version, require_java


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path


def install(home: Path, version: str) -> None:
    (home / "bin").mkdir()
    java = home / "bin" / "java"
    java.touch(mode=0o755)
    if version:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')


@pytest.mark.parametrize("version", ["17.0.15", "17", "25-ea", ""])
def test_a_java_that_is_new_enough_or_does_not_say_is_tried(home: Path, version: str) -> None:
    install(home, version)
    require_java()
    assert java_version() == (version or None)


@pytest.mark.parametrize(("version", "major"), [("11.0.22", "11"), ("1.8.0_402", "8")])
def test_an_older_one_is_named(home: Path, version: str, major: str) -> None:
    install(home, version)
    with pytest.raises(JavaNeeded) as raised:
        require_java()
    assert f"{home}/bin/java is Java {major}. " in str(raised.value)
    assert "needs Java 17 or newer" in str(raised.value)


def test_none_at_all_is_named(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JavaNeeded) as raised:
        require_java()
    assert f"JAVA_HOME={home} has no bin/java" in str(raised.value)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaNeeded, match="no java on the PATH"):
        require_java()
