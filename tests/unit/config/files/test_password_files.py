"""The file of SCRAM users' passwords: read as a Java properties file, and never repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.config.files.password_files import read_passwords
from kafka_ferry.errors import ConfigError
from tests.unit.plan.builders import a_flow

WORD = "pa55-of-anna"


def test_without_such_a_file_there_are_none() -> None:
    assert read_passwords(a_flow()) == {}


def test_passwords_are_as_they_are_written(tmp_path: Path) -> None:
    file = tmp_path / "passwords.properties"
    file.write_text(f"# of the target\nanna={WORD}\nbob = ä\\\\b \nc\\=d: e=f\n", "utf-8")
    read = read_passwords(a_flow(**{"scram.passwords.file": str(file)}))
    assert read == {"anna": WORD, "bob": "ä\\b ", "c=d": "e=f"}


def test_a_relative_path_starts_at_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRY_HOME", str(tmp_path))
    (tmp_path / "passwords.properties").write_text(f"anna={WORD}\n")
    assert read_passwords(a_flow(**{"scram.passwords.file": "passwords.properties"}))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"anna=\xff" + WORD.encode(), "is not text in UTF-8"),
        (b"anna=\\u00" + WORD.encode(), r"has a \\u without four hex digits"),
        (f"anna={WORD}\nbob=\n".encode(), "has nothing after bob"),
    ],
)
def test_what_is_wrong_names_the_file_and_no_password(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    file = tmp_path / "passwords.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=reason) as caught:
        read_passwords(a_flow(**{"scram.passwords.file": str(file)}))
    assert caught.value.key == "scram.passwords.file"
    assert str(file) in str(caught.value)
    assert WORD not in str(caught.value)
    assert caught.value.__cause__ is None
