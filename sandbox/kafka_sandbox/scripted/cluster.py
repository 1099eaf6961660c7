"""Listens on a port for each broker, counts what it is asked, and sends the answers."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from kafka.protocol.metadata import ApiVersionsRequest

from kafka_sandbox.broker import HOST
from kafka_sandbox.scripted.answers import REQUESTS, Answers
from kafka_sandbox.scripted.content import BrokerAddress, ScriptedContent, ScriptedTopic

_HEAD: Final = struct.Struct(">hhih")
_BOOTSTRAP: Final = 3
# Without a limit, a client's metadata of ten thousand partitions would wait for buffers to drain.
_BUFFER: Final = 64 * 1024 * 1024


@dataclass
class Asked:
    """What one broker, or several, were asked.

    Attributes:
        requests: how many, by the name of the request.
        connections: how many connections were accepted.
        most_open: how many of them were open at a time, at most.
    """

    requests: Counter[str] = field(default_factory=Counter)
    connections: int = 0
    most_open: int = 0

    @property
    def total(self) -> int:
        """All requests but ApiVersions, of which each connection has one."""
        return self.requests.total() - self.requests[_name(ApiVersionsRequest.API_KEY)]


class ScriptedCluster:
    """Brokers that answer what a plan and a copying task ask, in a thread of their own.

    They accept plaintext connections, know no permissions, and never fail. A request that they do not know
    ends the connection.

    Args:
        topics: the topics.
        brokers: how many brokers there are.
        cluster_id: the cluster's id.
        answer_s: how long a broker takes for the answer to each request of a connection.

    Attributes:
        content: the topics, and what was written to them, once it has started.
    """

    def __init__(
        self,
        topics: Iterable[ScriptedTopic],
        *,
        brokers: int,
        cluster_id: str = "scripted",
        answer_s: float = 0.0,
    ) -> None:
        self._answer_s = answer_s
        self._topics, self._cluster_id = [*topics], cluster_id
        self._asked = {node: Asked() for node in range(1, brokers + 1)}
        self._open: Counter[int] = Counter()
        self._most_open = 0
        self._servers: dict[int, asyncio.Server] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def bootstrap(self) -> str:
        """Hosts and ports of some of the brokers."""
        addresses = list(self._addresses().values())[:_BOOTSTRAP]
        return ",".join(f"{address.host}:{address.port}" for address in addresses)

    @property
    def asked(self) -> Asked:
        """What all brokers together were asked since the last ``forget``."""
        whole = Asked(most_open=self._most_open)
        for of_broker in self._asked.values():
            whole.requests += of_broker.requests
            whole.connections += of_broker.connections
        return whole

    def forget(self) -> None:
        """Count from now on."""
        self._asked = {node: Asked(most_open=max(0, self._open[node])) for node in self._asked}
        self._most_open = self._open.total()

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _addresses(self) -> dict[int, BrokerAddress]:
        return {
            node: BrokerAddress(HOST, server.sockets[0].getsockname()[1])
            for node, server in self._servers.items()
        }

    async def _start(self) -> None:
        for node in self._asked:

            async def serve(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: int = node
            ) -> None:
                await self._serve(node, reader, writer)

            self._servers[node] = await asyncio.start_server(serve, HOST, 0)
        self.content = ScriptedContent(self._topics, self._addresses(), self._cluster_id)
        self._answers = Answers(self.content)

    async def _stop(self) -> None:
        for server in self._servers.values():
            server.close()
        for writer in [*self._writers]:
            writer.close()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    async def _serve(
        self, node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._accepted(node)
        self._writers.add(writer)
        writer.transport.set_write_buffer_limits(_BUFFER)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                if not await self._answer(node, await reader.readexactly(size), writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return  # The client has closed it.
        finally:
            self._open[node] -= 1
            self._writers.discard(writer)
            writer.close()

    def _accepted(self, node: int) -> None:
        self._open[node] += 1
        asked = self._asked[node]
        asked.connections += 1
        asked.most_open = max(asked.most_open, self._open[node])
        self._most_open = max(self._most_open, self._open.total())

    async def _answer(self, node: int, frame: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; returns whether it is one that is known here."""
        key, version, correlation_id, client_id_bytes = _HEAD.unpack_from(frame)
        self._asked[node].requests[_name(key)] += 1
        request_class = REQUESTS.get(key)
        if request_class is None:
            return False
        flexible = request_class.flexible_version_q(version)
        # The request's header ends with its tagged fields, of which clients have none.
        body = memoryview(frame)[_HEAD.size + max(0, client_id_bytes) + flexible :]
        answer = self._answers.to(node, request_class, version, body)
        if self._answer_s:
            await asyncio.sleep(self._answer_s)
        tags = b"\0" * (flexible and request_class is not ApiVersionsRequest)
        head = struct.pack(">ii", 4 + len(tags) + len(answer), correlation_id)
        writer.write(head + tags)
        writer.write(answer)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        return True


def _name(key: int) -> str:
    """The name of a request, its key where it is not known here."""
    request_class = REQUESTS.get(key)
    return request_class.name.removesuffix("Request") if request_class else f"request {key}"
