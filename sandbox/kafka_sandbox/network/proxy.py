"""A TCP proxy in front of a server, for networks that fail or are far: cut, stalled, refused, slow, distant."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kafka_sandbox.broker import HOST, free_port

_T = TypeVar("_T")
_PIECE = 1024 * 1024
# On their way in one direction of a connection: what 400 MB/s hold in a fifth of a second.
_ON_ITS_WAY = 80 * 1024 * 1024
_HELD_S = 0.02
# A slow link's pieces come so many times a second.
_PIECES_PER_S = 50
# On and with zero seconds: closing sends a reset instead of the rest of the data.
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


@dataclass
class Link:
    """A link's delay and rate, in each direction.

    Attributes:
        delay_s: how much later every byte arrives; a round trip takes twice that, and so does connecting.
        bytes_per_s: for all connections together, None for no limit.
    """

    delay_s: float = 0.0
    bytes_per_s: int | None = None
    _free_at: dict[bool, float] = field(default_factory=dict)

    @property
    def piece(self) -> int:
        """How many bytes to send at a time."""
        return max(1, min(_PIECE, (self.bytes_per_s or _PIECE * _PIECES_PER_S) // _PIECES_PER_S))

    def through_at(self, now: float, size: int, *, forth: bool) -> float:
        """When the last of so many bytes has entered the link, if they stand before it now."""
        if not self.bytes_per_s:
            return now
        free_at = max(now, self._free_at.get(forth, 0.0)) + size / self.bytes_per_s
        self._free_at[forth] = free_at
        return free_at


class Proxy:
    """Forwards connections to a port of this machine, in a thread of its own.

    Faults return how many open connections they hit.

    Args:
        target_port: where to forward to; a server need not listen there yet, or all the time.
        port: where to listen, a free port unless given.
        link: what all that is forwarded goes through, a short and quick one unless given.
    """

    def __init__(self, target_port: int, port: int | None = None, link: Link | None = None) -> None:
        self.port = port or free_port()
        self.link = link or Link()
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
                self._server = await asyncio.start_server(
                    self._serve, HOST, self.port, limit=_PIECE
                )

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
            there = await asyncio.open_connection(HOST, self._target_port, limit=_PIECE)
        except OSError:
            _reset(writer)
            return
        connection = (writer, there[1])
        self._connections.add(connection)
        client = writer.get_extra_info("peername")[1]
        try:
            await asyncio.gather(
                self._forward(reader, there[1], client, forth=True),
                self._forward(there[0], writer, client, forth=False),
            )
        except OSError:
            # One side is gone: the other one shall notice at once.
            for side in connection:
                _reset(side)
        except asyncio.CancelledError:
            # The proxy closes; asyncio's streams would print the end of this task as a failure.
            return
        finally:
            self._connections.discard(connection)

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        client: int,
        *,
        forth: bool,
    ) -> None:
        way = _Way()
        entering = asyncio.create_task(self._enter(reader, way, forth=forth))
        try:
            while piece := await way.next():
                await self._may_pass(client)
                writer.write(piece)
                await writer.drain()
            await entering
            await self._may_pass(client)
            writer.close()
        finally:
            entering.cancel()

    async def _enter(self, reader: asyncio.StreamReader, way: _Way, *, forth: bool) -> None:
        # The client has heard nothing of its connection before a round trip is over.
        handshake = self._loop.time() + 2 * self.link.delay_s if forth else 0.0
        try:
            while piece := await reader.read(self.link.piece):
                entered = max(handshake, self._loop.time())
                through = self.link.through_at(entered, len(piece), forth=forth)
                await way.put(piece, through + self.link.delay_s)
        finally:
            # An end of the connection takes as long as anything else.
            way.end(self._loop.time() + self.link.delay_s)

    async def _may_pass(self, client: int) -> None:
        await self._flowing.wait()
        while self._held and self._held(client):
            await asyncio.sleep(_HELD_S)


class _Way:
    """What has left one side of a connection and has not reached the other."""

    def __init__(self) -> None:
        self._pieces = asyncio.Queue[tuple[bytes, float]]()
        self._bytes = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def put(self, piece: bytes, due: float) -> None:
        """Let a piece arrive at a time of the loop's; waits while too much is on its way."""
        await self._has_room.wait()
        self._count(len(piece))
        self._pieces.put_nowait((piece, due))

    def end(self, due: float) -> None:
        """Let nothing arrive after a time of the loop's."""
        self._pieces.put_nowait((b"", due))

    async def next(self) -> bytes:
        """Wait for what arrives next; empty at the connection's end."""
        piece, due = await self._pieces.get()
        if (left := due - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(left)
        self._count(-len(piece))
        return piece

    def _count(self, more: int) -> None:
        self._bytes += more
        if self._bytes < _ON_ITS_WAY:
            self._has_room.set()
        else:
            self._has_room.clear()


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE
        )
    writer.transport.abort()
