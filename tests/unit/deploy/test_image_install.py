"""The image gets what its Airflow lacks, by the lock file's hashes, and keeps what it has."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from tests import PROJECT

SCRIPT = PROJECT / "deploy" / "image" / "install.py"


@pytest.fixture(scope="module")
def install() -> ModuleType:
    spec = spec_from_file_location("image_install", SCRIPT)
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def has(folder: Path, name: str, version: str, *requires: str) -> None:
    """Puts a package into a folder, as pip would."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {it}" for it in requires)]
    (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *lines, ""]))


LOCK = {name: f"{name}=={version} --hash=x" for name, version in {"b": "2", "c": "3"}.items()}


def complete(install: ModuleType, folder: Path, lock: dict[str, str]) -> list[list[str]]:
    """What is installed, round by round, where ``a`` is wanted and ``b`` 2 wants ``c``."""
    rounds = []

    def put(entries: list[str]) -> None:
        rounds.append(entries)
        for entry in entries:
            name, version = entry.split(" ")[0].split("==")
            for old in folder.glob(f"{name}-*"):
                old.rename(folder / f"gone-{old.name.removesuffix('.dist-info')}")
            has(folder, name, version, *(["c>=3; python_version > '3'"] if name == "b" else []))

    wanted = install.read_requirements("# all of it\na[more]  # with its extra\n")
    install.complete(lock, wanted, [str(folder)], put)
    return rounds


def test_what_is_missing_comes_from_the_lock_file_until_nothing_is(
    install: ModuleType, tmp_path: Path
) -> None:
    has(
        tmp_path,
        "a",
        "1",
        "b>=2; extra == 'more'",
        "d; extra == 'other'",
        "e; python_version < '3'",
    )
    assert complete(install, tmp_path, LOCK) == [[LOCK["b"]], [LOCK["c"]]]


def test_what_fits_stays_in_its_version(install: ModuleType, tmp_path: Path) -> None:
    has(tmp_path, "a", "1", "b>=2; extra == 'more'")
    has(tmp_path, "b", "2.5", "c<3")
    has(tmp_path, "c", "1")
    assert complete(install, tmp_path, LOCK) == []


@pytest.mark.parametrize("lock", [{}, {"b": "b==1 --hash=x"}])
def test_a_lock_file_that_does_not_fit_is_refused(
    install: ModuleType, tmp_path: Path, lock: dict[str, str]
) -> None:
    has(tmp_path, "a", "1", "b>=2; extra == 'more'")
    with pytest.raises(SystemExit, match=r"b of requirements\.lock does not fit"):
        complete(install, tmp_path, lock)


def test_each_package_of_the_lock_file_comes_with_its_hashes(install: ModuleType) -> None:
    lock = install.read_lock((PROJECT / "requirements.lock").read_text())
    assert len(lock) > 200
    assert all("--hash=sha256:" in entry for entry in lock.values())
    assert {"hatchling", "setuptools"} <= lock.keys()


def test_nothing_is_installed_without_a_hash() -> None:
    dockerfile = (PROJECT / "Dockerfile").read_text()
    assert "pip install" not in dockerfile and "pip wheel" not in dockerfile
    assert '"--require-hashes"' in SCRIPT.read_text()
    assert "--chown" not in dockerfile


@pytest.mark.parametrize("project", ["pyproject.toml", "sandbox/pyproject.toml"])
def test_the_build_backend_is_the_one_of_the_lock_file(project: str) -> None:
    (backend,) = re.findall(r'requires = \["(.+)"\]', (PROJECT / project).read_text())
    assert f"{backend} " in (PROJECT / "requirements.lock").read_text()
    assert backend.startswith("hatchling==")
