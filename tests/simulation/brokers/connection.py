"""Connections to simulated brokers, in place of sockets."""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from kafka_ferry.wire.connections.connection import SILENCE_S, Connection
from kafka_ferry.wire.connections.responses import decode_response, response_class_of
from kafka_ferry.wire.connections.versions import SPOKEN
from tests.simulation.adversary import Adversary
from tests.simulation.brokers.cluster import SimCluster
from tests.simulation.brokers.messages import name_of
from tests.simulation.brokers.requests import HANDLERS, answer
from tests.simulation.fault import Lost, Unanswered
from tests.simulation.world import Killed, World

_VERSIONS: Final = {name: newest for name, newest in SPOKEN.items() if name in HANDLERS}


class Network:
    """The brokers by their addresses.

    Args:
        world: the world.
        clusters: the clusters.
        adversary: meets each request.
        encoded: whether each message passes through bytes, as on the wire.

    Attributes:
        tables: the ledger's tables, as they were written.
    """

    here: Network
    """The network of the history that runs now."""

    def __init__(
        self,
        world: World,
        clusters: Mapping[str, SimCluster],
        adversary: Adversary,
        *,
        encoded: bool = False,
    ) -> None:
        self.world = world
        self.adversary = adversary
        self.encoded = encoded
        self.brokers = {
            address: (cluster, node)
            for cluster in clusters.values()
            for node, address in cluster.brokers.items()
        }
        self.connections: dict[int, SimConnection] = {}
        self.tables: list[Any] = []
        self.numbers = itertools.count(1)


class SimConnection(Connection):
    """A connection as the product knows it; see ``Connection``."""

    def __init__(
        self,
        host: str,
        port: int,
        settings: Mapping[str, Any],
        cluster: str = "",
        on_silence: Callable[[], None] | None = None,
        **_: object,
    ) -> None:
        self._network = Network.here
        self._world = self._network.world
        self._cluster, self._node = self._network.brokers[host, port]
        address = f"{host}:{port}"
        self.address = f"{cluster} ({address})" if cluster else address
        self.peer = host, port
        self._settings = dict(settings)
        self._timeout = float(settings.get("request_timeout_ms", 30_000)) / 1000
        self._on_silence = on_silence
        self._waited_s = 0.0
        self._slice = min(SILENCE_S, self._timeout)
        self._in_flight = deque()
        self._early, self.fetches = deque(), deque()
        self._answers: deque[Any] = deque()
        self._broken = self._is_silent = False
        self._applied_at = 0.0
        self.closed = self.is_before_2_4 = False
        self.round_trip_s = math.inf
        self._quiet_until = 0.0
        self._number = next(self._network.numbers)
        self._network.connections[self._number] = self
        self._used_at = time.monotonic()
        with self._as_unreachable():
            self._wait(lambda: self._pass(lambda: not self._is_frozen, 0.0), self._deadline(4))

    @property
    def _is_frozen(self) -> bool:
        return self._cluster.frozen.get(self._node, 0.0) > self._world.now

    def _pass(self, ready: Callable[[], bool], least: float) -> int:
        self._wait_alive(None, least)
        if not self._wait_alive(ready, self._slice) and not ready():
            raise TimeoutError
        return 1

    @property
    def _is_readable(self) -> bool:
        return bool(self._answers) or self._broken

    @property
    def fileno(self) -> int:
        return -1 if self.closed else self._number

    def offers(self, request: Any, *, version: int = 0) -> bool:
        return _VERSIONS.get(request.name.removesuffix("Request"), -1) >= version

    def send(self, request: Any, *, newest: int | None = None) -> int:
        """See ``Connection``: the broker handles it a moment later, whatever becomes of this side."""
        if request.API_VERSION is None:
            version = _VERSIONS[name_of(request)]
            request.API_VERSION = version if newest is None else min(version, newest)
        if self._broken or self.closed:
            with self._as_unreachable():
                raise ConnectionResetError("closed by the broker")
        self._world.count_request()
        process = self._world.current.process
        dies = self._network.adversary.before_send(self._cluster, request, process)
        self._wait_alive(None, 0.0)
        self._in_flight.append(request)
        self._used_at = time.monotonic()
        self._schedule(request)
        process.dead |= dies
        return 0

    def _schedule(self, request: Any) -> None:
        pause = self._world.random.choice((0.0002, 0.0005, 0.001, 0.003))
        moment = max(self._world.now + pause + self._cluster.distance_s, self._applied_at)
        self._applied_at = moment
        self._world.at(moment, lambda: self._handle(request))

    def _handle(self, request: Any) -> None:
        """The broker handles a request."""
        if self._is_frozen:
            again = self._cluster.frozen[self._node]
            self._applied_at = max(self._applied_at, again)
            self._world.at(again, lambda: self._handle(request))
            return
        if self._broken or self._is_silent:
            return

        def apply() -> Any:
            return self._through_bytes(request, answer(self._cluster, self._node, request))

        try:
            self._answers.append(
                self._network.adversary.meet(self._cluster, self._node, request, apply)
            )
        except Lost:
            self._broken = True
        except Unanswered:
            self._is_silent = True

    def _through_bytes(self, request: Any, response: Any) -> Any:
        if not self._network.encoded:
            return response
        encoded = response.encode(version=request.API_VERSION)
        kind = response_class_of(request.__class__)
        return decode_response(kind, request.API_VERSION, memoryview(encoded))

    def receive(self) -> Any:
        self._in_flight.popleft()
        if self._answers:
            self._used_at = time.monotonic()
            return self._answers.popleft()
        with self._as_unreachable():
            if not self._answers:
                self._wait(
                    lambda: self._pass(lambda: self._is_readable or self.closed, 0.0),
                    self._deadline(4),
                )
            if not self._answers:
                raise ConnectionResetError("closed by the broker")
        self._used_at = time.monotonic()
        return self._answers.popleft()

    def _wait_alive(self, ready: Callable[[], bool] | None, seconds: float) -> bool:
        """``World.wait``; where the process is killed meanwhile, it closes the connection."""
        try:
            return self._world.wait(ready, seconds)
        except Killed:
            self.close()
            raise

    def close(self) -> None:
        self.closed = True
        self._network.connections.pop(self._number, None)


class Poll:
    """``select.poll`` over simulated connections."""

    def __init__(self) -> None:
        self._numbers: list[int] = []

    def register(self, number: int, _: int) -> None:
        self._numbers.append(number)

    def poll(self, timeout_ms: float) -> list[tuple[int, int]]:
        network = Network.here

        def ready() -> list[int]:
            known = network.connections
            return [it for it in self._numbers if it not in known or known[it]._is_readable]

        network.world.wait(lambda: bool(ready()), timeout_ms / 1000)
        return [(it, 1) for it in ready()]


class Select:
    """The module ``select``, as far as the product uses it."""

    POLLIN = 1
    poll = Poll
