"""What figures depend on beside the code: the machine, and the versions of all that runs on it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from kafka_sandbox.java.jars import KAFKA_VERSION, java

_ASK = """
import json, platform
from importlib.metadata import PackageNotFoundError, version
import kafka_ferry
def found(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None
print(json.dumps({
    "python": platform.python_version(),
    "spark": found("pyspark"),
    "airflow": found("apache-airflow"),
    "kafka_ferry": found("kafka-ferry"),
    "code": kafka_ferry.__file__,
}))
"""


def machine() -> dict[str, Any]:
    """Processors, memory and system, and how busy it was already."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "cpu": _cpu_model(),
        "os": platform.freedesktop_os_release().get("PRETTY_NAME", "unknown"),
        "kernel": platform.release(),
        "load_average_before": os.getloadavg()[0],
    }


def servers() -> dict[str, str]:
    """Java, the brokers and MirrorMaker 2, which is of the brokers' version."""
    told = subprocess.run([java(), "-version"], capture_output=True, text=True, check=True).stderr
    lines = [line for line in told.splitlines() if not line.startswith("Picked up")]
    return {"java": lines[0] if lines else "unknown", "kafka": KAFKA_VERSION}


def installation(python: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """The versions that an interpreter finds, and the commit of the Kafka Ferry that it imports."""
    asked = [python, "-c", _ASK]
    done = subprocess.run(asked, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"commit": _commit(Path(found["code"]).parent)}


def _commit(folder: Path) -> str | None:
    """The commit that is checked out there, marked as dirty if files differ; None outside of git."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
