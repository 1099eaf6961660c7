"""Small builders of flows and files for these tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kafka_ferry.config import Cluster, Flow

SOURCE = {"bootstrap.servers": "source:9092"}
TARGET = {"bootstrap.servers": "target:9092"}

YAML = """\
source:
  alias: primary
  bootstrap.servers: source:9092
target:
  alias: backup
  bootstrap.servers: target:9092
"""

PROPERTIES = """\
clusters = primary, backup
primary.bootstrap.servers = source:9092
backup.bootstrap.servers = target:9092
primary->backup.enabled = true
"""


def a_cluster(alias: str = "primary", **properties: str) -> Cluster:
    dotted = {name.replace("__", "."): value for name, value in properties.items()}
    host = "source" if alias == "primary" else alias
    return Cluster(alias=alias, properties={"bootstrap.servers": f"{host}:9092", **dotted})


def a_flow(**options: Any) -> Flow:
    options.setdefault("source", a_cluster("primary"))
    options.setdefault("target", a_cluster("backup"))
    return Flow(**options)


def yaml_file(folder: Path, more: str = "", *, start: str = YAML) -> Path:
    file = folder / "flow.yaml"
    file.write_text(start + more)
    return file


def properties_file(folder: Path, more: str = "", *, start: str = PROPERTIES) -> Path:
    file = folder / "mm2.properties"
    file.write_text(start + more, encoding="latin-1")
    return file
