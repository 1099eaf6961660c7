"""Several clusters side by side, and all the flows of a file between them, copied without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient

from kafka_ferry.config import Flow, load_flows
from kafka_ferry.model import Plan
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster, start_all
from tests.support.records.builders import (
    Record,
    create_topic,
    delete_all_topics,
    produce,
    read_all,
)
from tests.support.runs.flows import copy_planned, failures, plan_now

Clusters = Mapping[str, KafkaCluster]

_OF_FERRY = ("ferry-", "__")


@contextmanager
def running(
    home: Path, *names: str, config: Mapping[str, str] | None = None
) -> Iterator[dict[str, KafkaCluster]]:
    """Brokers of these names, each a cluster, since there are up to six of them; wiped in the end."""
    brokers = {name: Broker(home / name, config=config) for name in names}
    try:
        start_all(brokers.values())
        yield brokers
    finally:
        for broker in brokers.values():
            broker.wipe()


def write_flows(
    folder: Path, clusters: Clusters, flows: Iterable[str], *lines: str, name: str = "flows"
) -> Path:
    """A properties file in which ``flows`` (``A->B``) are enabled, and more lines of it."""
    said = [
        f"clusters = {', '.join(clusters)}",
        *(f"{alias}.bootstrap.servers = {it.bootstrap}" for alias, it in clusters.items()),
        *(f"{flow}.enabled = true" for flow in flows),
        *settings(folder / f"{name}-state"),
        *lines,
    ]
    file = folder / f"{name}.properties"
    file.write_text("\n".join(said))
    return file


def settings(state: Path) -> list[str]:
    """What all flows have in common."""
    return ["replication.factor = -1", "writers = 2", f"state.dir = {state}"]


def between(
    folder: Path, clusters: Clusters, flows: Iterable[str], *lines: str, name: str = "flows"
) -> tuple[Flow, ...]:
    """The flows of a file that ``write_flows`` wrote."""
    return load_flows(write_flows(folder, clusters, flows, *lines, name=name))


def copy_all(flows: Iterable[Flow], run: str) -> list[Plan]:
    """Run the flows one after the other; nothing may be refused, and nothing may fail."""
    plans = []
    for flow in flows:
        plan = plan_now(flow, run)
        assert not plan.remarks.refused, plan.remarks.refused
        assert failures(copy_planned(flow, plan)) == []
        plans.append(plan)
    return plans


def settle(flows: Sequence[Flow], run: str, *, at_most: int) -> list[list[Plan]]:
    """Run all flows again and again until no plan has anything to copy or to create.

    Returns:
        The plans of each round; those of the last one have nothing to do.
    """
    rounds = []
    for number in range(at_most):
        plans = copy_all(flows, f"{run}-{number}")
        rounds.append(plans)
        if not any(plan.ranges or plan.topics.creations for plan in plans):
            return rounds
    busy = [str(step) for plan in rounds[-1] for step in (*plan.ranges, *plan.topics.creations)]
    raise AssertionError(f"not settled after {at_most} rounds: {busy}")


def topics_of(broker: KafkaCluster) -> set[str]:
    """The topics that are neither Kafka's nor Kafka Ferry's own."""
    listed = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=10).topics
    return {name for name in listed if not name.startswith(_OF_FERRY)}


def values(broker: KafkaCluster, topic: str) -> list[str]:
    """What an independent consumer reads of a topic, partition by partition."""
    read = read_all(broker.bootstrap, topic)
    return [record.value.decode() for part in read.values() for record in part if record.value]


def write(broker: KafkaCluster, topic: str, *texts: str, partitions: int = 1) -> None:
    """Records with these values, and the topic if it is not there."""
    if topic not in topics_of(broker):
        create_topic(broker.bootstrap, topic, partitions)
    produce(broker.bootstrap, topic, [Record(value=text.encode()) for text in texts])


def make_empty(broker: KafkaCluster) -> None:
    """Delete all topics that are not Kafka's own, and all groups."""
    delete_all_topics(broker)
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    groups = [group.group_id for group in client.list_consumer_groups().result().valid]
    if groups:
        delete_groups(broker, groups)


def delete_groups(broker: KafkaCluster, groups: Sequence[str]) -> None:
    """Delete groups, of any kind, with all that they have committed."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    for deleted in client.delete_consumer_groups([*groups]).values():
        deleted.result()
