"""Brokers that are reached through proxies, by their clients and by each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from kafka_sandbox.broker import HOST, Broker, free_port
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.network.proxy import Proxy


@dataclass(frozen=True)
class ProxyAddress:
    """Where clients begin, for helpers that ask a broker for nothing else."""

    bootstrap: str


class ProxiedBroker(Broker):
    """A broker with a listener for each kind of peer; all but the direct one are reached through a proxy each.

    ``bootstrap`` is the direct way, which no fault of a proxy concerns.

    Attributes:
        proxy: before clients that begin at ``proxied``.
        between: before other brokers, and before other controllers.
    """

    def __init__(
        self, directory: Path, *, controller_port: int | None = None, **options: Any
    ) -> None:
        inner = {name: free_port() for name in ("PROXIED", "INTERNAL", "CONTROLLER")}
        self.proxy = Proxy(inner["PROXIED"])
        # Other controllers know this one by the port of the proxy before it.
        internal = Proxy(inner["INTERNAL"])
        self.between = (internal, Proxy(inner["CONTROLLER"], controller_port))
        super().__init__(directory, controller_port=inner["CONTROLLER"], **options)
        ports = {"PLAINTEXT": self.port, **inner}
        shown = {"PLAINTEXT": self.port, "PROXIED": self.proxy.port, "INTERNAL": internal.port}
        self.config |= {
            "listeners": _listeners(ports),
            "advertised.listeners": _listeners(shown),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in ports),
            "inter.broker.listener.name": "INTERNAL",
        }

    @property
    def proxied(self) -> ProxyAddress:
        """The address of the proxy."""
        return ProxyAddress(self.proxy.bootstrap)

    def wipe(self) -> None:
        """Stop broker and proxies, and delete the broker's directory."""
        super().wipe()
        for proxy in (self.proxy, *self.between):
            proxy.close()


class ProxiedBrokers(Brokers):
    """A cluster of ``ProxiedBroker``."""

    brokers: dict[int, ProxiedBroker]  # type: ignore[assignment]

    def __init__(self, directory: Path, **options: Any) -> None:
        super().__init__(directory, kind=ProxiedBroker, **options)

    @property
    def proxied(self) -> ProxyAddress:
        """The addresses of the proxies."""
        return ProxyAddress(",".join(broker.proxy.bootstrap for broker in self.brokers.values()))

    def cut_off(self, node: int, seconds: float) -> None:
        """Let nothing pass for a while between a broker and the other ones; clients reach all of them."""
        is_its = _ports_of(self.brokers[node])
        for other, broker in self.brokers.items():
            whose = _none_of(is_its) if other == node else is_its
            for proxy in broker.between:
                proxy.hold(seconds, whose)

    def heal(self) -> None:
        """Let everything pass again."""
        for broker in self.brokers.values():
            for proxy in (broker.proxy, *broker.between):
                proxy.heal()


def _ports_of(broker: ProxiedBroker) -> Callable[[int], bool]:
    """Tells whether a port is one from which the broker's process has connected."""
    known: dict[int, bool] = {}

    def is_its(port: int) -> bool:
        if port not in known:
            known[port] = port in _local_ports(broker.pid)
        return known[port]

    return is_its


def _local_ports(pid: int | None) -> set[int]:
    try:
        return (
            {it.laddr.port for it in psutil.Process(pid).net_connections("tcp")} if pid else set()
        )
    except psutil.NoSuchProcess:
        return set()


def _none_of(is_its: Callable[[int], bool]) -> Callable[[int], bool]:
    return lambda port: not is_its(port)


def _listeners(ports: dict[str, int]) -> str:
    return ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
