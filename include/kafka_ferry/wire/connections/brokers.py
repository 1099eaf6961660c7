"""Connections to the brokers of a cluster: opened when needed, kept, and those of silent brokers passed over."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Self, TypeVar

from kafka.protocol.metadata import MetadataRequest

from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.printable import excerpt
from kafka_ferry.wire.connections.connection import Connection
from kafka_ferry.wire.connections.sockets import Backoff, bootstrap_addresses, idle_limit_s

# So many silent brokers are skipped before one is waited for.
_PASSED_OVER: Final = 2
_JUST_NOW_S: Final = 1.0
# Other brokers are asked for so long at most, however many a broker names: the next call goes on with those left.
_PROBING_S: Final = 10.0
_SEARCH_S: Final = 60.0
_OPENED_AT_ONCE: Final = 16
_PROBE_MS: Final = 2_000
# So many brokers are asked who leads partitions, at the least and at most, and none that was silent lately.
_SEVERAL: Final = 2
_ASKED: Final = 3
_LATELY_S: Final = 30.0
# A second connection, for requests while the broker's first one has answers pending.
_ASIDE: Final = -1
# Metadata names the cluster since Kafka 0.10.1; before, no topics meant all of them.
_WITH_CLUSTER_ID: Final = 2

_T = TypeVar("_T")


class BrokerConnections:
    """Connections to the brokers whose addresses are known, for one thread.

    Args:
        alias: the cluster's name in messages.
        settings: kafka-python's configuration names; ``bootstrap_servers`` is a list of ``host:port``.
    """

    def __init__(self, alias: str, settings: Mapping[str, Any]) -> None:
        self.alias = alias
        self._settings = settings
        self._brokers: dict[int, tuple[str, int]] = {}
        # None where no broker was asked for it, "" where the cluster does not name itself.
        self._cluster_id: str | None = None
        self._connections: dict[tuple[int, int], Connection] = {}
        self._silent_at: dict[int, float] = {}
        self._unopened: dict[int, ClusterUnreachable] = {}
        self._opened_at = 0.0
        self._backoff = Backoff(settings)
        self._idle_limit = idle_limit_s(settings)
        self._any_will_do = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add_broker(self, node: int, host: str, port: int) -> None:
        """Store a broker's address from an answer that named it.

        Raises:
            ClusterUnreachable: if no broker says of which cluster the one that answered is, where that is not known.
        """
        if self._cluster_id is None and not self._is_bootstrap((host, port)):
            # No broker is known yet but the bootstrap servers.
            self._cluster_id = self._ask_some(_cluster_id_of)
        self._learn({**self._brokers, node: (host, port)})

    def open(self, nodes: Iterable[int]) -> None:
        """Open the missing connections to several brokers side by side: each takes several round trips.

        One that cannot be opened is left for ``connection``, which says why.
        """
        self._unopened.clear()
        missing = [node for node in nodes if node in self._brokers and not self._is_open(node)]
        if len(missing) > 1:
            with ThreadPoolExecutor(min(len(missing), _OPENED_AT_ONCE)) as pool:
                # Each with the time that its caller has left.
                opened = {
                    node: pool.submit(copy_context().run, self._connection, node)
                    for node in missing
                }
                for node, opening in opened.items():
                    try:
                        opening.result()
                    except ClusterUnreachable as error:
                        self._unopened[node] = error
                    except FerryError:
                        continue
            self._opened_at = time.monotonic()

    def _raise_if_unopened(self, node: int) -> None:
        """Raise why ``open`` could not connect a moment ago: to try it again would take as long once more."""
        error = self._unopened.pop(node, None)
        if error and time.monotonic() - self._opened_at < _JUST_NOW_S:
            raise error

    def _is_open(self, node: int) -> bool:
        existing = self._connections.get((node, 0))
        return existing is not None and not existing.closed

    @property
    def round_trip_s(self) -> float:
        """The least time that an answer took on an open connection, in seconds; 0 where there was none."""
        least = min(
            (connection.round_trip_s for connection in self._connections.values()), default=math.inf
        )
        return least if math.isfinite(least) else 0.0

    def any_connection(self) -> Connection:
        """A connection to any broker that answers: an open one, a known one, or a bootstrap server.

        Raises:
            ClusterUnreachable: if none does.
            AccessDenied: if the login is refused.
        """
        for existing in self._connections.values():
            if existing.is_idle:
                if existing.idle_s <= self._idle_limit:
                    return existing
                existing.close()
        failures: list[ClusterUnreachable] = []
        until = time.monotonic() + _SEARCH_S
        for node in self._candidates():
            if failures and time.monotonic() > until:
                break
            try:
                return self._beside(node)
            except ClusterUnreachable as error:
                failures.append(error)
        raise ClusterUnreachable(
            f"No broker of {self.alias} answers: {failures[-1].message}", advice=failures[-1].advice
        ) from failures[-1]

    def ask_any(self, request: Callable[[], Any], *, newest: int | None = None) -> Any:
        """The answer to a request that any broker can answer: a silent one is skipped.

        Args:
            request: makes the message, which must be safe to send to several brokers.
            newest: as in ``Connection.call``.

        Raises:
            ClusterUnreachable: if no broker answers.
            AccessDenied: if the login is refused.
        """
        return self._ask_some(lambda connection: connection.call(request(), newest=newest))

    def _ask_some(self, ask: Callable[[Connection], _T]) -> _T:
        for _ in range(_PASSED_OVER):
            self._any_will_do = True
            try:
                return ask(self.any_connection())
            except ClusterUnreachable:
                continue
            finally:
                self._any_will_do = False
        return ask(self.any_connection())

    def ask_several(
        self, request: Callable[[], Any], than: tuple[str, int] | None = None
    ) -> list[Any]:
        """The answers of a few brokers to a request that any can answer, asked together; without those that give none.

        Args:
            request: as of ``ask_any``.
            than: host and port of a broker that has answered it already; None where none has. Then none is asked where
                only one is known.
        """
        now = time.monotonic()
        nodes = [
            node
            for node, address in self._brokers.items()
            if node >= 0
            and address != than
            and now - self._silent_at.get(node, -math.inf) > _LATELY_S
        ]
        if than is None and len(nodes) < _SEVERAL:
            return []
        # Those to which there is a connection take one round trip.
        nodes.sort(key=lambda node: not self._is_open(node))
        nodes = nodes[: _ASKED - (than is not None)]
        others: list[Connection] = []
        answers: list[Any] = []
        self._any_will_do = True
        try:
            self.open(nodes)
            for node in nodes:
                with suppress(FerryError):
                    self._raise_if_unopened(node)
                    connection = self._beside(node)
                    connection.send(request())
                    others.append(connection)
            for connection in others:
                with suppress(FerryError):
                    answers.append(connection.receive())
        finally:
            self._any_will_do = False
            for connection in others:
                if not connection.is_idle:
                    connection.close()
        return answers

    def _beside(self, node: int) -> Connection:
        """A connection to a broker on which no answer is pending."""
        usual = self._connections.get((node, 0))
        is_busy = usual is not None and not (usual.closed or usual.is_idle)
        return self._connection(node, _ASIDE if is_busy else 0)

    def has_left(self, node: int) -> bool:
        """Whether another broker says that ``node`` is no longer in the cluster.

        A stalled broker keeps its connections open. When its session with the controller has expired,
        other brokers lead its partitions, and there is no point in waiting for it.
        """
        address = self._brokers.get(node)
        settings = {**self._settings, "request_timeout_ms": _PROBE_MS}
        until = time.monotonic() + _PROBING_S
        for other, where in sorted(self._brokers.items(), key=lambda it: it[0] in self._silent_at):
            if time.monotonic() > until:
                break
            if where != address and other >= 0:
                try:
                    with closing(Connection(*where, settings, self.alias)) as probe:
                        answer = probe.call(MetadataRequest(topics=[]))
                except FerryError:
                    self._silent_at[other] = time.monotonic()
                    continue
                return node not in {broker.node_id for broker in answer.brokers}
        return False

    def drop_dead(self) -> None:
        """Close the connections that cannot be used any more, as far as that can be seen without asking."""
        self._keep_only(lambda connection: connection.is_usable)

    def drop_busy(self) -> None:
        """Close the connections on which answers are still to come."""
        self._keep_only(lambda connection: connection.is_idle)

    def _keep_only(self, is_good: Callable[[Connection], bool]) -> None:
        for key, connection in [*self._connections.items()]:
            if not is_good(connection):
                connection.close()
                del self._connections[key]

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _idle_to(self, address: tuple[str, int]) -> Connection | None:
        """Take an idle connection that was made to a bootstrap server, if that is the broker at ``address``."""
        # ``open`` adds connections side by side.
        for (node, number), existing in [*self._connections.items()]:
            is_open = existing.is_idle and existing.idle_s <= self._idle_limit
            if node < 0 and is_open and existing.peer == address:
                return self._connections.pop((node, number))
        return None

    def _heed_silence(self, address: tuple[str, int]) -> None:
        """Decide whether to keep waiting for a broker.

        Raises:
            ClusterUnreachable: if another one may be asked, or leads this one's partitions by now.
        """
        # Negative ones are of bootstrap servers, of which other brokers know nothing.
        node = max((node for node, at in self._brokers.items() if at == address), default=-1)
        if self._any_will_do:
            self._silent_at[node] = time.monotonic()
            raise ClusterUnreachable(f"{self.alias} ({address[0]}:{address[1]}) is silent.")
        if node >= 0 and self.has_left(node):
            self._silent_at[node] = time.monotonic()
            raise ClusterUnreachable(
                f"Broker {node} of {self.alias} is silent, and the cluster no longer lists it as alive."
            )

    def _candidates(self) -> list[int]:
        """Brokers to try; the most recently silent one comes last."""
        addresses = {*self._brokers.values()}
        # Brokers' own node ids are never negative.
        bootstrap = {
            -number: address
            for number, address in enumerate(bootstrap_addresses(self._settings), 1)
            if address not in addresses
        }
        self._brokers |= bootstrap
        hung_up = {node for (node, _), connection in self._connections.items() if connection.closed}
        return sorted(self._brokers, key=lambda n: (n in hung_up, self._silent_at.get(n, 0.0)))

    def _require_member(self, connection: Connection) -> None:
        """Check that a broker that others have named is of their cluster; closes the connection where it is not.

        A hostile cluster could name brokers of another one, such as the flow's other side. Where these let the
        flow in, what is meant for this cluster would be written there, or read from there.

        Raises:
            ClusterUnreachable: if it says that it is of another one.
        """
        try:
            own = _cluster_id_of(connection)
        except FerryError:
            connection.close()
            raise
        if own and self._cluster_id and own != self._cluster_id:
            connection.close()
            raise ClusterUnreachable(
                f"{connection.address} is of the cluster {excerpt(own)}, but brokers of {excerpt(self._cluster_id)} "
                "name it as one of theirs.",
                advice="Look at the advertised.listeners of the brokers, and who answers at that address.",
            )

    def _is_bootstrap(self, address: tuple[str, int]) -> bool:
        return address in bootstrap_addresses(self._settings)

    def _learn(self, brokers: Mapping[int, tuple[str, int]]) -> None:
        """Store the brokers' current addresses; brokers that have moved get new connections."""
        for (node, _), connection in self._connections.items():
            if brokers.get(node, connection.peer) != connection.peer:
                connection.close()
        self._brokers = dict(brokers)

    def _connection(self, node: int, number: int = 0) -> Connection:
        existing = self._connections.get((node, number))
        if existing and not existing.closed and existing.idle_s <= self._idle_limit:
            return existing
        if existing:
            existing.close()
        broker = self._brokers[node]
        if number == 0 and (to_bootstrap := self._idle_to(broker)):
            self._connections[node, number] = to_bootstrap
            return to_bootstrap
        self._backoff.wait(broker)
        settings = {**self._settings, **self._backoff.settings(broker)}
        try:
            heed = partial(self._heed_silence, broker)
            hurried = self._any_will_do
            made = Connection(*broker, settings, self.alias, heed, is_hurried=hurried)
            if not self._is_bootstrap(broker):
                self._require_member(made)
        except ClusterUnreachable:
            self._backoff.note_failure(broker)
            self._silent_at[node] = time.monotonic()
            raise
        self._backoff.note_success(broker)
        self._silent_at.pop(node, None)
        self._connections[node, number] = made
        return made


def _cluster_id_of(connection: Connection) -> str:
    """Of which cluster a broker says that it is, "" where it does not."""
    if not connection.offers(MetadataRequest, version=_WITH_CLUSTER_ID):
        return ""
    return str(connection.call(MetadataRequest(topics=[])).cluster_id or "")
