"""A TCP proxy before a server, for networks that fail: connections cut, stalled or refused."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kafka_sandbox.broker import HOST, free_port

_T = TypeVar("_T")
_PIECE = 64 * 1024
_HELD_S = 0.02
# On and with zero seconds: closing sends a reset instead of the rest of the data.
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


class Proxy:
    """Forwards connections to a port of this machine, in a thread of its own.

    Faults return how many open connections they hit.

    Args:
        target_port: where to forward to; nobody need listen there yet, or all the time.
        port: where to listen, a free port unless given.
    """

    def __init__(self, target_port: int, port: int | None = None) -> None:
        self.port = port or free_port()
        self._target_port = target_port
        self._connections: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._held: Callable[[int], bool] | None = None
        self._listening = asyncio.Lock()
        self._flowing.set()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._do(self._listen())

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """Host and port, as Kafka's clients want them."""
        return f"{HOST}:{self.port}"

    def cut(self) -> int:
        """Resets all connections, on both of their sides."""
        return self._do(self._cut())

    def stall(self, seconds: float) -> int:
        """Forwards nothing for a while; connections stay open, and nothing is lost."""
        return self._do(self._stall(seconds))

    def hold(self, seconds: float, whose: Callable[[int], bool]) -> None:
        """The same for some clients alone, new ones too: ``whose`` tells by the client's port."""
        self._do(self._hold(seconds, whose))

    def refuse(self, seconds: float) -> int:
        """Resets all connections, and listens to no new ones for a while."""
        return self._do(self._refuse(seconds))

    def heal(self) -> None:
        """Forwards and listens again, whatever was to last longer."""
        self._do(self._heal())

    def close(self) -> None:
        """Ends all connections and the thread."""
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, step: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result()

    async def _listen(self) -> None:
        # Two that wait to listen again would take the port from each other.
        async with self._listening:
            if self._server is None:
                self._server = await asyncio.start_server(self._serve, HOST, self.port)

    def _stop_listening(self) -> None:
        if self._server:
            self._server.close()
            self._server = None

    async def _cut(self) -> int:
        cut = len(self._connections)
        for connection in self._connections.copy():
            for writer in connection:
                _reset(writer)
        return cut

    async def _stall(self, seconds: float) -> int:
        self._flowing.clear()
        self._later(seconds, self._flow)
        return len(self._connections)

    async def _hold(self, seconds: float, whose: Callable[[int], bool]) -> None:
        self._held = whose
        self._later(seconds, self._let_go)

    async def _let_go(self) -> None:
        self._held = None

    async def _refuse(self, seconds: float) -> int:
        self._stop_listening()
        self._later(seconds, self._listen)
        return await self._cut()

    async def _flow(self) -> None:
        self._flowing.set()

    async def _heal(self) -> None:
        await self._flow()
        await self._let_go()
        await self._listen()

    async def _close(self) -> None:
        self._stop_listening()
        await self._cut()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _later(self, seconds: float, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            await step()

        task = self._loop.create_task(wait())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection(HOST, self._target_port)
        except OSError:
            _reset(writer)
            return
        connection = (writer, there[1])
        self._connections.add(connection)
        client = writer.get_extra_info("peername")[1]
        try:
            await asyncio.gather(
                self._forward(reader, there[1], client), self._forward(there[0], writer, client)
            )
        except OSError:
            # One side is gone: the other one shall notice at once.
            for side in connection:
                _reset(side)
        finally:
            self._connections.discard(connection)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client: int
    ) -> None:
        while piece := await reader.read(_PIECE):
            await self._may_pass(client)
            writer.write(piece)
            await writer.drain()
        await self._may_pass(client)
        writer.close()

    async def _may_pass(self, client: int) -> None:
        await self._flowing.wait()
        while self._held and self._held(client):
            await asyncio.sleep(_HELD_S)


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE
        )
    writer.transport.abort()
