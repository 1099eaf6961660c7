"""What keeps a TLS connection from coming about, and whether it passes by itself."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafka_ferry.errors import AccessDenied, ClusterUnreachable
from kafka_ferry.wire import Connection
from kafka_ferry.wire.connections.tls import tls_fault

HOST = "127.0.0.1"


def failure(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] something (_ssl.c:1006)")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "refused the TLS connection"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "refused the TLS connection"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "refused the TLS connection"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "refused the TLS connection"),
        ("WRONG_VERSION_NUMBER", "does not speak TLS"),
    ],
)
def test_what_a_broker_refuses_is_final(reason: str, said: str) -> None:
    fault = tls_fault("primary (a:1)", failure(reason))
    assert isinstance(fault, AccessDenied)
    assert fault.message.startswith("primary (a:1) ")
    assert said in fault.message
    assert reason in fault.message
    assert fault.advice


@pytest.mark.parametrize(
    "reason", ["UNEXPECTED_EOF_WHILE_READING", "TLSV1_ALERT_INTERNAL_ERROR", "SOMETHING_ELSE"]
)
def test_what_a_stopping_broker_does_may_pass(reason: str) -> None:
    fault = tls_fault("primary (a:1)", failure(reason))
    assert isinstance(fault, ClusterUnreachable)
    assert reason in fault.message


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A port that says ``answer`` to each client that connects, and hangs up."""
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("answer", "kind"), [(b"HTTP/1.1 400 Bad\r\n\r\n", AccessDenied), (b"", ClusterUnreachable)]
)
def test_a_port_without_tls_is_told_by_cluster_and_address(
    answer: bytes, kind: type[Exception]
) -> None:
    settings = {"security_protocol": "SSL", "ssl_context": ssl.create_default_context()}
    with (
        answering(answer) as port,
        pytest.raises(kind, match=rf"primary \({HOST}:{port}\).*security\.protocol"),
    ):
        Connection(HOST, port, settings, "primary")
