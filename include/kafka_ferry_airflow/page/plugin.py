"""The page's parts for Airflow's plugin manager. Imports nothing heavy: every Airflow process reads it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from threading import Lock
from typing import Any

from kafka_ferry_airflow.page.urls import PREFIX, ROUTE

NAME = "Mirrors"
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


def fastapi_app(root: Path) -> dict[str, Any]:
    """The application that serves the page, made with the first request.

    Args:
        root: the folder that holds ``include/configs``: see ``project_root``.
    """

    def make() -> Application:
        from kafka_ferry_airflow.page.app import make_app  # noqa: PLC0415
        from kafka_ferry_airflow.project import Project  # noqa: PLC0415

        # Relative paths of flows start at the same place as in the DAG processor and the tasks.
        os.environ.setdefault("FERRY_HOME", str(root))
        return make_app(Project(root))

    return {"app": LazyApplication(make), "url_prefix": PREFIX, "name": "Kafka Ferry"}


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


class LazyApplication:
    """An ASGI application, which ``make`` creates with the first request.

    Every process of Airflow imports the plugin, including that of each task; only the API server answers
    requests.

    Args:
        make: creates the application; it runs outside the event loop, and may be slow.
    """

    def __init__(self, make: Callable[[], Application]) -> None:
        self._make = make
        self._made: Application | None = None
        self._lock = Lock()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answers one request."""
        application = self._made
        if application is None:
            application = await asyncio.to_thread(self._made_once)
        await application(scope, receive, send)

    def _made_once(self) -> Application:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made
