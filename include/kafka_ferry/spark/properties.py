"""Spark properties that our jobs need or do better with."""

from __future__ import annotations

from typing import Final

# Two attempts of one task at once would fence each other.
EVERY_JOB: Final = {"spark.speculation": "false"}
# The records never enter the JVM: it starts sooner with the quick compiler and simple collector.
LIGHT_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
