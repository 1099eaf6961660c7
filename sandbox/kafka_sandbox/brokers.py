"""Real brokers that are one cluster: racks, replicas, and leaders on each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Self

from confluent_kafka.admin import AdminClient

from kafka_ferry.retry import retry
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.cluster import GROUP, TRANSACTION
from kafka_sandbox.broker import HOST, Broker, free_port, quiet_client
from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.errors import SandboxError
from kafka_sandbox.java.jars import KAFKA_VERSION
from kafka_sandbox.storage import new_id

# Six brokers on two cores may be silent for seconds, and are not dead.
_SLOW_MACHINE = {"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "1000"}
# A follower hears of a new partition only when its fetch of the others is answered.
_QUICK = {"replica.fetch.wait.max.ms": "200"}
# Nothing changes for clients that do not say in which rack they are.
_NEAREST = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
_REPLICATION = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
_IN_SYNC = (
    "min.insync.replicas",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.min.isr",
)


class Brokers(KafkaCluster):
    """Brokers, each a controller too (KRaft), in the racks ``r1``, ``r2``, ...

    Topics have a replica on each of up to three, unless they say otherwise, and take writes while no
    more than one is missing.

    Args:
        directory: gets a folder for each broker, as ``Broker`` has it.
        count: how many brokers.
        ports: of the plaintext listeners, free ones unless given; each one's controller listens on
            the next port where they are given.
        config: properties of all brokers, which override the sandbox's own.
        daemon: as of ``Broker``.
        kind: the class of the brokers.
        version: of Kafka, as of ``Broker``.

    Attributes:
        directory: see above.
        brokers: by node id, from 1 on.
    """

    def __init__(
        self,
        directory: Path,
        *,
        count: int = 3,
        ports: Iterable[int] | None = None,
        config: Mapping[str, str] | None = None,
        daemon: bool = False,
        kind: type[Broker] = Broker,
        version: str = KAFKA_VERSION,
    ) -> None:
        self.directory = directory.resolve()
        nodes = range(1, count + 1)
        given = dict(zip(nodes, ports or (), strict=False))
        controllers = {node: given[node] + 1 if given else free_port() for node in nodes}
        voters = ",".join(f"{node}@{HOST}:{port}" for node, port in controllers.items())
        id_ = new_id()
        self.brokers = {
            node: kind(
                self.directory / f"broker-{node}",
                port=given.get(node),
                controller_port=controllers[node],
                daemon=daemon,
                version=version,
                cluster_id=id_,
                config={
                    "node.id": str(node),
                    "broker.rack": f"r{node}",
                    "controller.quorum.voters": voters,
                    **_SLOW_MACHINE,
                    **_QUICK,
                    **_NEAREST,
                    **dict.fromkeys(_REPLICATION, str(min(count, 3))),
                    **dict.fromkeys(_IN_SYNC, str(min(count, 2))),
                    **(config or {}),
                },
            )
            for node in nodes
        }

    @property
    def bootstrap(self) -> str:
        """See ``KafkaCluster.bootstrap``."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def is_up(self) -> bool:
        """Whether all brokers run."""
        return all(broker.pid for broker in self.brokers.values())

    def log_folder(self, topic: str, partition: int) -> Path:
        """See ``KafkaCluster.log_folder``."""
        leader = _leaders(quiet_client(self.bootstrap), topic)[partition]
        return self.brokers[leader].log_folder(topic, partition)

    def start(self) -> Self:
        """See ``KafkaCluster.start``."""
        for broker in self.brokers.values():
            broker.start()
        return self

    def wait_ready(self, timeout: float = 60) -> Self:
        """See ``KafkaCluster.wait_ready``: each broker must answer, and know of all the others."""
        for broker in self.brokers.values():
            broker.wait_ready(timeout)
        client = quiet_client(self.bootstrap)
        self._wait(lambda: {*client.list_topics(timeout=10).brokers}, "up and known", timeout)
        return self

    def assert_spread(self) -> None:
        """Have the topics made that coordinators keep, and see that each broker leads parts of both.

        Raises:
            SandboxError: a broker coordinates no groups, or no transactions.
        """
        with WireCluster("sandbox", {"bootstrap_servers": self.bootstrap.split(",")}) as cluster:
            # A cluster creates these topics when a client first asks for a coordinator.
            for kind in (GROUP, TRANSACTION):
                retry(partial(cluster.coordinator, "any", kind))
        for topic in ("__transaction_state", "__consumer_offsets"):
            self._wait(partial(self._leading, topic), f"leaders of {topic}", 30)

    def _leading(self, topic: str) -> set[int]:
        return {*_leaders(quiet_client(self.bootstrap), topic).values()}

    def _wait(self, nodes: Callable[[], set[int]], what: str, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while (found := nodes()) != {*self.brokers}:
            if time.monotonic() > deadline:
                raise SandboxError(f"Only {sorted(found)} of {[*self.brokers]} are {what}.")
            time.sleep(0.02)

    def stop(self, timeout: float = 30) -> None:
        """See ``KafkaCluster.stop``; side by side, since the last ones have no quorum to leave in order."""
        self._each("stop", timeout)

    def kill(self) -> None:
        """See ``KafkaCluster.kill``."""
        self._each("kill")

    def wipe(self) -> None:
        """See ``KafkaCluster.wipe``."""
        self._each("wipe")

    def _each(self, what: str, *arguments: object) -> None:
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(lambda broker: getattr(broker, what)(*arguments), self.brokers.values()))


def _leaders(client: AdminClient, topic: str) -> dict[int, int]:
    """By partition, the node that leads it."""
    partitions = client.list_topics(topic, timeout=10).topics[topic].partitions
    return {number: partition.leader for number, partition in partitions.items()}
