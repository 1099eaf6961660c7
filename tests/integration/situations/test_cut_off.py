"""A broker of the source that is cut off from the others, and still reached by clients, is not believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_ferry.config import load_flow
from kafka_ferry.model import TopicPartition
from kafka_ferry.wire import Connection
from kafka_ferry.wire.partition_leader import leaders_in, topics_request
from kafka_sandbox.broker import HOST
from kafka_sandbox.cluster import KafkaCluster, start_all
from kafka_sandbox.network.proxied import ProxiedBroker, ProxiedBrokers, ProxyAddress
from tests.faults.sides import active_controller
from tests.support.records.builders import produce
from tests.support.records.histories import named
from tests.support.runs.command_line import ferry
from tests.support.runs.flows import assert_same, copy_now, failures, remote, write_flow
from tests.support.runs.proof import prove, recount_here
from tests.support.waiting import wait_until


@pytest.fixture
def source(folder: Path) -> Iterator[ProxiedBrokers]:
    source = ProxiedBrokers(folder / "source")
    try:
        start_all([source])
        yield source
    finally:
        source.wipe()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_leader_that_is_cut_off_hides_nothing_that_another_has_written(
    folder: Path,
    source: ProxiedBrokers,
    backup: KafkaCluster,
    unique: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recount_here(monkeypatch)
    controller, topic = active_controller(source), unique("orders")
    cut_off, other = (node for node in source.brokers if node != controller)
    new = NewTopic(topic, 1, replica_assignment=[[cut_off, controller, other]])
    client = AdminClient({"bootstrap.servers": source.bootstrap})
    client.create_topics([new])[topic].result()
    wait_until(lambda: all(_leader(it, topic) == cut_off for it in source.brokers.values()))
    first = [source.brokers[node] for node in (cut_off, controller, other)]
    servers = ProxyAddress(",".join(broker.proxy.bootstrap for broker in first))
    file = write_flow(folder, servers, backup, [topic])
    flow = load_flow(file)
    produce(source.bootstrap, topic, named("before", 20))
    prove(flow)

    source.cut_off(cut_off, 200)
    live = source.brokers[controller]
    wait_until(lambda: _leader(live, topic) not in (-1, cut_off), 60)
    produce(live.bootstrap, topic, named("since", 20))

    assert _leader(source.brokers[cut_off], topic) == cut_off, "it has heard of the new leader"
    assert "20 offsets behind" in ferry("lag", "--config", file).stdout
    audited = ferry("audit", "--config", file)
    assert (audited.returncode, "20 missing" in audited.stdout) == (2, True)
    assert failures(copy_now(flow, "run-2")) == []
    assert_same(live, topic, backup, remote(flow, topic))


def _leader(broker: ProxiedBroker, topic: str) -> int:
    """Who leads the topic's only partition by the word of a broker; -1 where it knows of none."""
    with closing(Connection(HOST, broker.port, {})) as connection:
        leaders = leaders_in(connection.call(topics_request([topic])))
    leader = leaders.get(TopicPartition(topic, 0))
    return leader.node if leader else -1
