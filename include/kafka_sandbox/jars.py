"""Kafka's own jars, fetched once with the Ivy that PySpark carries: Python and Java are enough."""

from __future__ import annotations

import fcntl
import importlib.util
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka_sandbox.errors import SandboxError

KAFKA_VERSION = "4.3.1"
SCALA_VERSION = "2.13"
SLF4J_VERSION = "2.0.17"

SANDBOX = Path(__file__).resolve().parents[2] / ".sandbox"


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
        """The Ivy file that the jars were retrieved for, written last: it is there or they are not."""
        return self.home / "ivy.xml"


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
        SandboxError: the jars cannot be fetched, or there is no Java or no PySpark.
    """
    ivy_file = _ivy_file(jars)
    with _lock(jars.home / "lock"):
        if not jars.resolved.exists() or jars.resolved.read_text() != ivy_file:
            # Ivy's cache is everybody's.
            with _lock(SANDBOX / "ivy-cache.lock"):
                _retrieve(jars, ivy_file)
    return f"{jars.lib}/*"


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
def _lock(file: Path) -> Iterator[None]:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _retrieve(jars: Jars, ivy_file: str) -> None:
    _log.info("Fetching %s into %s; this can take two minutes, once.", jars.name, jars.lib)
    wanted = jars.home / "wanted.xml"
    wanted.write_text(ivy_file)
    done = subprocess.run(
        [
            *(java(), "-cp", _ivy_jar(), "org.apache.ivy.Main"),
            *("-ivy", wanted, "-cache", SANDBOX / "ivy-cache", "-sync"),
            *("-retrieve", f"{jars.lib}/[artifact]-[revision](-[classifier]).[ext]"),
            # Maven's OSGi bundles (snappy-java among them) are jars of another artifact type.
            *("-types", "jar", "bundle"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    output = jars.home / "ivy.log"
    output.write_text(done.stdout)
    if done.returncode != 0:
        raise SandboxError(
            f"Kafka's jars cannot be fetched; is the network, or a proxy in JAVA_TOOL_OPTIONS, all "
            f"right? All of Ivy's output is in {output}. It ends:\n{done.stdout[-1500:].strip()}"
        )
    wanted.replace(jars.resolved)


def _ivy_jar() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise SandboxError("Kafka's jars are fetched with PySpark's Ivy, and there is no PySpark.")
    jars = sorted((Path(pyspark.origin).parent / "jars").glob("ivy-*.jar"))
    if not jars:
        raise SandboxError(
            f"PySpark in {pyspark.origin} carries no Ivy: is it pyspark-client only?"
        )
    return jars[-1]
