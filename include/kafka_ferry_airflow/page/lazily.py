"""An ASGI application that is created with the first request.

Every process of Airflow imports the plugin, including that of each task; only the API server answers
requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from threading import Lock
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


class Lazily:
    """Passes requests on to the application, which ``make`` creates once.

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
