"""What a flow says of sockets binds the connections that carry the data."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from kafka_ferry.config.client.translate import kafka_python_config
from kafka_ferry.errors import ClusterUnreachable
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.connections.connection import Connection
from kafka_ferry.wire.connections.sockets import (
    Backoff,
    bootstrap_addresses,
    idle_limit_s,
    open_socket,
    require_reachable,
)
from tests.unit.wire.scripted import ScriptedBroker


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def settings(**properties: str) -> dict[str, object]:
    """What the data plane is told by a flow's properties; a double underscore is a dot."""
    dotted = {name.replace("__", "."): value for name, value in properties.items()}
    return kafka_python_config({"bootstrap.servers": "127.0.0.1:1"} | dotted)


def buffers(listener: socket.socket, told: dict[str, object]) -> tuple[int, int]:
    with open_socket("127.0.0.1", listener.getsockname()[1], told, 5) as plain:
        names = (socket.SO_RCVBUF, socket.SO_SNDBUF)
        received, sent = (plain.getsockopt(socket.SOL_SOCKET, name) for name in names)
        return received, sent


def test_buffers_are_as_large_as_the_flow_says(listener: socket.socket) -> None:
    told = settings(receive__buffer__bytes="70000", send__buffer__bytes="50000")
    # Linux doubles what is asked for.
    assert buffers(listener, told) == (140_000, 100_000)
    as_it_is = settings(receive__buffer__bytes="-1", send__buffer__bytes="-1")
    assert buffers(listener, as_it_is) == buffers(listener, {})


def test_each_address_has_the_set_up_time_and_the_next_one_is_tried(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = listener.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        # No server accepts there: the first connections fill the queue, and the next one hangs.
        busy = [socket.socket() for _ in range(4)]
        for one in busy:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        stream = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
        found = [(*stream, full.getsockname()), (*stream, ("127.0.0.1", port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)
        began = time.monotonic()
        told = settings(socket__connection__setup__timeout__ms="300")
        with open_socket("broker", 9092, told, 30) as plain:
            assert plain.getpeername()[1] == port
            assert plain.gettimeout() == 30
        assert time.monotonic() - began < 5
        for one in busy:
            one.close()


def test_canonical_names_stand_for_each_address_of_a_bootstrap_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {"10.0.0.1": "one.example", "10.0.0.2": "two.example"}
    entries = [(2, 1, 6, "", (address, 9092)) for address in names]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: entries)
    monkeypatch.setattr(socket, "getnameinfo", lambda address, _: (names[address[0]], "9092"))
    told = {"bootstrap_servers": ["kafka:9092"]}
    assert bootstrap_addresses(told) == [("kafka", 9092)]
    told["client_dns_lookup"] = "resolve_canonical_bootstrap_servers_only"  # type: ignore[assignment]
    assert bootstrap_addresses(told) == [("one.example", 9092), ("two.example", 9092)]


@pytest.mark.parametrize(
    ("told", "pauses"),
    [
        ({}, [0, 0, 0]),
        ({"reconnect__backoff__ms": "100", "reconnect__backoff__max__ms": "250"}, [100, 200, 250]),
        ({"reconnect__backoff__ms": "100"}, [100, 100, 100]),
        ({"reconnect__backoff__max__ms": "80"}, [50, 80, 80]),
    ],
)
def test_a_broker_is_connected_to_again_after_a_pause_that_grows(
    told: dict[str, str], pauses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    backoff = Backoff(settings(**told))
    for pause in pauses:
        slept.clear()
        backoff.note_failure("broker")
        backoff.wait("broker")
        assert sum(slept) * 1000 == pytest.approx(pause, rel=0.25)
    backoff.note_success("broker")
    slept.clear()
    backoff.wait("broker")
    assert slept == []


def test_the_set_up_time_doubles_with_each_failure_up_to_its_limit() -> None:
    told = settings(
        socket__connection__setup__timeout__ms="100",
        socket__connection__setup__timeout__max__ms="350",
    )
    backoff = Backoff(told)
    found = []
    for _ in range(4):
        found.append(backoff.settings("broker")["socket_connection_setup_timeout_ms"])
        backoff.note_failure("broker")
    assert found == [100, 200, 350, 350]


def test_a_cluster_waits_before_it_connects_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    told = settings(reconnect__backoff__ms="200") | {"bootstrap_servers": [f"127.0.0.1:{port}"]}
    cluster = WireCluster("a", told)
    began = time.monotonic()
    for _ in range(2):
        with pytest.raises(ClusterUnreachable):
            cluster.any_connection()
    assert time.monotonic() - began > 0.15


def test_an_idle_connection_is_recreated() -> None:
    with ScriptedBroker() as broker:
        told = settings(connections__max__idle__ms="100")
        told["bootstrap_servers"] = [f"127.0.0.1:{broker.port}"]
        with WireCluster("a", told) as cluster:
            first = cluster.any_connection()
            assert cluster.any_connection() is first
            time.sleep(0.15)
            assert cluster.any_connection() is not first
            assert first.closed
    assert idle_limit_s({}) == 540
    assert idle_limit_s(settings(connections__max__idle__ms="-1")) == float("inf")


def test_a_cluster_of_which_one_server_listens_is_reachable(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    require_reachable("primary", settings(bootstrap__servers=f"127.0.0.1:1,127.0.0.1:{port}"))


def test_of_a_cluster_where_none_listens_each_servers_reason_is_told() -> None:
    servers = "127.0.0.1:1,nobody.invalid:9092"

    with pytest.raises(ClusterUnreachable) as caught:
        require_reachable("primary", settings(bootstrap__servers=servers))

    assert "primary cannot be reached: Connection refused at 127.0.0.1:1; " in caught.value.message
    assert "at nobody.invalid:9092." in caught.value.message
    assert caught.value.advice.startswith("Check primary.bootstrap.servers")
    with pytest.raises(ClusterUnreachable) as caught:
        require_reachable(
            "primary",
            settings(bootstrap__servers=servers),
            "source.admin.bootstrap.servers in f.yaml",
        )
    assert caught.value.advice.startswith("Check source.admin.bootstrap.servers in f.yaml, and")


def test_a_name_that_does_not_resolve_is_blamed_on_who_gives_it() -> None:
    with pytest.raises(ClusterUnreachable) as caught:
        Connection("nobody.invalid", 9092, settings(), "primary")

    assert "primary (nobody.invalid:9092): this machine cannot resolve the name" in str(
        caught.value
    )
    assert "advertised.listeners" in caught.value.advice


def test_the_address_of_an_ipv6_server_is_without_brackets() -> None:
    told = settings(bootstrap__servers="[::1]:9092,kafka-1:9093")
    assert bootstrap_addresses(told) == [("::1", 9092), ("kafka-1", 9093)]
