"""Spark's library with its bytecode."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from kafka_ferry.spark.bytecode import add_bytecode, main


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A package with a package in it, and a file that no Python compiles."""
    file = tmp_path / "library.zip"
    with ZipFile(file, "w") as modules:
        modules.writestr("library/__init__.py", "")
        modules.writestr("library/inner/__init__.py", "")
        modules.writestr(
            "library/inner/sizes.py", "def size():\n    raise ValueError('too large')\n"
        )
        modules.writestr("library/template.py", "value = {{ value }} }}")
        modules.writestr("library/words.txt", "one two")
    return file


def seen(archive: Path, code: str) -> subprocess.CompletedProcess[str]:
    """What another Python says with the archive on its path."""
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(archive)!r})\n{code}"],
        check=False,
        capture_output=True,
        text=True,
    )


def test_modules_are_imported_without_being_compiled(archive: Path) -> None:
    where = "import library.inner.sizes as it; print(it.__file__)"
    assert seen(archive, where).stdout.strip() == f"{archive}/library/inner/sizes.py"

    assert add_bytecode(archive)

    assert seen(archive, where).stdout.strip() == f"{archive}/library/inner/sizes.pyc"
    assert list(archive.parent.iterdir()) == [archive]


def test_nothing_is_lost_and_a_traceback_says_the_same(archive: Path) -> None:
    with ZipFile(archive) as modules:
        before = {name: modules.read(name) for name in modules.namelist()}
    code = "import library.inner.sizes; library.inner.sizes.size()"
    said = seen(archive, code).stderr

    add_bytecode(archive)

    with ZipFile(archive) as modules:
        assert {name: modules.read(name) for name in before} == before
    assert "ValueError: too large" in said
    assert seen(archive, code).stderr == said


def test_bytecode_is_added_once(archive: Path) -> None:
    add_bytecode(archive)
    compiled = archive.read_bytes()

    assert not add_bytecode(archive)

    assert archive.read_bytes() == compiled


def test_archives_that_are_named_get_it(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bytecode", str(archive)])

    main()

    with ZipFile(archive) as modules:
        assert "library/inner/sizes.pyc" in modules.namelist()


@pytest.mark.parametrize("content", [None, "no archive"])
def test_an_archive_that_is_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    file = tmp_path / "library.zip"
    if content:
        file.write_text(content)
    monkeypatch.setattr(sys, "argv", ["bytecode", str(file)])

    with pytest.raises(SystemExit, match=f"Bytecode cannot be added to {file}: "):
        main()

    assert not content or file.read_text() == content
