"""Unclean leader elections: a follower that lags is elected, and what only the leader had is gone."""

from __future__ import annotations

from contextlib import suppress

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_sandbox.brokers import Brokers
from tests.support.waiting import wait_until

LEADER, FOLLOWER = 1, 2


def create_unclean_topic(cluster: Brokers, topic: str) -> None:
    """A topic of one partition on two of three brokers, either of which may lead it at any price."""
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    new = NewTopic(topic, 1, replica_assignment=[[LEADER, FOLLOWER]], config=config)
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    client.create_topics([new])[topic].result()
    wait_until(lambda: _state(cluster, topic) == (LEADER, {LEADER, FOLLOWER}))


def leave_follower_behind(cluster: Brokers, *topics: str) -> None:
    """Kill the follower: what is written from now on is on the leader alone."""
    cluster.brokers[FOLLOWER].kill()
    for topic in topics:
        wait_until(lambda topic=topic: _state(cluster, topic) == (LEADER, {LEADER}), 60)


def elect_follower(cluster: Brokers, *topics: str) -> None:
    """Kill the leader and start the follower, which is elected; then the old leader follows it."""
    cluster.brokers[LEADER].kill()
    cluster.brokers[FOLLOWER].start().wait_ready()
    for topic in topics:
        wait_until(lambda topic=topic: _state(cluster, topic)[0] == FOLLOWER, 60)
    cluster.brokers[LEADER].start()
    cluster.wait_ready()
    for topic in topics:
        wait_until(lambda topic=topic: _state(cluster, topic) == (FOLLOWER, {LEADER, FOLLOWER}), 60)


def _state(cluster: Brokers, topic: str) -> tuple[int, set[int]]:
    """The partition's leader and its replicas in sync."""
    with suppress(KafkaException, KeyError):
        client = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        found = client.list_topics(topic, timeout=10).topics[topic].partitions[0]
        return found.leader, set(found.isrs)
    return -1, set()
