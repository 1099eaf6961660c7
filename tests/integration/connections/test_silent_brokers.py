"""Brokers that do not answer: a step waits for them once, and names them."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kafka_ferry.config import Cluster
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import ClusterUnreachable, WrongPort
from kafka_ferry.runs import Run
from kafka_ferry.wire.silent_brokers import silent_brokers
from kafka_sandbox.broker import HOST, free_port
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.logins.secure import Authority
from tests.faults.sides import frozen
from tests.support.brokers.leaders import leaders
from tests.support.records.builders import create_topic, produce
from tests.support.records.histories import named
from tests.support.runs.flows import copy_now, copy_planned, make_flow, plan_now
from tests.support.runs.pair import Pair
from tests.support.servers.http_server import QuietHandler, http_server


@pytest.fixture
def short_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is silent on this machine stays so: no test need wait for it as long as a run does."""
    monkeypatch.setattr("kafka_ferry.wire.silent_brokers._PROBE_MS", 800)


@pytest.mark.usefixtures("short_probe")
def test_a_broker_that_is_gone_or_silent_is_told_from_one_that_answers(
    primary: KafkaCluster,
) -> None:
    gone = f"{HOST}:{free_port()}"
    with socket.create_server((HOST, 0)) as mute:
        silent = f"{HOST}:{mute.getsockname()[1]}"
        servers = f"{gone},{primary.bootstrap},{silent}"
        cluster = Cluster(alias="a", properties={"bootstrap.servers": servers})
        mute_symptom = f"{silent} (it accepts connections, and does not answer as a Kafka broker)"
        assert set(silent_brokers(cluster)) == {gone, mute_symptom}


@pytest.mark.usefixtures("short_probe")
def test_a_port_of_another_kind_than_the_flow_says_is_told_as_what_it_is(
    primary: KafkaCluster,
) -> None:
    over_tls = {"security.protocol": "SSL"}
    with (
        http_server(QuietHandler) as web,
        http_server(QuietHandler, Authority("root").issue("localhost")) as web_by_tls,
    ):
        ports = [urlsplit(url).netloc for url in (web, web_by_tls)]
        cases = (
            (
                primary.bootstrap.split(",")[0],
                over_tls,
                "this port of a Kafka broker speaks no TLS",
            ),
            (ports[1], {}, "this port speaks TLS"),
            (ports[0], {}, "a web server listens there"),
        )
        for address, properties, words in cases:
            cluster = Cluster(alias="a", properties={"bootstrap.servers": address, **properties})
            (told,) = silent_brokers(cluster)
            assert told.startswith(f"{address} ({words}")
            # A web server that waits for the end of a line is silent, as a broker may be.
            if address != ports[0]:
                with pytest.raises(WrongPort, match=words):
                    ClusterControl(cluster).cluster_id()


@pytest.mark.long
def test_a_step_waits_once_for_brokers_that_are_frozen_and_names_them(
    pair: Pair, tmp_path: Path
) -> None:
    """Two of three: what the third one is asked, it cannot answer either."""
    with Brokers(tmp_path / "target") as target, ExitStack() as harm:
        topic = pair.topic("frozen")
        flow = make_flow(tmp_path, pair.primary, target, [topic], admin_timeout_ms=8_000)
        copy_now(flow)
        dead = [target.brokers[node] for node in (1, 2)]
        for broker in dead:
            harm.enter_context(frozen(broker))
        run = Run(flow, "run-2")
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(ClusterUnreachable) as caught:
                run.plan()
            assert "Brokers of backup that do not answer: " in str(caught.value)
            # The system still accepts its connections.
            assert all(f"{broker.bootstrap} (it accepts" in str(caught.value) for broker in dead)
            # Several times what it is to take: each call that asks again would add eight seconds.
            assert time.monotonic() - began < 60


@pytest.mark.long
def test_a_copy_waits_once_for_brokers_of_the_source_that_are_frozen_and_copies_what_others_lead(
    pair: Pair, tmp_path: Path
) -> None:
    with Brokers(tmp_path / "source") as source, ExitStack() as harm:
        create_topic(source.bootstrap, "frozen", 6)
        produce(source.bootstrap, "frozen", named("a", 200))
        flow = make_flow(
            tmp_path, source, pair.backup, ["frozen"], partition_wait_ms=15_000, writers=1
        )
        plan = plan_now(flow)
        led = {number for number, (node, _) in leaders(source, "frozen").items() if node == 3}
        for node in (1, 2):
            harm.enter_context(frozen(source.brokers[node]))
        began = time.monotonic()
        outcomes = copy_planned(flow, plan)
        # Three times what it is to take: brokers that are waited for in turn would add up.
        assert time.monotonic() - began < 60
        assert {it.range.partition for it in outcomes if it.failure is None} == led
        assert all(it.failure.transient for it in outcomes if it.failure)
