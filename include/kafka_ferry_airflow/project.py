"""Where the parts of this repository are on a machine that runs Airflow."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kafka_ferry.config import split_list
from kafka_ferry.config.permissions import FLOWS

CLUSTERS = "FERRY_CLUSTERS"
CONFIGS = FLOWS
POOL = "FERRY_POOL"


@dataclass(frozen=True)
class Project:
    """A checkout, its copy in an image, or the folder that an installed package uses.

    Attributes:
        root: the folder that holds ``include/configs`` and ``dist``: see ``project_root``.
    """

    root: Path

    @property
    def configs(self) -> Path:
        """The folder with the flows' files: ``FERRY_CONFIGS``, else ``include/configs``."""
        return Path(os.environ.get(CONFIGS) or self.root / "include" / "configs").absolute()

    @property
    def clusters(self) -> tuple[str, ...]:
        """The targets whose flows are DAGs here: ``FERRY_CLUSTERS``, with commas; by default all.

        Like MirrorMaker 2's ``--clusters``, for several Airflows that share their files, each close to
        some of the clusters.
        """
        return split_list(os.environ.get(CLUSTERS, ""))

    @property
    def pool(self) -> str:
        """The one pool that all Spark tasks take a slot of: ``FERRY_POOL``; "" where it is not set."""
        return os.environ.get(POOL, "")

    @property
    def library(self) -> Path | None:
        """The built wheel of the library, None if there is none.

        It is named ``.zip``: Spark sends a ``.whl`` to its executors too, but leaves it out of
        their import path.
        """
        wheel = self.root / "dist" / "kafka_ferry.zip"
        return wheel if wheel.is_file() else None

    def spark_job(self, step: str) -> Path:
        """The application that does ``step`` in Spark: a file of this package."""
        return Path(__file__).parent / "spark_jobs" / f"{step}.py"
