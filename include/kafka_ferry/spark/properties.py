"""Spark properties that our jobs need or benefit from."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kafka_ferry.errors import ConfigError
from kafka_ferry.spark.class_archive import found_archive
from kafka_ferry.spark.security.private_sockets import driver_folder
from kafka_ferry.spark.security.spark_home import spark_home

EVERY_JOB: Final[Mapping[str, str]] = {
    # Two concurrent attempts of one task would fence each other.
    "spark.speculation": "false",
    "spark.python.daemon.module": "kafka_ferry.spark.daemon",
    # Our queries have a handful of rows: compiling classes for them takes longer than running them.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    # ${env:NAME} in an expression of a user's would give it the driver's environment.
    "spark.sql.variable.substitute": "false",
}
_AUTHENTICATE: Final = "spark.authenticate"
_SECRET: Final = f"{_AUTHENTICATE}.secret"

QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms48m -Xmn16m"
"""Options of a short-lived JVM: the quick compiler, the simple garbage collector, and a small heap to begin
with. By default it is a share of the machine's memory, and a JVM fills it before it first collects."""


def set_environment() -> None:
    """Set what Spark's processes inherit from this one, where the user has not set it."""
    # By default Spark starts whichever `python3` is on the PATH for its workers.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", QUICK_START)
    # PySpark would first look for a Spark in the parent of the current folder, where another user may have put one.
    if home := spark_home():
        os.environ.setdefault("SPARK_HOME", str(home))
    # Python's workers would look for modules in the current folder before all others.
    os.environ.setdefault("PYTHONSAFEPATH", "1")


def is_local(master: str) -> bool:
    """Whether all of an application runs in this machine's own processes."""
    return master == "local" or master.startswith("local[")


def protection(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that keep strangers out of an application, where its own do not say otherwise.

    Args:
        properties: the application's own properties, with ``spark.master``.

    Raises:
        ConfigError: the master is a standalone one, and no secret is there to log in with.
    """
    master = properties.get("spark.master", "")
    wanted = {_AUTHENTICATE: "true", "spark.ui.killEnabled": "false"}
    if is_local(master):
        wanted |= {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # Spark's Python processes listen on sockets in this folder, instead of on ports.
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.python.unix.domain.socket.dir": driver_folder(),
        }
    else:
        wanted |= {"spark.network.crypto.enabled": "true"}
        if master.startswith("spark://") and properties.get(_AUTHENTICATE, "true") == "true":
            wanted[_SECRET] = _cluster_secret(properties, master)
    return {name: value for name, value in wanted.items() if name not in properties}


def _cluster_secret(properties: Mapping[str, str], master: str) -> str:
    """The secret of a standalone cluster: other masters make one for each application."""
    file = properties.get(f"{_SECRET}.file", "")
    if not file and _SECRET not in properties:
        raise ConfigError(
            master,
            _SECRET,
            "is not set: without it, any client that reaches the driver's ports could read what tasks are sent.",
            advice=f"Set {_AUTHENTICATE} and {_SECRET} for the master, its workers and the driver, here also as "
            f"{_SECRET}.file; or allow it with {_AUTHENTICATE}=false (docs/security.md).",
        )
    try:
        return properties.get(_SECRET) or Path(file).read_text().strip()
    except OSError as error:
        raise ConfigError(master, f"{_SECRET}.file", f"{file}: {error.strerror}") from None


def driver_options() -> str:
    """Options of the driver's JVM on this machine, through which no record passes."""
    archive = found_archive()
    if archive is None:
        return QUICK_START
    # If it does not fit after all, the JVM starts without it, and need not log that.
    return f"{QUICK_START} -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
