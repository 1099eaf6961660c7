"""Sockets to brokers, opened like the Java client's: addresses, buffers, timeouts, back-off."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from kafka_ferry.errors import ClusterUnreachable

_CANONICAL: Final = "resolve_canonical_bootstrap_servers_only"
_SECOND_MS: Final = 1000
# CommonClientConfigs
_IDLE_MS: Final = 540_000
_SETUP_S: Final = 10.0
_SETUP_MAX_MS: Final = 30_000
_REACH_S: Final = 4.0
_FIRST_BACKOFF_MS: Final = 50
_LONGEST_BACKOFF_MS: Final = 1_000
_SPREAD: Final = 0.2


def open_socket(
    host: str,
    port: int,
    settings: Mapping[str, Any],
    timeout: float,
    *,
    is_hurried: bool = False,
) -> socket.socket:
    """A connected socket to the first of the host's addresses that answers.

    Args:
        host: name or address.
        port: its port.
        settings: kafka-python's names: buffers, and ``socket_connection_setup_timeout_ms`` for each address.
        timeout: seconds for later reads and writes; where the settings have no setup timeout, each
            address gets these too, or Java's default if that is less.
        is_hurried: whether no address gets more than these, whatever the settings have.

    Raises:
        OSError: no address answers; the error is the last one's.
    """
    setup = settings.get("socket_connection_setup_timeout_ms")
    failed: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM):
        plain = socket.socket(family, kind, protocol)
        try:
            _tune(plain, settings)
            limit = min(timeout, _SETUP_S) if setup is None else setup / _SECOND_MS
            plain.settimeout(min(timeout, limit) if is_hurried else limit)
            plain.connect(address)
            plain.settimeout(timeout)
            return plain
        except OSError as error:
            plain.close()
            failed = error
    raise failed


def require_reachable(alias: str, settings: Mapping[str, Any], option: str = "") -> None:
    """Check that one of a cluster's bootstrap servers accepts connections at all.

    Args:
        alias: the cluster's name in messages.
        settings: kafka-python's names.
        option: where these servers are named; "" for the alias and the usual key.

    Raises:
        ClusterUnreachable: if none does; it says of each what the system says.
    """
    failures = []
    for host, port in bootstrap_addresses(settings):
        try:
            open_socket(host, port, settings, _REACH_S).close()
            return
        # An invalid host name or port does not raise an OSError.
        except (OSError, ValueError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            failures.append(f"{reason} at {host}:{port}")
    raise ClusterUnreachable(
        f"{alias} cannot be reached: {'; '.join(failures)}.",
        advice=f"Check {option or f'{alias}.bootstrap.servers'}, and that its brokers run.",
    )


def _tune(plain: socket.socket, settings: Mapping[str, Any]) -> None:
    """Buffer sizes must be set before connecting: they determine TCP's window scaling."""
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, option in (
        ("receive_buffer_bytes", socket.SO_RCVBUF),
        ("send_buffer_bytes", socket.SO_SNDBUF),
    ):
        # In Java, -1 means the system's default.
        if settings.get(name, -1) >= 0:
            plain.setsockopt(socket.SOL_SOCKET, option, settings[name])


def bootstrap_addresses(settings: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
    """The bootstrap servers; with ``resolve_canonical_bootstrap_servers_only`` the names of each address."""
    addresses: list[tuple[str, int]] = []
    for server in settings["bootstrap_servers"]:
        host, _, port = server.rpartition(":")
        # An IPv6 address is in brackets there, and nowhere else.
        host = host.removeprefix("[").removesuffix("]")
        names = [host]
        if settings.get("client_dns_lookup") == _CANONICAL:
            with contextlib.suppress(OSError):
                resolved = socket.getaddrinfo(host, int(port), 0, socket.SOCK_STREAM)
                names = [socket.getnameinfo(entry[4], 0)[0] for entry in resolved]
        addresses += ((name, int(port)) for name in dict.fromkeys(names))
    return addresses


def idle_limit_s(settings: Mapping[str, Any]) -> float:
    """Seconds without a request after which a connection is closed; infinite where it never is."""
    limit = settings.get("connections_max_idle_ms", _IDLE_MS)
    return float("inf") if limit < 0 else limit / _SECOND_MS


class Backoff:
    """The back-off before reconnecting to a broker, and the connection timeout.

    Only where the flow sets ``reconnect.backoff.ms`` or ``reconnect.backoff.max.ms``, or with
    ``socket.connection.setup.timeout.ms`` its limit: otherwise callers that retry wait themselves.

    Args:
        settings: kafka-python's names.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        first, longest = "reconnect_backoff_ms", "reconnect_backoff_max_ms"
        self._waits = first in settings or longest in settings
        self._longest = settings.get(
            longest,
            max(settings.get(first, 0), _LONGEST_BACKOFF_MS if first not in settings else 0),
        )
        self._first = min(settings.get(first, _FIRST_BACKOFF_MS), self._longest)
        self._setup = settings.get("socket_connection_setup_timeout_ms")
        self._setup_max = settings.get("socket_connection_setup_timeout_max_ms", _SETUP_MAX_MS)
        self._failures: dict[Hashable, int] = {}
        self._not_before: dict[Hashable, float] = {}

    def wait(self, broker: Hashable) -> None:
        """Sleep until the broker may be connected to again."""
        if (left := self._not_before.get(broker, 0.0) - time.monotonic()) > 0:
            time.sleep(left)

    def settings(self, broker: Hashable) -> dict[str, Any]:
        """The next connection's timeout, which doubles with each consecutive failure."""
        if self._setup is None:
            return {}
        grown = self._setup * 2 ** min(self._failures.get(broker, 0), 10)
        limit = max(self._setup, min(grown, self._setup_max))
        return {"socket_connection_setup_timeout_ms": limit}

    def note_failure(self, broker: Hashable) -> None:
        """Record a failed connection."""
        before = self._failures.get(broker, 0)
        self._failures[broker] = before + 1
        if self._waits:
            pause = min(self._first * 2 ** min(before, 20), self._longest)
            pause *= random.uniform(1 - _SPREAD, 1 + _SPREAD)
            self._not_before[broker] = time.monotonic() + pause / _SECOND_MS

    def note_success(self, broker: Hashable) -> None:
        """Record a successful connection."""
        self._failures.pop(broker, None)
        self._not_before.pop(broker, None)
