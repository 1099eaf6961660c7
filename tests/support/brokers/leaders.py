"""Moving the leaders of partitions, as those do who balance a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.protocol.admin.topics import ElectionType
from kafka.structs import TopicPartition

from kafka_sandbox.cluster import KafkaCluster
from tests.support.waiting import wait_until

TIMEOUT_S = 20.0


def elect_preferred(cluster: KafkaCluster) -> int:
    """Have each partition led by the first of its replicas; how many leaders have changed.

    Raises:
        KafkaError: if the controller does not answer.
    """
    with _admin(cluster) as client:
        answer = client.elect_leaders(ElectionType.PREFERRED, raise_errors=False)
    return sum(
        entry.error_code == 0
        for topic in answer.replica_election_results
        for entry in topic.partition_result
    )


def reassign(cluster: KafkaCluster, replicas: Mapping[TopicPartition, Sequence[int]]) -> bool:
    """Give partitions other replicas, or another order of them; whether the controller takes any of it.

    Raises:
        KafkaError: if the controller does not answer.
    """
    with _admin(cluster) as client:
        errors = client.alter_partition_reassignments(replicas).values()
    return any(error is None for error in errors)


def move_leaders(cluster: KafkaCluster, topic: str) -> None:
    """Have each partition of a topic led by another one of its replicas."""
    before = leaders(cluster, topic)
    turned = {
        TopicPartition(topic, number): [*others, leader]
        for number, (leader, others) in before.items()
    }
    assert reassign(cluster, turned)
    elect_preferred(cluster)
    wait_until(
        lambda: all(now[0] != before[number][0] for number, now in leaders(cluster, topic).items())
    )


def leaders(cluster: KafkaCluster, topic: str) -> dict[int, tuple[int, list[int]]]:
    """Who leads each partition of a topic, and who else has a replica; nothing where it does not exist."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    try:
        found = client.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    except KafkaException:
        return {}
    return {
        number: (it.leader, [node for node in it.replicas if node != it.leader])
        for number, it in found.items()
    }


@contextmanager
def _admin(cluster: KafkaCluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(
        bootstrap_servers=cluster.bootstrap.split(","), request_timeout_ms=round(TIMEOUT_S * 1000)
    )
    try:
        yield client
    finally:
        client.close()
