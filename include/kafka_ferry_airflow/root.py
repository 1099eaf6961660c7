"""Where the project's folder is, for its files in Airflow's folders. Imports little: every process has it."""

from __future__ import annotations

import os
from pathlib import Path

from kafka_ferry.errors import FerryError


def project_root(file: str) -> Path:
    """The folder that holds ``include/configs`` and ``spark_jobs``.

    Args:
        file: a file of the project's ``dags/`` or ``plugins/``, or a copy of one in an Airflow's own folders,
            for which ``FERRY_HOME`` says where the project is.

    Raises:
        FerryError: if the file is a copy and ``FERRY_HOME`` does not name a project.
    """
    home = os.environ.get("FERRY_HOME")
    for root in (Path(file).resolve().parents[1], *([Path(home)] if home else [])):
        if (root / "spark_jobs").is_dir():
            return root.absolute()
    raise FerryError(
        f"{file} is not in Kafka Ferry's project, and FERRY_HOME does not say where that is.",
        advice="Set FERRY_HOME, in all parts of Airflow, to the folder that holds spark_jobs/.",
    )
