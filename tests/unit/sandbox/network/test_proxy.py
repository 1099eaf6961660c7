"""The proxy of the fault tests: it forwards, and fails as it is told to."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from kafka_sandbox.broker import HOST
from kafka_sandbox.network.proxy import Proxy


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy before a server that sends everything back."""
    with socket.create_server((HOST, 0)) as server:
        threading.Thread(target=_serve, args=(server,), daemon=True).start()
        with Proxy(server.getsockname()[1]) as proxy:
            yield proxy


def _serve(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_echo, args=(connection,), daemon=True).start()


def _echo(connection: socket.socket) -> None:
    try:
        while data := connection.recv(4096):
            connection.sendall(data)
    except OSError:
        connection.close()


def _connect(proxy: Proxy) -> socket.socket:
    client = socket.create_connection((HOST, proxy.port), timeout=5)
    client.sendall(b"hello")
    assert client.recv(5) == b"hello"
    return client


def test_a_cut_resets_connections_and_new_ones_work(proxy: Proxy) -> None:
    with _connect(proxy) as client:
        assert proxy.cut() == 1
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    _connect(proxy).close()


def test_a_stall_delays_and_loses_nothing(proxy: Proxy) -> None:
    with _connect(proxy) as client:
        began = time.monotonic()
        assert proxy.stall(0.3) == 1
        client.sendall(b"later")
        assert client.recv(5) == b"later"
        assert time.monotonic() - began > 0.25


def test_no_client_is_let_in_while_connections_are_refused(proxy: Proxy) -> None:
    with _connect(proxy):
        assert proxy.refuse(60) == 1
    with pytest.raises(ConnectionRefusedError):
        _connect(proxy)
    proxy.heal()
    _connect(proxy).close()


def test_a_client_hears_at_once_that_no_server_listens_at_the_proxys_target() -> None:
    with socket.create_server((HOST, 0)) as server:
        unused = server.getsockname()[1]
    with Proxy(unused) as proxy, pytest.raises(ConnectionResetError):
        _connect(proxy)


def test_on_a_long_link_each_byte_arrives_later_and_none_is_lost(proxy: Proxy) -> None:
    proxy.link.delay_s = 0.1
    sent = os.urandom(3_000_000)
    began = time.monotonic()
    with socket.create_connection((HOST, proxy.port), timeout=5) as client:
        threading.Thread(target=client.sendall, args=(sent,)).start()
        received = client.recv(1)
        # There and back for the connection, and there and back for the bytes.
        assert time.monotonic() - began >= 0.4
        while len(received) < len(sent):
            received += client.recv(100_000)
    assert received == sent


def test_a_slow_link_is_slow_for_all_connections_together(proxy: Proxy) -> None:
    with _connect(proxy) as one, _connect(proxy) as other:
        proxy.link.bytes_per_s = 200_000
        began = time.monotonic()
        for client in (one, other):
            client.sendall(bytes(20_000))
        for client in (one, other):
            left = 20_000
            while left:
                left -= len(client.recv(left))
        assert time.monotonic() - began > 0.15
