"""A broker's empty storage, as Kafka's own tool formats it, without running the tool each time."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

from kafka_sandbox.errors import SandboxError
from kafka_sandbox.java import jvm
from kafka_sandbox.java.jars import Jars, class_path, lock

# What the tool wants to know; nothing of it gets into what it writes but the node's number.
_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}


def format_storage(data: Path, jars: Jars, node: str, cluster_id: str) -> None:
    """Makes ``data`` the storage of a new broker.

    It is a copy of what Kafka's tool made of an empty folder, once for each version of Kafka: but for
    the ids in ``meta.properties``, that is the same for all brokers.

    Args:
        data: the broker's only log directory; files that are there stay.
        jars: of the broker's version.
        node: the broker's number.
        cluster_id: the id of its cluster.

    Raises:
        SandboxError: Kafka's tool cannot format a folder.
    """
    # A KRaft controller's answer to "who are you" is its directory's id: no two may share one.
    ids = {"cluster.id": cluster_id, "directory.id": new_id(), "node.id": node}
    shutil.copytree(_formatted(jars), data, dirs_exist_ok=True)
    properties = data / "meta.properties"
    lines = properties.read_text().splitlines()
    changed = [re.sub(r"^([a-z.]+)=.*", lambda found: _with_id(found, ids), line) for line in lines]
    properties.write_text("\n".join(changed) + "\n")


def _with_id(found: re.Match[str], ids: dict[str, str]) -> str:
    return f"{found[1]}={ids[found[1]]}" if found[1] in ids else found[0]


def new_id() -> str:
    """An id of a cluster or a directory, as Kafka makes them."""
    # Kafka's own ids begin with no hyphen: its tools would take that for an option.
    while (id_ := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith(
        "-"
    ):
        pass
    return id_


def _formatted(jars: Jars) -> Path:
    """A folder that Kafka's tool has formatted with these very jars."""
    class_path(jars)
    folder = jars.home / "formatted"
    with lock(jars.home / "formatted.lock"):
        jars_since = jars.resolved.stat().st_mtime
        if not folder.exists() or folder.stat().st_mtime < jars_since:
            with TemporaryDirectory(dir=jars.home) as home:
                _run_tool(Path(home), jars)
                shutil.rmtree(folder, ignore_errors=True)
                (Path(home) / "data").rename(folder)
    return folder


def _run_tool(home: Path, jars: Jars) -> None:
    file = home / "server.properties"
    properties = _PROPERTIES | {"log.dirs": str(home / "data")}
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    arguments = ["format", f"--cluster-id={new_id()}", f"--config={file}"]
    done = subprocess.run(
        jvm.command("kafka.tools.StorageTool", *arguments, jars=jars),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SandboxError(f"A broker's storage cannot be formatted.\n{done.stdout.strip()}")
