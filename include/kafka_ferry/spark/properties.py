"""Spark properties that our jobs need or do better with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_ferry.spark.class_archive import found_archive

EVERY_JOB: Final[Mapping[str, str]] = {
    # Two attempts of one task at once would fence each other.
    "spark.speculation": "false",
    "spark.python.daemon.module": "kafka_ferry.spark.daemon",
    # Our queries have a handful of rows: to compile classes for them takes longer than they do.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}


QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that soon ends: the compiler that compiles sooner, and the simple collector."""


def driver_options() -> str:
    """Options of the driver's JVM on this machine, through which no record passes."""
    archive = found_archive()
    if archive is None:
        return QUICK_START
    # Where it does not fit after all, the JVM goes without it, and need not say so.
    return f"{QUICK_START} -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
