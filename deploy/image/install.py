"""Installs into the image what its Airflow lacks: by the lock file's hashes, and as root's, so that no task changes it.

pip wants hashes of all packages or of none, and the base image has versions of its own. So this goes from the
requirements to what each of them requires: what the image has in a version that fits stays as it is, and what it
lacks comes from the lock file, without dependencies, until nothing is missing.
"""

from __future__ import annotations

import importlib
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name

# The user of both base images, airflow or astro.
USER = 50_000
# What builds the sdist of pyspark, and the wheel of the project.
BACKENDS = ("setuptools", "hatchling")
# Spark comes as sources, and to squeeze its jars into a wheel that is kept for a moment takes a minute.
STORED = "--config-settings=--build-option=--compression=stored"
CHECKED = ("--quiet", "--no-cache-dir", "--no-deps", "--no-build-isolation", "--use-pep517")


def main(folder: Path) -> None:
    """Installs the requirements of a folder with requirements.txt and requirements.lock; its project, if it has one."""
    began = time.time_ns()
    image = Image()
    lock = read_lock((folder / "requirements.lock").read_text())
    with tempfile.TemporaryDirectory() as tools:
        Path(tools).chmod(0o777)
        complete(
            lock, [*map(Requirement, BACKENDS)], [tools], lambda it: image.pip_target(tools, it)
        )
        image.environment["PYTHONPATH"] = tools
        if (folder / "pyproject.toml").exists():
            image.install_project(folder)
        else:
            wanted = read_requirements((folder / "requirements.txt").read_text())
            complete(lock, wanted, image.path, image.pip)
    image.close(began)


def read_requirements(text: str) -> list[Requirement]:
    """The requirements of a file without its comments."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [Requirement(line) for line in lines if line]


def read_lock(text: str) -> dict[str, str]:
    """Each package's lines, with the hashes, by its canonical name; of several versions those for this Python."""
    entries = re.findall(r"^[^ #\n].*(?:\n[ ]+.*)*", text, re.MULTILINE)
    found = {}
    for entry in entries:
        requirement = Requirement(re.split(r"\s*\\\n", entry)[0])
        if requirement.marker is None or requirement.marker.evaluate():
            found[canonicalize_name(requirement.name)] = entry
    return found


def complete(
    lock: dict[str, str],
    wanted: Sequence[Requirement],
    path: list[str],
    install: Callable[[Sequence[str]], None],
) -> None:
    """Calls ``install`` with entries of the lock file until nothing that is wanted is missing from ``path``.

    Raises:
        SystemExit: the lock file lacks a package, or has it in a version that does not fit to the image's packages.
    """
    tried: set[str] = set()
    while names := sorted(missing(wanted, path)):
        for name in names:
            if name in tried or name not in lock or name.startswith("apache-airflow-core"):
                sys.exit(
                    f"{name} of requirements.lock does not fit to the packages of the base image"
                )
        install([lock[name] for name in names])
        tried |= set(names)


def missing(wanted: Sequence[Requirement], path: list[str]) -> set[str]:
    """The names of the packages that are wanted, directly or by one that is there, and have no version that fits."""
    importlib.invalidate_caches()
    there: dict[str, Distribution] = {}
    for distribution in distributions(path=path):
        there.setdefault(canonicalize_name(distribution.metadata["Name"]), distribution)
    waiting = [(it, frozenset[str]()) for it in wanted]
    names: set[str] = set()
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement, extras = waiting.pop()
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": it}) for it in extras or {""}):
            continue
        name = canonicalize_name(requirement.name)
        distribution = there.get(name)
        if not distribution or not requirement.specifier.contains(
            distribution.version, prereleases=True
        ):
            names.add(name)
        elif (key := (name, frozenset(requirement.extras))) not in seen:
            seen.add(key)
            waiting += [(Requirement(it), key[1] | {""}) for it in distribution.requires or ()]
    return names


class Image:
    """The Python packages of the base image, which its user installs, and afterwards root has."""

    def __init__(self) -> None:
        self.environment = {**os.environ, "HOME": pwd.getpwuid(USER).pw_dir}
        printed = self._run("python", "-c", "import json, sys; print(json.dumps(sys.path))")
        self.path: list[str] = [it for it in json.loads(printed) if it]
        airflow = self._run("python", "-c", "import airflow; print(airflow.__path__[0])")
        # Where Airflow is, pip puts what it installs.
        self.site = Path(airflow.strip()).parent
        self.scripts = Path(shutil.which("airflow") or sys.exit("no airflow on the path")).parent
        for place in (self.site, self.scripts):
            os.chown(place, USER, 0)

    def pip(self, entries: Sequence[str]) -> None:
        """Installs entries of the lock file, if their hashes match."""
        self._pip_install(entries)

    def pip_target(self, folder: str, entries: Sequence[str]) -> None:
        """Does so into a folder."""
        self._pip_install(entries, "--target", folder)

    def install_project(self, folder: Path) -> None:
        """Builds the project's wheel into its ``dist`` and installs it."""
        with tempfile.TemporaryDirectory() as built:
            Path(built).chmod(0o777)
            self._run("pip", "wheel", *CHECKED, "--wheel-dir", built, str(folder))
            (wheel,) = Path(built).iterdir()
            self._run("pip", "install", *CHECKED, str(wheel))
            (folder / "dist").mkdir()
            shutil.copy(wheel, folder / "dist")
            # Spark sends a .whl to its executors, but only a .zip gets on their import path.
            archive = shutil.copy(wheel, folder / "dist" / "kafka_ferry.zip")
        for command in (["bytecode"], ["bytecode", str(archive)], ["class_archive"]):
            self._as_root("-m", f"kafka_ferry.spark.{command[0]}", *command[1:])

    def close(self, began: int) -> None:
        """Gives root what has come since ``began`` (ns since 1970), and the folders above it."""
        for path in self._files():
            if path.lstat().st_ctime_ns >= began:
                _give_to_root(path)
        home = Path(self.environment["HOME"])
        for place in (self.site, self.scripts):
            for folder in (place, *place.parents):
                if folder.stat().st_uid == USER and folder != home:
                    _give_to_root(folder)
        if home in self.site.parents:
            os.chown(home, 0, 0)
            # Its user may write there, but rename no folder that is not its own.
            home.chmod(0o1775)

    def _files(self) -> Iterator[Path]:
        for place in (self.site, self.scripts):
            yield from place.rglob("*")

    def _pip_install(self, entries: Iterable[str], *options: str) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("\n".join(entries))
            file.flush()
            Path(file.name).chmod(0o644)
            command = ("pip", "install", *CHECKED, STORED, *options, "--require-hashes")
            self._run(*command, "--requirement", file.name)

    def _as_root(self, *arguments: str) -> None:
        own = {**os.environ, "PYTHONPATH": str(self.site)}
        subprocess.run(("python", *arguments), check=True, env=own)

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
            user=USER,
            group=0,
            extra_groups=(),
        )
        return done.stdout


def _give_to_root(path: Path) -> None:
    os.chown(path, 0, 0, follow_symlinks=False)
    if not path.is_symlink():
        path.chmod(path.stat().st_mode & ~0o022)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
