"""Which brokers of a cluster do not answer."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any, Final

from kafka.protocol.metadata import MetadataRequest

from kafka_ferry.config import Cluster, kafka_python_config
from kafka_ferry.errors import AccessDenied, FerryError
from kafka_ferry.printable import excerpt
from kafka_ferry.wire.connections.connection import Connection
from kafka_ferry.wire.connections.sockets import bootstrap_addresses

_PROBE_MS: Final = 2_000
_AT_ONCE: Final = 16
# No cluster has more, and one that says so could keep the step busy for hours.
_MOST: Final = 256
_OVER_TLS: Final = frozenset({"SSL", "SASL_SSL"})
# A Kafka broker takes it for the size of a request that is too large, and closes the connection.
_WEB_REQUEST: Final = b"HEAD / HTTP/1.0\r\n\r\n"

_Address = tuple[str, int]


def silent_brokers(cluster: Cluster) -> list[str]:
    """The brokers that do not answer within two seconds: ``host:port``, and what can be told of why.

    Asked are the bootstrap servers, and the brokers that those which answer know: 256 at most.

    Raises:
        ConfigError: no connection can be configured.
    """
    settings = kafka_python_config(cluster.client_properties("admin")) | {
        "request_timeout_ms": _PROBE_MS,
        "socket_connection_setup_timeout_ms": _PROBE_MS,
    }
    known_to: dict[_Address, set[_Address] | None] = {}
    left = {*bootstrap_addresses(settings)}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while left:
            answers = zip(left, pool.map(partial(_brokers_known_to, settings), left), strict=True)
            known_to.update(answers)
            unprobed = {
                broker for known in known_to.values() for broker in known or ()
            } - known_to.keys()
            left = set(sorted(unprobed)[: _MOST - len(known_to)])
        silent = sorted(address for address, known in known_to.items() if known is None)
        symptoms = pool.map(partial(_symptom, settings), silent)
    return [
        f"{excerpt(f'{host}:{port}')}{symptom}"
        for (host, port), symptom in zip(silent, symptoms, strict=True)
    ]


def wrong_ports(settings: Mapping[str, Any]) -> str:
    """What listens at the bootstrap servers, where none of them is a broker's port under these settings.

    Returns:
        "" where one of them may be, such as one that is silent.
    """
    wrong_ports = []
    for host, port in bootstrap_addresses(settings):
        if not (kind := _wrong_port(settings, (host, port))):
            return ""
        wrong_ports.append(f"{excerpt(f'{host}:{port}')} ({kind})")
    return ", ".join(wrong_ports)


def _symptom(settings: Mapping[str, Any], address: _Address) -> str:
    """What is said of a host without an address, or of a port that something listens on; "" for nothing."""
    try:
        with socket.create_connection(address, _PROBE_MS / 1000):
            pass
    except (socket.gaierror, ValueError):
        return " (this machine cannot resolve the name; is it the one that advertised.listeners should give?)"
    except OSError:
        return ""
    kind = _wrong_port(settings, address)
    return f" ({kind or 'it accepts connections, and does not answer as a Kafka broker'})"


def _wrong_port(settings: Mapping[str, Any], address: _Address) -> str:
    """What listens on a port that does not answer as a broker does under these settings, "" if that is not known."""
    if settings.get("security_protocol") in _OVER_TLS:
        if _is_plain_broker(settings, address):
            return "this port of a Kafka broker speaks no TLS: security.protocol says that it does"
    elif _speaks_tls(address):
        return "this port speaks TLS: security.protocol says that it does not"
    if _is_web_server(address):
        return "a web server listens there, and no Kafka broker"
    return ""


def _is_plain_broker(settings: Mapping[str, Any], address: _Address) -> bool:
    """Whether a broker answers without TLS; it is asked before any login, so no secret is sent."""
    try:
        Connection(*address, {**settings, "security_protocol": "PLAINTEXT"}).close()
    except FerryError:
        return False
    return True


def _speaks_tls(address: _Address) -> bool:
    try:
        with socket.create_connection(address, _PROBE_MS / 1000) as plain:
            # Without an authority no certificate is trusted.
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_socket(plain, server_hostname=address[0])
    except ssl.SSLCertVerificationError:
        return True
    except OSError:
        return False
    return True


def _is_web_server(address: _Address) -> bool:
    try:
        with socket.create_connection(address, _PROBE_MS / 1000) as plain:
            plain.sendall(_WEB_REQUEST)
            return plain.recv(len(b"HTTP/")).startswith(b"HTTP")
    except OSError:
        return False


def _brokers_known_to(settings: Mapping[str, Any], address: _Address) -> set[_Address] | None:
    """The brokers that a broker knows; None where it does not answer."""
    try:
        with closing(Connection(*address, settings)) as connection:
            answer = connection.call(MetadataRequest(topics=[], allow_auto_topic_creation=False))
    except AccessDenied:
        return set()
    except FerryError:
        return None
    return {(broker.host, broker.port) for broker in answer.brokers}
