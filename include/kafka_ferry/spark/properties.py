"""Spark properties that our jobs need or benefit from."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

from kafka_ferry.spark.class_archive import found_archive

EVERY_JOB: Final[Mapping[str, str]] = {
    # Two concurrent attempts of one task would fence each other.
    "spark.speculation": "false",
    "spark.python.daemon.module": "kafka_ferry.spark.daemon",
    # Our queries have a handful of rows: compiling classes for them takes longer than running them.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}

QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms48m -Xmn16m"
"""Options of a short-lived JVM: the quick compiler, the simple garbage collector, and a small heap to begin
with. By default it is a share of the machine's memory, and a JVM fills it before it first collects."""


def set_environment() -> None:
    """Set what Spark's processes inherit from this one, where the user has not set it."""
    # By default Spark starts whichever `python3` is on the PATH for its workers.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", QUICK_START)


def driver_options() -> str:
    """Options of the driver's JVM on this machine, through which no record passes."""
    archive = found_archive()
    if archive is None:
        return QUICK_START
    # If it does not fit after all, the JVM starts without it, and need not log that.
    return f"{QUICK_START} -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
