"""Where a cluster's brokers are: learned when it is missing, and again when a broker has moved."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from kafka_ferry.config import Cluster
from kafka_ferry.errors import BrokerError, ClusterUnreachable
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry_for
from kafka_ferry.wire import WireCluster, borrow
from kafka_ferry.wire.cluster import GROUP, TRANSACTION
from kafka_ferry.wire.connections import connection as connection_module
from kafka_ferry.wire.connections.connection import Connection
from kafka_ferry.wire.groups.offsets import fetch_offsets
from kafka_ferry.wire.partition_leader import topics_request
from kafka_ferry.wire.silent_brokers import silent_brokers

from .scripted import HOST, KINDS, METADATA, ScriptedBroker, led, metadata, sample

COORDINATOR = next(kind for kind in KINDS if kind.request is FindCoordinatorRequest)
Starting = Callable[[], ScriptedBroker]
TLS = {"security_protocol": "SSL", "ssl_context": ssl.create_default_context()}


@pytest.fixture
def start() -> Iterator[Starting]:
    started: list[ScriptedBroker] = []

    def start() -> ScriptedBroker:
        started.append(ScriptedBroker())
        return started[-1]

    yield start
    for broker in started:
        broker.stop()


def say_where(brokers: dict[int, ScriptedBroker], *, coordinator: int = 1) -> None:
    """Let each broker tell where all of them are, and who coordinates."""
    found = sample(
        COORDINATOR.response[None],
        COORDINATOR.version,
        node_id=coordinator,
        host=HOST,
        port=brokers[coordinator].port,
    )
    for broker in brokers.values():
        broker.speak({METADATA: metadata(brokers), COORDINATOR: found.encode()})


def stop(*brokers: ScriptedBroker) -> list[int]:
    """Stop brokers; gives the ports that they leave."""
    ports = [broker.port for broker in brokers]
    for broker in brokers:
        broker.stop()
    return ports


def cluster_of(*brokers: ScriptedBroker, **settings: object) -> WireCluster:
    servers = [f"{HOST}:{broker.port}" for broker in brokers]
    defaults: Mapping[str, object] = {"bootstrap_servers": servers, "request_timeout_ms": 1000}
    return WireCluster("backup", {**defaults, **settings})


def test_a_broker_that_was_not_asked_yet_is_learned(start: Starting) -> None:
    brokers = {1: start(), 2: start(), 3: start()}
    say_where(brokers)
    with cluster_of(brokers[1]) as cluster:
        assert cluster.connection(3).peer == (HOST, brokers[3].port)


def test_a_broker_is_learned_where_only_a_coordinator_is_known(start: Starting) -> None:
    brokers = {1: start(), 2: start(), 3: start()}
    say_where(brokers, coordinator=2)
    with cluster_of(brokers[1]) as cluster:
        assert cluster.coordinator("readers", GROUP).peer == (HOST, brokers[2].port)
        assert cluster.connection(3).peer == (HOST, brokers[3].port)


@pytest.mark.parametrize("finds", ["leaders", "coordinator", "group"])
def test_a_broker_of_another_cluster_is_asked_nothing(start: Starting, finds: str) -> None:
    """Whoever holds one cluster could have the flow write to the other one, where its login is good for both."""
    own, stranger = start(), start()
    say_where({1: own, 2: stranger}, coordinator=2)
    stranger.speak({METADATA: metadata({2: stranger}, cluster_id="another")})
    with cluster_of(own) as cluster:
        if finds == "leaders":
            cluster.topic_leaders("orders")
        with pytest.raises(
            ClusterUnreachable, match="of the cluster another, but brokers of orders"
        ):
            if finds == "leaders":
                cluster.connection(2)
            elif finds == "coordinator":
                cluster.coordinator("writer", TRANSACTION)
            else:
                (error,) = fetch_offsets(cluster, ["readers"]).values()
                raise error
        assert cluster.connection(1).is_idle


def test_a_cluster_that_was_made_again_at_its_place_is_known_by_its_new_id(start: Starting) -> None:
    brokers = {1: start(), 2: start()}
    say_where(brokers)
    with cluster_of(brokers[1]) as cluster:
        assert cluster.connection(2).is_idle
        cluster.close()
        for broker in brokers.values():
            broker.speak({METADATA: metadata(brokers, cluster_id="new")})
        assert cluster.cluster_id() == "new"
        assert cluster.connection(2).is_idle


def test_several_coordinators_are_looked_up_in_one_round_trip(
    start: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = start()
    say_where({1: broker})
    keys = [("readers", GROUP), ("writer", TRANSACTION)]
    steps = []
    with cluster_of(broker) as cluster:
        cluster.any_connection()
        for name in ("send", "receive"):
            step = getattr(Connection, name)
            monkeypatch.setattr(
                Connection,
                name,
                lambda *args, name=name, step=step, **options: (
                    steps.append(name) or step(*args, **options)
                ),
            )
        cluster.find_coordinators(keys)
        assert [cluster.coordinator_node(*key) for key in keys] == [1, 1]
    assert steps == ["send", "send", "receive", "receive"]


def test_a_coordinator_that_was_not_found_with_others_is_named_where_it_is_needed(
    start: Starting,
) -> None:
    broker = start()
    say_where({1: broker})
    none = sample(COORDINATOR.response[None], COORDINATOR.version, error_code=15)
    broker.speak({METADATA: metadata({1: broker}), COORDINATOR: none.encode()})
    with cluster_of(broker) as cluster:
        cluster.find_coordinators([("readers", GROUP), ("writer", TRANSACTION)])
        with pytest.raises(BrokerError, match="Finding the coordinator of writer") as caught:
            cluster.coordinator_node("writer", TRANSACTION)
    assert caught.value.transient


@pytest.mark.parametrize(("later_s", "known"), [(1, 1), (60, 2)])
def test_who_borrows_connections_later_looks_coordinators_up_again(
    start: Starting, monkeypatch: pytest.MonkeyPatch, later_s: float, known: int
) -> None:
    brokers = {1: start(), 2: start()}
    settings = {"bootstrap_servers": [f"{HOST}:{brokers[1].port}"], "request_timeout_ms": 1000}
    say_where(brokers, coordinator=1)
    with borrow("backup", settings) as cluster:
        cluster.coordinator("readers", GROUP)
    say_where(brokers, coordinator=2)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + later_s)
    with borrow("backup", settings) as again:
        assert again is cluster
        assert again.coordinator_node("readers", GROUP) == known


def test_a_broker_that_does_not_answer_any_more_is_looked_for(start: Starting) -> None:
    brokers = {1: start(), 2: start()}
    say_where(brokers)
    with cluster_of(brokers[1]) as cluster:
        cluster.connection(2)
        brokers[2].stop()
        cluster.connection(2).close()
        moved = brokers | {2: start()}
        say_where(moved)
        assert cluster.connection(2).peer == (HOST, moved[2].port)


def test_a_broker_whose_place_another_one_has_taken_is_followed(start: Starting) -> None:
    brokers = {1: start(), 2: start(), 3: start()}
    say_where(brokers)
    with cluster_of(brokers[1]) as cluster:
        before = cluster.connection(2)
        say_where({1: brokers[1], 2: brokers[3], 3: brokers[2]})
        cluster.leaders(())
        assert before.closed
        assert cluster.connection(2).peer == (HOST, brokers[3].port)


@pytest.mark.parametrize(
    ("says", "others_say", "leader"),
    [
        # It is cut off from the others, which have elected a leader.
        (led("orders", 1, 4), led("orders", 2, 5), (2, 5)),
        # They have elected none.
        (led("orders", 1, 4), led("orders", -1, 5), (-1, 5)),
        # The others are behind.
        (led("orders", 1, 5), led("orders", 2, 4), (1, 5)),
        (led("orders", 1, 4), led("orders", 1, 4), (1, 4)),
        # Which of two topics is newer, nothing says.
        (led("orders", 1, 4), led("orders", 2, 0, topic_id=2), (-1, 4)),
        # Before 2.8, brokers know no ids.
        (led("orders", 1, 4), led("orders", 2, 5, topic_id=0), (2, 5)),
        # Before 2.1, brokers name no epochs.
        (led("orders", 1, -1), led("orders", 2, -1), (1, -1)),
    ],
)
def test_a_broker_is_not_believed_who_leads_where_others_know_of_a_newer_leader(
    start: Starting, says: Any, others_say: Any, leader: tuple[int, int]
) -> None:
    brokers = {1: start(), 2: start(), 3: start()}
    for node, broker in brokers.items():
        topics = [says if node == 1 else others_say]
        broker.speak({METADATA: metadata(brokers, topics=topics)})
    tp = TopicPartition("orders", 0)
    with cluster_of(brokers[1]) as cluster:
        found = cluster.leaders([tp])[tp]
        assert (found.node, found.epoch) == leader
        # All are asked together by now: without epochs, any of them may be right.
        again = cluster.topic_leaders("orders")[tp]
        assert again.node == found.node or found.epoch < 0
        assert cluster.recent_leaders([tp])[tp].node == again.node


def test_a_newer_leader_is_found_of_which_the_first_broker_has_not_heard(start: Starting) -> None:
    brokers = {node: start() for node in range(1, 5)}
    before = metadata({node: brokers[node] for node in (1, 2, 3)}, topics=[led("orders", 1, 4)])
    since = metadata(brokers, topics=[led("orders", 4, 5)])
    for node, broker in brokers.items():
        broker.speak({METADATA: before if node == 1 else since})
    tp = TopicPartition("orders", 0)
    with cluster_of(brokers[1]) as cluster:
        for _ in range(2):
            assert cluster.connection(cluster.leaders([tp])[tp].node).peer == (
                HOST,
                brokers[4].port,
            )


def test_who_leads_is_said_by_one_broker_where_the_others_are_silent(
    start: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "SILENCE_S", 0.05)
    brokers = {node: start() for node in range(1, 5)}
    for broker in brokers.values():
        broker.speak({METADATA: metadata(brokers, topics=[led("orders", 1, 4)])})
    brokers[2].stop()
    tp, is_over = TopicPartition("orders", 0), threading.Event()

    def wait(_: object) -> bytes:
        is_over.wait(5)
        return b""

    brokers[3].answer = wait
    with cluster_of(brokers[1], request_timeout_ms=30_000) as cluster:
        began = time.monotonic()
        assert cluster.leaders([tp])[tp].node == 1
        assert cluster.leaders([tp])[tp].node == 1
        assert time.monotonic() - began < 2
        # Neither is asked again at once.
        assert [*cluster._silent_at] == [2, 3]
    is_over.set()


@pytest.mark.parametrize("settings", [{}, {"socket_connection_setup_timeout_ms": 9_000}, TLS])
def test_no_connection_is_waited_for_where_another_broker_will_do(
    settings: Mapping[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall drops what is sent to it, or a proxy takes it and passes nothing on."""
    monkeypatch.setattr(connection_module, "SILENCE_S", 0.05)
    with socket.create_server((HOST, 0), backlog=0) as silent, ExitStack() as waiting:
        where = silent.getsockname()
        # Beyond its backlog, it answers no one.
        for _ in range(0 if settings is TLS else 3):
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(where)
        servers = [f"{HOST}:{where[1]}"]
        with cluster_of(bootstrap_servers=servers, request_timeout_ms=9_000, **settings) as cluster:
            for node in range(1, 4):
                cluster.add_broker(node, *where)
            began = time.monotonic()
            assert cluster.ask_several(lambda: topics_request(["orders"])) == []
            assert time.monotonic() - began < 2


def test_however_many_silent_brokers_one_names_the_others_are_asked_for_seconds(
    start: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hostile broker names a hundred thousand."""
    asked: list[int] = []

    def mute(host: str, port: int, *_: object, **__: object) -> None:
        nonlocal now
        asked.append(port)
        now += 2
        raise ClusterUnreachable(f"{host}:{port} is silent.")

    broker, now = start(), 0.0
    say_where({1: broker})
    with cluster_of(broker) as cluster:
        cluster.nodes()
        for node in range(2, 1_000):
            cluster.add_broker(node, HOST, node)
        monkeypatch.setattr("kafka_ferry.wire.connections.brokers.Connection", mute)
        monkeypatch.setattr(time, "monotonic", lambda: now)
        assert not cluster.has_left(1)
        assert not cluster.has_left(1)
        # The second time, others are.
        assert len(set(asked)) == len(asked) <= 12
        cluster.drop_busy()
        cluster._connections.clear()
        with pytest.raises(ClusterUnreachable, match="No broker of backup answers"):
            cluster.any_connection()
        assert now < 100


def test_the_name_of_a_silent_broker_is_short_and_in_one_line(start: Starting) -> None:
    broker, response = start(), METADATA.response[None]
    entry = response.MetadataResponseBroker
    told = [
        sample(entry, METADATA.version, node_id=node, host=host, port=1)
        for node, host in enumerate(["evil\nERROR: all is lost", "x" * 20_000])
    ]
    answer = sample(response, METADATA.version, brokers=told, topics=[])
    broker.speak({METADATA: answer.encode(version=METADATA.version)})
    servers = {"bootstrap.servers": f"{HOST}:{broker.port}"}

    evil, long = silent_brokers(Cluster(alias="a", properties=servers))

    assert evil.startswith("evil ERROR: all is lost:1 (this machine cannot resolve the name")
    assert len(long) < 500


def test_a_broker_that_is_not_up_is_named(start: Starting) -> None:
    brokers = {1: start(), 2: start()}
    say_where(brokers)
    with (
        cluster_of(brokers[1]) as cluster,
        pytest.raises(ClusterUnreachable, match="backup has no broker 3"),
    ):
        cluster.connection(3)


def test_a_broker_comes_back(start: Starting) -> None:
    brokers = {1: start(), 2: start()}
    say_where({1: brokers[1]})
    with cluster_of(brokers[1]) as cluster:
        with pytest.raises(ClusterUnreachable, match="no broker 2"):
            cluster.connection(2)
        say_where(brokers)
        assert cluster.connection(2).peer == (HOST, brokers[2].port)


def test_a_question_waits_for_no_answer_to_another(start: Starting) -> None:
    broker = start()
    say_where({1: broker})
    with cluster_of(broker) as cluster:
        busy = cluster.connection(1)
        for connection in [busy, cluster.any_connection()]:
            connection.send(MetadataRequest(topics=[]))
        assert cluster.nodes() == [1]
        assert busy.receive().brokers[0].node_id == 1


def test_where_no_known_broker_answers_the_bootstrap_servers_are_asked(start: Starting) -> None:
    door, old, new = start(), start(), start()
    say_where({1: old})
    door.speak({METADATA: metadata({1: old})})
    with cluster_of(door) as cluster:
        old_connections = cluster.connection(1), cluster.any_connection()
        old.stop()
        for connection in old_connections:
            connection.close()
        say_where({1: new})
        door.speak({METADATA: metadata({1: new})})
        assert cluster.connection(1).peer == (HOST, new.port)


def test_a_broker_that_has_hung_up_is_asked_last(start: Starting) -> None:
    brokers = {1: start(), 2: start()}
    say_where(brokers)
    with cluster_of(brokers[1], brokers[2]) as cluster:
        first = cluster.any_connection()
        first.close()
        assert cluster.any_connection().peer != first.peer


def test_the_controller_is_asked_for(start: Starting) -> None:
    brokers = {1: start(), 2: start()}
    say_where(brokers)
    brokers[1].speak({METADATA: metadata(brokers, controller=2)})
    with cluster_of(brokers[1]) as cluster:
        assert cluster.controller().peer == (HOST, brokers[2].port)


def test_a_cluster_that_elects_its_controller_is_asked_again(start: Starting) -> None:
    broker = start()
    broker.speak({METADATA: metadata({1: broker}, controller=-1)})
    with (
        cluster_of(broker) as cluster,
        pytest.raises(BrokerError, match="NOT_CONTROLLER") as caught,
    ):
        cluster.controller()
    assert caught.value.transient


def test_a_broker_that_could_not_be_opened_is_not_waited_for_once_more(start: Starting) -> None:
    brokers = {1: start(), 2: start(), 3: start()}
    say_where(brokers)
    with cluster_of(brokers[1]) as cluster:
        assert cluster.nodes() == [1, 2, 3]
        ports = stop(brokers[2], brokers[3])
        with socket.create_server((HOST, ports[0])), retry_for(1):
            cluster.open([2, 3])
            began = time.monotonic()
            with pytest.raises(ClusterUnreachable, match="did not answer within 1 s"):
                cluster.connection(2)
            assert time.monotonic() - began < 0.9


def test_brokers_that_are_opened_side_by_side_have_their_callers_time(
    start: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "_LEAST_TIMEOUT_S", 0.5)
    brokers = {1: start(), 2: start(), 3: start()}
    say_where(brokers)
    with cluster_of(brokers[1], request_timeout_ms=30_000) as cluster:
        assert cluster.nodes() == [1, 2, 3]
        ports = stop(brokers[2], brokers[3])
        with (
            socket.create_server((HOST, ports[0])),
            socket.create_server((HOST, ports[1])),
            retry_for(0.5),
        ):
            began = time.monotonic()
            cluster.open([2, 3])
            assert time.monotonic() - began < 10
