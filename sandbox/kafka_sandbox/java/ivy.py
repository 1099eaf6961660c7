"""Ivy, which PySpark carries: it resolves modules and fetches their jars, with Java's network settings."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError

from kafka_sandbox.errors import SandboxError

_AT_ONCE = 12
# A connection that went silent must not hang the whole set-up.
_JAVA_OPTIONS = [
    "-XX:TieredStopAtLevel=1",
    "-Dsun.net.client.defaultConnectTimeout=30000",
    "-Dsun.net.client.defaultReadTimeout=60000",
]


def fetch(java: Path, wanted: Mapping[str, Path], repository: str | None = None) -> None:
    """Fetches files of a Maven repository in parallel, in one JVM, and resolves nothing.

    Args:
        java: the launcher.
        wanted: by path in the repository, such as ``org/slf4j/slf4j-api/2.0.17/slf4j-api-2.0.17.jar``,
            the file that it is to become.
        repository: its URL, unless it is the one that Ivy itself knows.

    Raises:
        SandboxError: a file cannot be fetched, or there is no PySpark.
    """
    with _gateway(java) as classes, ThreadPoolExecutor(_AT_ONCE) as pool:
        known = classes.org.apache.ivy.plugins.resolver.IBiblioResolver()
        known.setM2compatible(True)
        root = (repository or str(known.getRoot())).rstrip("/")
        ivy = classes.org.apache.ivy.util.url.URLHandlerRegistry.getDefault()

        def download(path: str) -> None:
            source = classes.java.net.URL(f"{root}/{path}")
            try:
                ivy.download(source, classes.java.io.File(str(wanted[path])), None)
            except Py4JJavaError as error:
                said = error.java_exception.toString()
                raise SandboxError(f"{path} cannot be fetched: {said}.") from None

        try:
            list(pool.map(download, wanted))
        finally:
            # After an error, those that have not begun need not.
            pool.shutdown(cancel_futures=True)


def retrieve(java: Path, ivy_file: Path, cache: Path, lib: Path) -> str:
    """Resolves the modules of an Ivy file, fetches their jars and what these need, all into ``lib``.

    Returns:
        All that Ivy said.

    Raises:
        SandboxError: Ivy does not manage it, or there is no PySpark.
    """
    done = subprocess.run(
        [
            *(java, "-cp", _jar("ivy"), "org.apache.ivy.Main"),
            *("-ivy", ivy_file, "-cache", cache, "-sync"),
            *("-retrieve", f"{lib}/[artifact]-[revision](-[classifier]).[ext]"),
            # Maven's OSGi bundles (snappy-java among them) are jars of another artifact type.
            *("-types", "jar", "bundle"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    output = ivy_file.with_name("ivy.log")
    output.write_text(done.stdout)
    if done.returncode != 0:
        raise SandboxError(
            f"Kafka's jars cannot be fetched; is the network, or a proxy in JAVA_TOOL_OPTIONS, all "
            f"right? All of Ivy's output is in {output}. It ends:\n{done.stdout[-1500:].strip()}"
        )
    return done.stdout


def repository_paths(report: Path) -> list[str]:
    """Where a Maven repository has the jars of a report that ``retrieve`` left in Ivy's cache."""
    return [
        "/".join(
            [
                *module.attrib["organisation"].split("."),
                module.attrib["name"],
                revision.attrib["name"],
                origin.attrib["location"].rpartition("/")[2],
            ]
        )
        for module in ElementTree.parse(report).getroot().iter("module")
        for revision in module.iter("revision")
        for artifact in revision.iter("artifact")
        if artifact.attrib["type"] in ("jar", "bundle")
        for origin in artifact.iter("origin-location")
    ]


@contextmanager
def _gateway(java: Path) -> Iterator[Any]:
    """Java's classes, Ivy's among them, in a JVM that ends with this process."""
    try:
        port, token = launch_gateway(
            jarpath=str(_jar("py4j")),
            classpath=str(_jar("ivy")),
            javaopts=_JAVA_OPTIONS,
            java_path=str(java),
            die_on_exit=True,
            enable_auth=True,
        )
    except (OSError, Py4JError) as error:
        raise SandboxError(f"{java} does not start: {error}") from error
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()


def _jar(name: str) -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise SandboxError("Kafka's jars are fetched with PySpark's Ivy, and there is no PySpark.")
    jars = sorted((Path(pyspark.origin).parent / "jars").glob(f"{name}-*.jar"))
    if not jars:
        raise SandboxError(
            f"PySpark in {pyspark.origin} carries no {name}: is it pyspark-client only?"
        )
    return jars[-1]
