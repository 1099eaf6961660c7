"""The Java that Spark's scripts start."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from kafka_ferry.errors import JavaNeeded

_VERSION: Final = "JAVA_VERSION="
_OLDEST: Final = 17
_ADVICE: Final = f"Kafka Ferry copies with Spark, which needs Java {_OLDEST} or newer: install one, or set JAVA_HOME."


def find_java() -> Path | None:
    """The program: below ``JAVA_HOME`` where that is set, as for Spark's ``spark-class``, or on the path."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    return Path(java).resolve() if java else None


def java_version() -> str | None:
    """Its version, such as ``17.0.15``, from the release file of its installation; None where nothing tells."""
    java = find_java()
    try:
        lines = (java.parents[1] / "release").read_text().splitlines() if java else []
    except OSError:
        return None
    versions = (
        line.removeprefix(_VERSION).strip('"') for line in lines if line.startswith(_VERSION)
    )
    return next(versions, None)


def require_java() -> None:
    """Do nothing where Spark could start.

    Raises:
        JavaNeeded: there is no Java, or it is older than Spark's oldest.
    """
    java, home = find_java(), os.environ.get("JAVA_HOME")
    if java is None:
        where = f"JAVA_HOME={home} has no bin/java" if home else "There is no java on the PATH"
        raise JavaNeeded(f"{where}.", advice=_ADVICE)
    # Before Java 9 it was 1.8.
    major = (java_version() or "").removeprefix("1.").partition(".")[0]
    if major.isdigit() and int(major) < _OLDEST:
        raise JavaNeeded(f"{java} is Java {major}.", advice=_ADVICE)
