"""confluent-kafka's admin client, for a cluster that has accepted our login; one for all of a run."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kafka_ferry.config import (
    Cluster,
    confluent_config,
    kafka_python_config,
    only_kafka_python_logs_in,
)
from kafka_ferry.config.client.oauth import OAUTH_LOGIN
from kafka_ferry.control.clients import new_client
from kafka_ferry.control.wire_admin import WireAdmin
from kafka_ferry.errors import ClusterUnreachable, ConfigError, WrongPort
from kafka_ferry.retry import retry
from kafka_ferry.wire import borrow
from kafka_ferry.wire.connections.sockets import require_reachable
from kafka_ferry.wire.silent_brokers import wrong_ports

_KNOCK_MS: Final = 5_000
# Where there is no handshake: librdkafka asks for the same meanwhile.
_PLAIN_KNOCK_MS: Final = 1_000
# A client that is kept must soon see that a broker is back; by default it may wait ten seconds.
_QUICK: Final = {"reconnect.backoff.max.ms": 1_000}
_MOST_KEPT: Final = 4
# The steps of a run follow each other sooner. A client that sat idle knows less of its brokers than a new one.
_KEPT_S: Final = 20.0
# No request is waited for longer.
_LONGEST_REQUEST_S: Final = 120.0

_Key = frozenset[tuple[str, Any]]


class _Clients:
    """The clients that all of a process share, the most recently used last.

    A client that is destroyed before it has answered never answers. So those that another one
    has replaced are held until all that was asked of them is over.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[_Key, tuple[AdminClient, float]] = {}
        self._replaced: deque[tuple[AdminClient, float]] = deque()
        # A fork has none of the threads of its parent's clients: it can neither use nor destroy them.
        self._of_parent: list[AdminClient] = []

    def get(self, key: _Key) -> AdminClient | None:
        """The client of these settings, unless it was not used for too long."""
        with self._lock:
            client, used_at = self._kept.get(key, (None, 0.0))
            return client if time.monotonic() - used_at <= _KEPT_S else None

    def keep(self, key: _Key, client: AdminClient) -> None:
        """Keep a client that is used now."""
        now = time.monotonic()
        with self._lock:
            before = self._kept.pop(key, None)
            if before and before[0] is not client:
                self._replaced.append((before[0], now))
            self._kept[key] = client, now
            while len(self._kept) > _MOST_KEPT:
                self._replaced.append((self._kept.pop(next(iter(self._kept)))[0], now))
            while self._replaced and now - self._replaced[0][1] > _LONGEST_REQUEST_S:
                self._replaced.popleft()

    def forget(self) -> None:
        """Keep none of them."""
        with self._lock:
            now = time.monotonic()
            self._replaced.extend((client, now) for client, _ in self._kept.values())
            self._kept.clear()

    def leave_to_parent(self) -> None:
        """Use none of them after a fork."""
        self._lock = threading.Lock()
        self._of_parent += [client for client, _ in [*self._kept.values(), *self._replaced]]
        self._kept.clear()
        self._replaced.clear()


_CLIENTS: Final = _Clients()
os.register_at_fork(after_in_child=_CLIENTS.leave_to_parent)


def admin_config(cluster: Cluster) -> dict[str, Any]:
    """The configuration of an admin client of ``cluster``; reads its stores.

    With Kerberos or a delegation token, it is that of ``WireAdmin``.

    Raises:
        ConfigError: stores or login are such that librdkafka cannot use them.
    """
    properties = cluster.client_properties("admin")
    if only_kafka_python_logs_in(properties):
        return kafka_python_config(properties)
    return {**_QUICK, **confluent_config(properties, "admin"), "log_level": 0}


def admin_client(cluster: Cluster, config: Mapping[str, Any]) -> AdminClient | WireAdmin:
    """An admin client of ``cluster``, which all that ask for one share.

    The data plane connects first, for librdkafka says only that its requests time out where a port is
    wrong, a login refused or a certificate not trusted.

    Args:
        cluster: the cluster.
        config: its ``admin_config``.

    Raises:
        ClusterUnreachable: no bootstrap server accepts connections for a minute.
        WrongPort: those that do are no brokers, or not of the flow's ``security.protocol``.
        AccessDenied: the cluster refuses the login or the client's certificate, or its certificate is
            not trusted.
        ConfigError: no client can be created with the settings.
    """
    if only_kafka_python_logs_in(cluster.client_properties("admin")):
        return WireAdmin(cluster.alias, config)
    key = frozenset(config.items())
    client = _CLIENTS.get(key)
    if client is None:
        settings = kafka_python_config(cluster.client_properties("admin"))
        # Of a token that brokers refuse, librdkafka would not say why.
        at_once = OAUTH_LOGIN not in config
        # It connects in the background, while this thread looks whether it can.
        client = _new_client(cluster, config) if at_once else None
        retry(lambda: _knock(cluster, settings))
        client = client or _new_client(cluster, config)
    _CLIENTS.keep(key, client)
    return client


def forget_clients() -> None:
    """Keep none of the clients: one of them may hold on to brokers that are gone."""
    _CLIENTS.forget()


def _new_client(cluster: Cluster, config: Mapping[str, Any]) -> AdminClient:
    try:
        return new_client(AdminClient, config)
    except KafkaException as raised:
        reason = f"no client can be created from its properties: {raised.args[0].str()}"
        raise ConfigError(cluster.origin, "admin", reason) from None


def _knock(cluster: Cluster, settings: dict[str, Any]) -> None:
    is_plain = settings["security_protocol"] == "PLAINTEXT"
    patience_ms = _PLAIN_KNOCK_MS if is_plain else _KNOCK_MS
    knocking = settings | {"request_timeout_ms": patience_ms}
    began = time.monotonic()
    try:
        with borrow(cluster.alias, knocking) as door:
            door.any_connection()
    except ClusterUnreachable:
        is_silent = time.monotonic() - began >= patience_ms / 1000
        # The first request reports a broker that accepts connections and is silent, and waits longer for it.
        require_reachable(cluster.alias, settings, cluster.servers_option)
        if not is_silent and (told := wrong_ports(knocking)):
            raise WrongPort(
                f"{cluster.alias} cannot be reached: {told}.",
                advice=f"Check {cluster.servers_option} and security.protocol.",
            ) from None
