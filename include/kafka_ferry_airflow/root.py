"""Where the project's folder is, for plugin and DAG files. Imports little: every process has it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

# Where Airflow itself is at home if the environment does not say.
_AIRFLOW_HOME: Final = "~/airflow"


def project_root(file: str) -> Path:
    """The folder that holds ``include/configs``, and ``dist`` if Spark runs on other machines.

    It is the checkout, or its copy in an image, that ``file`` belongs to. An installed package and a copied
    DAG file belong to none: for them it is ``FERRY_HOME``, or else Airflow's own home.

    Args:
        file: the plugin's module, or one of the DAG files.
    """
    for folder in Path(file).resolve().parents:
        if (folder / "include" / "configs").is_dir():
            return folder
    home = os.environ.get("FERRY_HOME") or os.environ.get("AIRFLOW_HOME") or _AIRFLOW_HOME
    return Path(home).expanduser().absolute()
