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
from pathlib import Path

from kafka_sandbox.errors import SandboxError

KAFKA_VERSION = "4.3.1"
SCALA_VERSION = "2.13"
SLF4J_VERSION = "2.0.17"

MODULES = (
    ("org.apache.kafka", f"kafka_{SCALA_VERSION}", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.slf4j", "slf4j-simple", SLF4J_VERSION),
)

SANDBOX = Path(__file__).resolve().parents[2] / ".sandbox"
_HOME = SANDBOX / "kafka"
_LIB = _HOME / "lib"
# The Ivy file that the jars in lib were retrieved for, written last: it is there or they are not.
RESOLVED = _HOME / "ivy.xml"

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


def class_path() -> str:
    """A Java class path with Kafka's broker and tools; fetches the jars (55 MB) the first time.

    Raises:
        SandboxError: the jars cannot be fetched, or there is no Java or no PySpark.
    """
    ivy_file = _ivy_file()
    with _lock():
        if not RESOLVED.exists() or RESOLVED.read_text() != ivy_file:
            _retrieve(ivy_file)
    return f"{_LIB}/*"


def _ivy_file() -> str:
    dependencies = "\n".join(
        f'    <dependency org="{org}" name="{name}" rev="{version}" conf="run->default"/>'
        for org, name, version in MODULES
    )
    return f"""<ivy-module version="2.0">
  <info organisation="kafka_sandbox" module="kafka"/>
  <configurations><conf name="run"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


@contextmanager
def _lock() -> Iterator[None]:
    _HOME.mkdir(parents=True, exist_ok=True)
    with (_HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _retrieve(ivy_file: str) -> None:
    _log.info("Fetching Kafka %s into %s; this can take two minutes, once.", KAFKA_VERSION, _LIB)
    wanted = _HOME / "wanted.xml"
    wanted.write_text(ivy_file)
    done = subprocess.run(
        [
            *(java(), "-cp", _ivy_jar(), "org.apache.ivy.Main"),
            *("-ivy", wanted, "-cache", SANDBOX / "ivy-cache", "-sync"),
            *("-retrieve", f"{_LIB}/[artifact]-[revision](-[classifier]).[ext]"),
            # Maven's OSGi bundles (snappy-java among them) are jars of another artifact type.
            *("-types", "jar", "bundle"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    output = _HOME / "ivy.log"
    output.write_text(done.stdout)
    if done.returncode != 0:
        raise SandboxError(
            f"Kafka's jars cannot be fetched; is the network, or a proxy in JAVA_TOOL_OPTIONS, all "
            f"right? All of Ivy's output is in {output}. It ends:\n{done.stdout[-1500:].strip()}"
        )
    wanted.replace(RESOLVED)


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
