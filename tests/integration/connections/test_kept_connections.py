"""Connections are left open for the next who needs them, and only while they work."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_ferry.control.admin import admin_client, admin_config, forget_clients
from kafka_ferry.wire import WireCluster, borrow
from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.network.proxy import Proxy
from tests.support.runs.pair import Pair


@pytest.fixture
def proxy(primary: KafkaCluster) -> Iterator[Proxy]:
    """The way to a broker, which can be cut."""
    port = int(primary.bootstrap.split(",")[0].rpartition(":")[2])
    with Proxy(port) as proxy:
        yield proxy


def asked(cluster: WireCluster) -> object:
    """Any broker, which is one connection as long as there is an open one."""
    cluster.nodes()
    return cluster.any_connection()


def test_the_next_one_gets_the_connections_of_the_last(proxy: Proxy) -> None:
    settings = {"bootstrap_servers": [proxy.bootstrap]}
    with borrow("kept", settings) as first:
        connection = asked(first)
        with borrow("kept", settings) as meanwhile:
            assert asked(meanwhile) is not connection
    with borrow("kept", settings) as second:
        assert asked(second) is connection
    with borrow("kept", settings | {"client_id": "another"}) as other:
        assert asked(other) is not connection


def test_after_an_error_nothing_is_kept(proxy: Proxy) -> None:
    settings = {"bootstrap_servers": [proxy.bootstrap]}
    with pytest.raises(RuntimeError), borrow("failed", settings) as first:
        connection = asked(first)
        raise RuntimeError
    with borrow("failed", settings) as second:
        assert asked(second) is not connection


def test_a_connection_that_was_cut_meanwhile_is_not_used(proxy: Proxy) -> None:
    settings = {"bootstrap_servers": [proxy.bootstrap]}
    with borrow("cut", settings) as first:
        first.any_connection()
    proxy.cut()
    with borrow("cut", settings) as second:
        assert second.nodes()


def test_a_request_is_answered_though_another_client_takes_its_clients_place(pair: Pair) -> None:
    cluster = pair.flow(["any"]).source
    config = admin_config(cluster)
    for _ in range(3):
        answer = admin_client(cluster, config).describe_cluster(request_timeout=15)
        # As another thread does whose own request has failed.
        forget_clients()
        assert answer.result(timeout=20).nodes
