"""The Spark that PySpark starts."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Final

# PySpark's own search, without the parent of the current folder, with which it begins: another user may write there.
_BESIDE_PYSPARK: Final = "spark-distribution", "", "../.."


def spark_home() -> Path | None:
    """The folder that ``SPARK_HOME`` names or, without it, that of the installed PySpark; None where there is none."""
    if named := os.environ.get("SPARK_HOME"):
        return Path(named)
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    candidates = (Path(spec.origin).parent.joinpath(place).resolve() for place in _BESIDE_PYSPARK)
    return next((home for home in candidates if _is_whole(home)), None)


def _is_whole(home: Path) -> bool:
    return (home / "bin/spark-submit").is_file() and (home / "jars").is_dir()
