"""Files of the driver's machine, found again where a task runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka_ferry.config import Flow


def shipped_flow(config: str, name: str) -> Flow:
    """The flow ``name`` of the file ``config``: at its own path, or as ``--files`` shipped it.

    Raises:
        ConfigError: if it is in neither place, or wrong.
    """
    from pyspark import SparkFiles

    from kafka_ferry.config import load_flow

    path = Path(config)
    return load_flow(path if path.exists() else SparkFiles.get(path.name), name)
