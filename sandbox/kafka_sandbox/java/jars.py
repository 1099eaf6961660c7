"""Kafka's own jars, fetched once: Python with PySpark and Java are enough."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka_sandbox.errors import SandboxError
from kafka_sandbox.java import checksums, ivy

KAFKA_VERSION = "4.3.1"
SCALA_VERSION = "2.13"
SLF4J_VERSION = "2.0.17"

SANDBOX = Path(__file__).resolve().parents[3] / ".sandbox"


@dataclass(frozen=True)
class Jars:
    """Jars that are fetched together, into a folder of their own.

    Attributes:
        name: of the folder in ``.sandbox``.
        modules: organisation, name and version of each module that is asked for.
        without: organisation and name (``*`` for any) of what comes with them and is left out.
    """

    name: str
    modules: tuple[tuple[str, str, str], ...]
    without: tuple[tuple[str, str], ...] = ()

    @property
    def home(self) -> Path:
        """The folder."""
        return SANDBOX / self.name

    @property
    def lib(self) -> Path:
        """Where the jars are."""
        return self.home / "lib"

    @property
    def resolved(self) -> Path:
        """What the jars were fetched for, written last: it is there or they are not."""
        return self.home / "fetched"


KAFKA = Jars(
    "kafka",
    (
        ("org.apache.kafka", f"kafka_{SCALA_VERSION}", KAFKA_VERSION),
        ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
        ("org.slf4j", "slf4j-simple", SLF4J_VERSION),
    ),
)
"""The broker and the tools of every cluster here, unless another version is asked for."""

STREAMS = Jars(
    "kafka-streams",
    (
        ("org.apache.kafka", "kafka-streams", KAFKA_VERSION),
        ("org.slf4j", "slf4j-simple", SLF4J_VERSION),
        ("org.eclipse.jdt", "ecj", "3.36.0"),
    ),
    # Most of the size, and only for applications that keep state.
    without=(("org.rocksdb", "*"),),
)
"""Kafka Streams, for applications without state, Java's own clients, and a Java compiler."""


def kafka(version: str) -> Jars:
    """A broker of another version, 0.11 or newer, with its ZooKeeper before 4.0."""
    if version == KAFKA_VERSION:
        return KAFKA
    scala = SCALA_VERSION if line(version) >= (2, 4) else "2.12"
    modules = [
        ("org.apache.kafka", f"kafka_{scala}", version),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    ]
    if line(version) >= (1, 0):
        return Jars(f"kafka-{version}", tuple(modules))
    modules += [
        # Java itself had it until 10.
        ("javax.xml.bind", "jaxb-api", "2.3.1"),
        # What it says to Log4j goes where others write their log.
        ("org.slf4j", "log4j-over-slf4j", "1.7.36"),
    ]
    without = (("org.slf4j", "slf4j-log4j12"), ("log4j", "log4j"))
    return Jars(f"kafka-{version}", tuple(modules), without)


def line(version: str) -> tuple[int, int]:
    """The first two numbers of a version, to compare."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


_log = logging.getLogger(__name__)


def java() -> Path:
    """The Java launcher of ``JAVA_HOME``, else of ``PATH``.

    Raises:
        SandboxError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if found is None:
        where = f"JAVA_HOME ({home})" if home else "PATH"
        raise SandboxError(f"Kafka needs Java 17 or newer; there is no java on {where}.")
    return Path(found)


def class_path(jars: Jars = KAFKA) -> str:
    """A Java class path with all of the jars, fetched the first time (Kafka's broker: 55 MB).

    Raises:
        SandboxError: the jars cannot be fetched, one is not the right one, or there is no Java or no
            PySpark.
    """
    pinned = checksums.pinned(jars.name, jars.modules)
    wanted = checksums.as_text(pinned) if pinned else _ivy_file(jars)
    with lock(jars.home / "lock"):
        if not jars.resolved.exists() or jars.resolved.read_text() != wanted:
            # What is fetched for one is there for all.
            with lock(SANDBOX / "fetching.lock"):
                _fetch(jars, pinned)
            jars.resolved.write_text(wanted)
    return f"{jars.lib}/*"


def _fetch(jars: Jars, pinned: dict[str, str]) -> None:
    """Fetches the jars that are pinned, or lets Ivy find out which they are."""
    if not pinned:
        _log.info("Ivy finds out what %s needs; this can take two minutes, once.", jars.name)
        _resolve(jars)
        return
    store = SANDBOX / "jars"
    store.mkdir(parents=True, exist_ok=True)
    missing = {
        path: store / sha256 for path, sha256 in pinned.items() if not (store / sha256).exists()
    }
    _log.info("Fetching %d jars into %s, once.", len(missing), jars.lib)
    parts = {path: file.with_suffix(".part") for path, file in missing.items()}
    try:
        ivy.fetch(java(), parts)
    except SandboxError as error:
        _log.info("%s Ivy itself tries now; this can take two minutes.", error)
        _resolve(jars)
        parts = {path: jars.lib / Path(path).name for path in missing}
    for path, file in parts.items():
        checksums.check(path, file, pinned[path])
        file.replace(missing[path])
    shutil.rmtree(jars.lib, ignore_errors=True)
    jars.lib.mkdir(parents=True)
    for path, sha256 in pinned.items():
        (jars.lib / Path(path).name).hardlink_to(store / sha256)


def _resolve(jars: Jars) -> None:
    """Lets Ivy find out which jars the modules need, and writes down which these are."""
    ivy_file, cache = jars.home / "wanted.xml", SANDBOX / "ivy-cache"
    jars.home.mkdir(parents=True, exist_ok=True)
    ivy_file.write_text(_ivy_file(jars))
    ivy.retrieve(java(), ivy_file, cache, jars.lib)
    paths = ivy.repository_paths(cache / f"kafka_sandbox-{jars.name}-run.xml")
    found = {path: checksums.sha256(jars.lib / Path(path).name) for path in paths}
    file = jars.home / checksums.file_name(jars.name)
    file.write_text(checksums.as_text(found))
    _log.info("A copy of %s in %s makes that quick and checked.", file, checksums.FOLDER)


def _ivy_file(jars: Jars) -> str:
    dependencies = [
        f'    <dependency org="{org}" name="{name}" rev="{version}" conf="run->default"/>'
        for org, name, version in jars.modules
    ]
    dependencies += [f'    <exclude org="{org}" module="{name}"/>' for org, name in jars.without]
    listed = "\n".join(dependencies)
    return f"""<ivy-module version="2.0">
  <info organisation="kafka_sandbox" module="{jars.name}"/>
  <configurations><conf name="run"/></configurations>
  <dependencies>
{listed}
  </dependencies>
</ivy-module>
"""


@contextmanager
def lock(file: Path) -> Iterator[None]:
    """Holds a lock on the file, against all other processes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
