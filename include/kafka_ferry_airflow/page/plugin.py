"""The page's parts for Airflow's plugin manager. Imports nothing heavy: every Airflow process reads it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kafka_ferry_airflow.page.lazily import Application, Lazily
from kafka_ferry_airflow.page.urls import PREFIX, ROUTE

NAME = "Mirrors"


def fastapi_app(root: Path) -> dict[str, Any]:
    """The application behind the page, made with the first request.

    Args:
        root: the folder that holds ``include/configs``: see ``project_root``.
    """

    def make() -> Application:
        from kafka_ferry_airflow.page.app import make_app  # noqa: PLC0415
        from kafka_ferry_airflow.project import Project  # noqa: PLC0415

        # Relative paths of flows start at the same place as in the DAG processor and the tasks.
        os.environ.setdefault("FERRY_HOME", str(root))
        return make_app(Project(root))

    return {"app": Lazily(make), "url_prefix": PREFIX, "name": "Kafka Ferry"}


def react_app() -> dict[str, Any]:
    """The page's place in Airflow's navigation."""
    # Below Airflow's base URL, wherever that is.
    static = f"{PREFIX.lstrip('/')}/static"
    return {
        "name": NAME,
        "bundle_url": f"{static}/mirrors.js",
        "destination": "nav",
        "url_route": ROUTE,
        "nav_top_level": True,
        "icon": f"{static}/icon.svg",
        "icon_dark_mode": f"{static}/icon-dark.svg",
    }
